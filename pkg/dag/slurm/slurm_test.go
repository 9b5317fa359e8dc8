package slurm_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
	"github.com/tradewind-broker/tradewind/pkg/dag/slurm"
)

// TestStories reads the scripts of testdata, and prints what each asks for, or what is wrong with it.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if !slurm.Looks([]byte(d.Input)) {
				return "not a script of Slurm\n"
			}
			j, err := slurm.Parse("job.sbatch", []byte(d.Input))
			if err != nil {
				return err.Error() + "\n"
			}
			var out strings.Builder
			for _, w := range j.Warnings {
				fmt.Fprintf(&out, "warning: %s\n", w)
			}
			fmt.Fprintf(&out, "%s:\n", j.Name)
			for i := range j.Tasks {
				tell(&out, &j.Tasks[i])
			}
			return out.String()
		})
	})
}

func tell(out *strings.Builder, t *dag.Task) {
	r := t.Resources[0]
	fmt.Fprintf(out, "%s: %d × %g vCPUs, %g GiB", t.Name, t.Nodes, r.CPUs.Min, r.Memory.Min)
	if r.Accelerator != "" {
		fmt.Fprintf(out, ", %s:%g", r.Accelerator, r.AcceleratorCount)
	}
	fmt.Fprintf(out, ", %v", t.Time.Default)
	for _, word := range []string{t.Gang, t.RoleOf(), string(t.Framework), r.Image, t.Env["SLURM_ARRAY_TASK_ID"], t.Env["A"]} {
		if word != "" && word != t.Name {
			fmt.Fprintf(out, ", %s", word)
		}
	}
	if t.Retries > 0 {
		fmt.Fprintf(out, ", tried again")
	}
	out.WriteString("\n")
}

// What a script becomes runs in a shell as it is: its variables are there, and srun starts a program as often as it says.
func TestAScriptOfOneNodeRunsInAShell(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh here")
	}
	j, err := slurm.Parse("job.sbatch", []byte(`#!/bin/sh
#SBATCH --job-name=ranks --ntasks=3
srun -l --label sh -c 'echo "rank $SLURM_PROCID of $SLURM_NTASKS: '"it's"' $0" ' "a b"
srun -n 2 sh -c 'exit $((SLURM_PROCID * 7))' || echo "failed with $?"
`))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), sh, "-c", j.Tasks[0].Run)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "TRADEWIND_JOB=j", "TRADEWIND_TASK=ranks")
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, want := range []string{"rank 0 of 3: it's a b\n", "rank 2 of 3: it's a b\n", "failed with 7\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// Whatever the text, there is a job that can be written down, or an error that says where.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*")
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			f.Add(text)
		}
	}
	f.Add([]byte("#!/bin/sh\n#SBATCH -N2 -n 4 --array=1-3 --gres=gpu:a100:1\ntrue\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := slurm.Parse("job.sbatch", data)
		if err != nil {
			return
		}
		text, err := native.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := native.Parse("job.yaml", text); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	})
}
