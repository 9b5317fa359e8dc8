package kubernetes_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dagtest"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
	"github.com/tradewind-broker/tradewind/pkg/dag/kubernetes"
)

func TestErrorsHavePositions(t *testing.T) {
	dagtest.Errors(t, "job.yaml", kubernetes.Parse)
}

func TestEveryFieldIsRead(t *testing.T) { dagtest.Workflows(t, kubernetes.Parse) }

func FuzzKubernetes(f *testing.F) { dagtest.Fuzz(f, kubernetes.Parse) }

// TestPublishedManifests reads manifests that projects have published, and prints each job or error.
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
			data, err := os.ReadFile(file) //nolint:gosec // a file of the tests
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

// Init containers mount a volume at their own paths, and have their own variables and working folder. The container
// must see the files that they write into the volume.
func TestInitContainersShareVolumes(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	top := t.TempDir()
	page := filepath.Join(top, "html", "index.html")
	if err := os.MkdirAll(filepath.Dir(page), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(page, []byte("of the image"), 0o600); err != nil { // hidden by the mount
		t.Fatal(err)
	}
	j, err := kubernetes.Parse("job.yaml", []byte(strings.ReplaceAll(`
apiVersion: batch/v1
kind: Job
metadata: {name: pages}
spec:
  template:
    spec:
      restartPolicy: Never
      volumes: [{name: workdir, emptyDir: {}}]
      initContainers:
        - name: install
          image: busybox
          command: [sh, -c, 'echo "$WHAT by $0 in $PWD" >TOP/work-dir/index.html', $(WHO)]
          env: [{name: WHAT, value: written}, {name: WHO, value: init}]
          workingDir: TOP/tmp
          volumeMounts: [{name: workdir, mountPath: TOP/work-dir}, {name: workdir, mountPath: TOP/in, subPath: sub}]
      containers:
        - name: web
          image: busybox
          command: [sh, -c, 'cat TOP/html/index.html; ls -d TOP/html/sub; echo "in $PWD, ${WHAT-nothing}"']
          workingDir: TOP/own
          volumeMounts: [{name: workdir, mountPath: TOP/html}]
`, "TOP", top)))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), sh, "-c", j.Tasks[0].Run)
	cmd.Dir, cmd.Env = top, append(os.Environ(), "TMPDIR="+filepath.Join(top, "tmp"))
	text, err := cmd.CombinedOutput()
	want := strings.ReplaceAll("written by init in TOP/tmp\nTOP/html/sub\nin TOP/own, nothing\n", "TOP", top)
	if err != nil || string(text) != want {
		t.Errorf("%v: %q, not %q", err, text, want)
	}
}

// summary returns a short description of a job.
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

// Independent pods must become tasks. Their number may exceed the maximum number of nodes of a task.
func TestIndependentPodsBecomeTasks(t *testing.T) {
	const file = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  completions: %d\n  parallelism: %[1]d\n" +
		"  template: {spec: {containers: [{name: c, image: ubuntu, command: [\"true\"]}]}}\n"
	const pods = 2 * jobtext.MaxNodes
	if j, err := kubernetes.Parse("job.yaml", fmt.Appendf(nil, file, pods)); err != nil || len(j.Tasks) != pods {
		t.Errorf("%v: %+v", err, j)
	}
}
