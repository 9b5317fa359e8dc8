package kubernetes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dagtest"
	"github.com/tradewind-broker/tradewind/pkg/dag/kubernetes"
)

func TestBadFilesAreRefusedWithTheirLine(t *testing.T) {
	dagtest.Errors(t, "job.yaml", kubernetes.Parse)
}

func TestEveryFieldIsRead(t *testing.T) { dagtest.Workflows(t, kubernetes.Parse) }

func FuzzKubernetes(f *testing.F) { dagtest.Fuzz(f, kubernetes.Parse) }

// Manifests as their projects publish them: what each becomes, or why it is not read.
func TestPublishedManifests(t *testing.T) {
	datadriven.RunTest(t, filepath.Join("testdata", "published.txt"), func(t *testing.T, d *datadriven.TestData) string {
		folder := filepath.Join("testdata", "published")
		files, err := filepath.Glob(filepath.Join(folder, "*", "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		read := 0
		for _, file := range files {
			data, err := os.ReadFile(file) //nolint:gosec // of the tests
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimPrefix(filepath.ToSlash(file), filepath.ToSlash(folder)+"/")
			j, err := kubernetes.Parse(name, data)
			if err != nil {
				fmt.Fprintf(&b, "refused: %v\n", err)
				continue
			}
			read++
			dagtest.ReadBack(t, j)
			fmt.Fprintf(&b, "%s: %s\n", name, summary(j))
			for _, w := range j.Warnings {
				fmt.Fprintf(&b, "  %s\n", strings.TrimPrefix(w, name+":"))
			}
		}
		fmt.Fprintf(&b, "%d of %d read\n", read, len(files))
		return b.String()
	})
}

// summary is what a job has.
func summary(j *dag.Job) string {
	var parts []string
	for i := range j.Tasks {
		t := &j.Tasks[i]
		s := t.Name
		if t.Nodes > 1 {
			s += fmt.Sprintf(" (%d nodes)", t.Nodes)
		}
		if t.Gang != "" {
			s += " in gang " + t.Gang
		}
		for _, k := range j.Graph().Parents(i) {
			s += " after " + j.Tasks[k].Name
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ", ")
}
