package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// TestSecretReachesOnlyItsTask: a task must get its secret, and its log must mask it. During and after the run, no
// file of the state folder, response of the API or process list may contain the secret.
func TestSecretReachesOnlyItsTask(t *testing.T) {
	const value = "hunter2-is-the-value"
	state, gate := t.TempDir(), filepath.Join(t.TempDir(), "go")
	h, _ := serve(t, host.Options{State: state})
	c := client.New(h.URL(), h.Token())
	file := []byte(`name: hidden
secrets: {TOKEN: null, STATED: said-in-the-file}
envs: {GATE: "` + gate + `"}
setup: '[ -n "$TOKEN" ] || exit 3'
run: |
  echo "it is $TOKEN and $STATED"; printf %s "$TOKEN" | sha256sum
  while [ ! -e $GATE ]; do sleep 0.05; done
  echo "failing with $TOKEN"; exit 5
`)
	job, err := c.Submit(t.Context(), "job.yaml", "", file, map[string]string{"TOKEN": value})
	if err != nil {
		t.Fatal(err)
	}
	log := func() string {
		var b strings.Builder
		for name, body := range files(t, filepath.Join(state, "logs")) {
			if strings.HasSuffix(name, ".log") {
				b.WriteString(body)
			}
		}
		return b.String()
	}
	eventually(t, "the task prints", func() bool { return strings.Contains(log(), "it is *** and ***\n") })
	nowhere := func() {
		t.Helper()
		for name, body := range files(t, state) {
			if strings.Contains(body, value) || strings.Contains(body, "said-in-the-file") {
				t.Errorf("%s has it", name)
			}
		}
		detail, err := c.Job(t.Context(), job.ID)
		if err != nil {
			t.Fatal(err)
		}
		story, err := c.Explain(t.Context(), job.ID)
		if err != nil {
			t.Fatal(err)
		}
		told, err := json.Marshal([]any{detail, story})
		if err != nil || strings.Contains(string(told), value) {
			t.Errorf("the API tells it: %s %v", told, err)
		}
	}
	nowhere()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if body, err := os.ReadFile(line); err == nil && strings.Contains(string(body), value) {
			t.Errorf("%s has it", line)
		}
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the job fails", func() bool {
		d, err := h.Broker().Views.JobDetail(context.Background(), job.ID)
		return err == nil && d.State == apitypes.JobFailed
	})
	nowhere()
	if got := log(); !strings.HasSuffix(got, "\nfailing with ***\n") {
		t.Errorf("the log ends with %q", got)
	}
	d, err := c.Job(t.Context(), job.ID)
	if err != nil || !strings.Contains(d.Reason, "failing with ***") {
		t.Errorf("reason %q %v", d.Reason, err)
	}
}

// files returns the contents of all files below a folder, by name.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return err
		}
		body, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		found[path] = string(body)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestRejectsSecretWithoutValueWithLine(t *testing.T) {
	h, _ := serve(t, host.Options{State: t.TempDir()})
	c := client.New(h.URL(), h.Token())
	for _, given := range []map[string]string{nil, {"OTHER": "x"}, {"TOKEN": "ssm:/not/there"}} {
		_, err := c.Submit(t.Context(), "job.yaml", "", []byte("run: x\nsecrets:\n  TOKEN:\n"), given)
		var bad *apitypes.Problem
		if !errors.As(err, &bad) || bad.Status != http.StatusUnprocessableEntity || bad.Line != 3 ||
			bad.Field != "secrets.TOKEN" {
			t.Errorf("%v: %v", given, err)
		}
	}
}
