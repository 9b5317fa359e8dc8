package kubernetes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// TestPodAffinityBecomesPlacement: affinity between pods of one template becomes placement rules. Affinity to other
// pods and preferred affinity get a warning.
func TestPodAffinityBecomesPlacement(t *testing.T) {
	const manifest = `
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  parallelism: 3
  completions: 3
  completionMode: Indexed
  template:
    metadata: {labels: {app: web}}
    spec:
      restartPolicy: Never
      containers: [{name: c, image: busybox, command: [echo, hi]}]
      affinity:
        %s: {%s: [{topologyKey: %s, labelSelector: {matchLabels: {app: %s}}}]}
`
	const required = "requiredDuringSchedulingIgnoredDuringExecution"
	for _, c := range []struct{ kind, when, key, app, rule string }{
		{"podAntiAffinity", required, "kubernetes.io/hostname", "web", "spread: machine"},
		{"podAntiAffinity", required, "topology.kubernetes.io/rack", "web", "spread: rack"},
		{"podAffinity", required, "topology.kubernetes.io/zone", "web", "pack: zone"},
		{"podAntiAffinity", required, "topology.kubernetes.io/zone", "web", ""},
		{"podAntiAffinity", required, "kubernetes.io/hostname", "db", ""},
		{"podAntiAffinity", "preferredDuringSchedulingIgnoredDuringExecution", "kubernetes.io/hostname", "web", ""},
	} {
		file := filepath.Join(t.TempDir(), "j.yaml")
		if err := os.WriteFile(file, fmt.Appendf(nil, manifest, c.kind, c.when, c.key, c.app), 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := read.File(file)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for i := range j.Tasks[0].Placement {
			got += j.Tasks[0].Placement[i].String()
		}
		if warned := strings.Contains(strings.Join(j.Warnings, "\n"), "affinity"); got != c.rule || warned != (c.rule == "") {
			t.Errorf("%s %s by %s of %s: %q, not %q; %q", c.kind, c.when, c.key, c.app, got, c.rule, j.Warnings)
		}
	}
}
