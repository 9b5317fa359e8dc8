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
	datadriven.RunTest(t, "testdata/scripts", func(t *testing.T, d *datadriven.TestData) string {
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

// What a script becomes runs in a shell as it is: its variables are there, srun starts a program as often as it says,
// and the program of its first line runs it.
func TestAScriptOfOneNodeRuns(t *testing.T) {
	for _, c := range []struct {
		name, needs, script string
		want                []string
		fails               bool
	}{
		{"srun", "sh", `#!/bin/sh
#SBATCH --job-name=ranks --ntasks=3
srun -l --label sh -c 'echo "rank $SLURM_PROCID of $SLURM_NTASKS: '"it's"' $0" ' "a b"
srun -n 2 sh -c 'exit $((SLURM_PROCID * 7))' || echo "failed with $?"
cd /
srun --mpi pmix --cpus-per-task 4 -N1 --ntasks-per-node=2 --cpu-bind none sh -c 'echo "$SLURM_PROCID of $SLURM_NTASKS"'
`, []string{"rank 0 of 3: it's a b\n", "rank 2 of 3: it's a b\n", "failed with 7\n", "0 of 2\n", "1 of 2\n"}, false},
		{"variables", "sh", `#!/bin/sh -u
#SBATCH -J "my run" --array=1-9:4 -n 2 -c 3 --mem-per-cpu=2GB --gpus=a100:1
echo "$SLURM_JOB_NAME, $SLURM_JOB_ID of $SLURM_ARRAY_JOB_ID, each $SLURM_ARRAY_TASK_STEP"
echo "$SLURM_MEM_PER_CPU MB, $SLURM_GPUS_ON_NODE GPU, $SLURM_JOB_CPUS_PER_NODE CPUs, $SLURM_TASKS_PER_NODE tasks"
`, []string{"my run, j_1 of j, each 4\n", "2048 MB, 1 GPU, 6 CPUs, 2 tasks\n"}, false},
		{"a script that stops where something fails", "bash", `#!/bin/bash -el
#SBATCH -t 1
false
echo "went on"
`, nil, true},
		{"Python", "python3", `#!/usr/bin/env python3
#SBATCH -J snake -n 2 -t 1
import os, subprocess
print("in Python:", os.environ["SLURM_JOB_NAME"], 'END_OF_FILE', flush=True)
subprocess.run(["srun", "sh", "-c", "echo rank $SLURM_PROCID"], check=True)
`, []string{"in Python: snake END_OF_FILE\n", "rank 0\n", "rank 1\n"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := exec.LookPath(c.needs); err != nil {
				t.Skip(err)
			}
			sh, err := exec.LookPath("sh")
			if err != nil {
				t.Skip(err)
			}
			j, err := slurm.Parse("job.sbatch", []byte(c.script))
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), sh, "-c", j.Tasks[0].Run)
			cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "TRADEWIND_JOB=j", "TRADEWIND_TASK=ranks")
			for name, value := range j.Tasks[0].Env {
				cmd.Env = append(cmd.Env, name+"="+value)
			}
			text, err := cmd.CombinedOutput()
			if (err != nil) != c.fails {
				t.Fatalf("%v\n%s", err, text)
			}
			for _, want := range c.want {
				if !strings.Contains(string(text), want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			if strings.Contains(string(text), "went on") {
				t.Error("it went on")
			}
		})
	}
}

// Scripts that wait for each other are one job. Files are parted by lines "-- NAME".
func TestChains(t *testing.T) {
	datadriven.RunTest(t, "testdata/chains", func(t *testing.T, d *datadriven.TestData) string {
		var scripts []slurm.Script
		for _, part := range strings.Split("\n"+d.Input, "\n-- ")[1:] {
			name, text, _ := strings.Cut(part, "\n")
			scripts = append(scripts, slurm.Script{Name: name, Data: []byte(text)})
		}
		j, err := slurm.Chain(scripts)
		if err != nil {
			return err.Error() + "\n"
		}
		var out strings.Builder
		fmt.Fprintf(&out, "%s:\n", j.Name)
		for i := range j.Tasks {
			fmt.Fprintf(&out, "%s", j.Tasks[i].Name)
			for _, e := range j.Edges {
				if e.To == i {
					fmt.Fprintf(&out, " after %s", j.Tasks[e.From].Name)
				}
			}
			out.WriteString("\n")
		}
		return out.String()
	})
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
