package kubekit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
)

const twoContexts = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: work, context: {cluster: c, user: u}}, {name: lab, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: t}}]
current-context: lab
`

func TestContexts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(twoContexts), 0o600); err != nil {
		t.Fatal(err)
	}
	nothing := func(string) string { return "" }
	inPod := func(name string) string {
		return map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBECONFIG": filepath.Join(t.TempDir(), "none")}[name]
	}
	for _, c := range []struct {
		name     string
		settings cloudkit.Settings
		lookup   cloudkit.Lookup
		want     string // the names, or a part of the error
	}{
		{"current", cloudkit.Settings{Kubeconfig: file}, nothing, "lab"},
		{"named", cloudkit.Settings{Kubeconfig: file, Contexts: []string{"work", "lab"}}, nothing, "work lab"},
		{"by variable", cloudkit.Settings{}, func(string) string { return file }, "lab"},
		{"unknown", cloudkit.Settings{Kubeconfig: file, Contexts: []string{"bench"}}, nothing, `no context "bench": it has lab, work`},
		{"no file", cloudkit.Settings{Kubeconfig: file + "x"}, nothing, "no such file"},
		{"in a pod", cloudkit.Settings{}, inPod, Here},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, names, err := contexts(c.settings, c.lookup)
			got := strings.Join(names, " ")
			if err != nil {
				got = err.Error()
			}
			if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestPools(t *testing.T) {
	all, err := pools([]string{"m5.xlarge:4:16", "arn:aws:eks:x/work/g5.xlarge:4:16:1:8", "lab/x:1:1"},
		"arn:aws:eks:x/work")
	if err != nil || len(all) != 2 || all[1].Whole.GPUs != 1 || all[1].Most != 8 || all[0].Whole.MilliCPU != 4000 {
		t.Errorf("%+v, %v", all, err)
	}
	for _, bad := range []string{"", "m5.xlarge", ":4:16", "a:0:1", "a:1:1:1:1:1", "a:x:1", "a:1:-1"} {
		if _, err := pools([]string{bad}, "lab"); err == nil || !strings.Contains(err.Error(), "m5.xlarge:4:16") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
