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

// TestStories reads the scripts of testdata, and prints the requirements of each, or the error.
func TestStories(t *testing.T) {
	datadriven.RunTest(t, "testdata/scripts", func(t *testing.T, d *datadriven.TestData) string {
		if !slurm.IsScript([]byte(d.Input)) {
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
			tell(&out, &j.Tasks[i], j.MemberEnv(i)["TRADEWIND_ARRAY_VALUE"])
		}
		for _, a := range j.Arrays {
			fmt.Fprintf(&out, "array %s, %d at a time\n", a.Span(), a.MaxParallel)
		}
		return out.String()
	})
}

func tell(out *strings.Builder, t *dag.Task, index string) {
	r := t.Resources[0]
	fmt.Fprintf(out, "%s: %d × %g vCPUs, %g GiB", t.Name, t.Nodes, r.CPUs.Min, r.Memory.Min)
	if r.Accelerator != "" {
		fmt.Fprintf(out, ", %s:%g", r.Accelerator, r.AcceleratorCount)
	}
	fmt.Fprintf(out, ", %v", t.Time.Default)
	for _, word := range []string{t.Gang, t.RoleName(), string(t.Framework), r.Image, t.Env["SLURM_ARRAY_TASK_ID"], index,
		t.Env["A"]} {
		if word != "" && word != t.Name {
			fmt.Fprintf(out, ", %s", word)
		}
	}
	if t.Retries > 0 {
		fmt.Fprintf(out, ", tried again")
	}
	out.WriteString("\n")
}

// The converted script must run in a shell: its variables are set, srun starts a program the requested number of
// times, and the interpreter in its first line runs it.
func TestSingleNodeScriptRuns(t *testing.T) {
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
srun --mpi none --cpus-per-task 4 -N1 --ntasks-per-node=2 --cpu-bind none sh -c 'echo "$SLURM_PROCID of $SLURM_NTASKS"'
`, []string{"rank 0 of 3: it's a b\n", "rank 2 of 3: it's a b\n", "failed with 7\n", "0 of 2\n", "1 of 2\n"}, false},
		{"variables", "sh", `#!/bin/sh -u
#SBATCH -J "my run" --array=1-9:4 -n 2 -c 3 --mem-per-cpu=2GB --gpus=a100:1
echo "$SLURM_JOB_NAME, $SLURM_JOB_ID of $SLURM_ARRAY_JOB_ID, each $SLURM_ARRAY_TASK_STEP"
echo "$SLURM_MEM_PER_CPU MB, $SLURM_GPUS_ON_NODE GPU, $SLURM_JOB_CPUS_PER_NODE CPUs, $SLURM_TASKS_PER_NODE tasks"
`, []string{"my run, j_1 of j, each 4\n", "2048 MB, 1 GPU, 6 CPUs, 2 tasks\n"}, false},
		{"a signal before the time limit", "bash", `#!/bin/bash
#SBATCH -t 0:05 --signal=B:SIGUSR1@4
trap 'echo saved; exit 0' USR1
sleep 60 >/dev/null 2>&1 &
wait
`, []string{"saved\n"}, false},
		{"a script that does not wait for the signal", "bash", `#!/bin/bash
#SBATCH -t 30 --signal=B:USR1@60
true &
wait
echo "it went"
`, []string{"it went\n"}, false},
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
			for name, value := range dag.MergeEnv(j.Tasks[0].Env, j.MemberEnv(0)) {
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
				t.Error("the script continued after an error")
			}
		})
	}
}

// node is a program that stands for the agent of another node. It gets an address and a command, and runs the command
// in that node's task folder, with only the variables of the node's task.
const node = `#!/bin/sh
[ "$1" = 10.0.0.2 ] || exit 99
cd "$OTHER_NODE" || exit 98
exec env -i PATH="$OTHER_PATH" HOME=/home/other USER=other TRADEWIND_JOB=j TRADEWIND_TASK=nodes HYDRA_HOST_FILE=theirs \
  sh -c "$2"
`

// A program that srun starts on another node must have the variables that the script exported, the script's working
// folder, and the node's own variables.
func TestSrunCopiesEnvironmentToOtherNodes(t *testing.T) {
	for _, c := range []struct {
		name, script string
		want         []string
	}{
		{"variables", `#!/bin/sh
#SBATCH -J ranks -N 2 --ntasks-per-node=1 -c 3
export FOO=bar OMP_NUM_THREADS=4 HOME=/root USER=me TRADEWIND_TASK=batch SSH_TTY=tty
hidden=secret
srun sh -c 'echo "rank $SLURM_PROCID foo=[$FOO$OMP_NUM_THREADS] jobid=[$SLURM_JOB_ID] hidden=[$hidden] ssh=[$SSH_TTY]"
echo "nodes=[$SLURM_NNODES] list=[$SLURM_JOB_NODELIST] cpus=[$SLURM_CPUS_PER_TASK] local=[$SLURM_LOCALID]"
echo "node $SLURM_NODEID is [$SLURMD_NODENAME] of [$USER] at [$HOME] for [$TRADEWIND_TASK] with [$HYDRA_HOST_FILE]"'
`, []string{
			"rank 0 foo=[bar4] jobid=[j] hidden=[] ssh=[tty]\n", "rank 1 foo=[bar4] jobid=[j] hidden=[] ssh=[]\n",
			"nodes=[2] list=[10.0.0.1,10.0.0.2] cpus=[3] local=[0]\n", "node 0 is [10.0.0.1] of [me] at [/root] for [batch]",
			"node 1 is [10.0.0.2] of [other] at [/home/other] for [nodes] with [theirs]\n",
		}},
		{"whatever they are called", `#!/bin/sh
#SBATCH -N 2
export tasks=a nodes=b rank=c input=d name=e label=f list=g count=h each=i set=j command=k folder=l code=m size=n
srun sh -c 'echo "$SLURM_PROCID: $tasks$nodes$rank$input$name$label$list$count$each$set$command$folder$code$size"'
srun -l sh -c 'echo "$rank"'
`, []string{"\n0: abcdefghijklmn\n", "\n1: abcdefghijklmn\n", "\n0: c\n", "\n1: c\n"}},
		{"whatever they hold", `#!/bin/sh -eu
#SBATCH -N 2
export A="it's \"\$B\" & \\1 \\n; \$(touch hacked)
export EVIL='x'
"
export LC_ALL=C
EVIL=unexported
srun -n 2 sh -c '[ $SLURM_PROCID = 0 ] || printf "<%s|%s|%s|%s>" "$A" "$EVIL" "$LC_ALL" "$0"' "ends it's
"
`, []string{"<it's \"$B\" & \\1 \\n; $(touch hacked)\nexport EVIL='x'\n||C|ends it's\n>"}},
		{"a folder of the task", `#!/bin/sh
#SBATCH -N 2
mkdir -p "here/it's"; cd "here/it's"; export CDPATH=/
srun -n 2 sh -c 'echo "rank $SLURM_PROCID in [${PWD#"$SLURM_SUBMIT_DIR"}]"'
mkdir only-here; cd only-here
srun -n 2 sh -c 'echo "then rank $SLURM_PROCID in [${PWD#"$SLURM_SUBMIT_DIR"}]"'
`, []string{
			"\nrank 1 in [/here/it's]\n", "\nthen rank 0 in [/here/it's/only-here]\n", "\nthen rank 1 in []\n",
		}},
		{"another folder", `#!/bin/sh
#SBATCH -N 2
cd /
srun -n 2 sh -c 'echo "rank $SLURM_PROCID in [$PWD]"'
`, []string{"rank 0 in [/]\n", "rank 1 in [/]\n"}},
		{"labels", `#!/bin/sh -e
#SBATCH -N 2 -n 4
srun -l sh -c 'echo one; echo two; echo "bad" >&2; exit $SLURM_PROCID' 2>errors || echo "failed with $?"
sed 's/^/error of /' errors
`, []string{"\n0: one\n", "\n3: two\n", "\nfailed with 3\n", "error of 0: bad\n", "error of 3: bad\n"}},
		{"scontrol", `#!/bin/sh
#SBATCH -N 2
echo "head $(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1) of" $(scontrol show hostnames)
scontrol show hostnames b,a
scontrol show job 7 || echo "failed with $?"
scontrol show hostnames 'n[1-2]' || echo "failed twice"
`, []string{
			"\nhead 10.0.0.1 of 10.0.0.1 10.0.0.2\n", "\nb\na\n", "only scontrol show hostnames", "\nfailed with 1\n",
			"brackets", "\nfailed twice\n",
		}},
		{"input", `#!/bin/sh -eu
#SBATCH -N 2
printf 'a\000b' | srun sh -c 'echo "rank $SLURM_PROCID read $(od -An -tx1 | tr -d " ")"'
srun -n 3 sh -c 'echo "then $SLURM_PROCID <$(cat)>"' <<EOF
it's "$LANG"
EOF
printf %s in | srun -N 1 -n 1 -w 10.0.0.2 sh -c 'echo "alone <$(cat)> on $SLURMD_NODENAME"'
printf %s in | srun -i 1 sh -c 'echo "one $SLURM_PROCID <$(cat)>"'
srun sh -c 'echo "none $SLURM_PROCID <$(cat)>"'
head -c 65537 /dev/zero | srun cat >sink || echo "failed with $?"
head -c 65537 /dev/zero | srun -N 1 -n 2 sh -c 'echo "all $(($(wc -c)))"'
`, []string{
			"\nrank 0 read 610062\n", "\nrank 1 read 610062\n", "\nthen 0 <it's \"C\">\n", "\nthen 2 <it's \"C\">\n",
			"\nalone <in> on 10.0.0.2\n", "\none 0 <>\n", "\none 1 <in>\n", "\nnone 0 <>\n", "\nnone 1 <>\n",
			"srun: 65537 bytes of input are too many for other nodes", "\nfailed with 1\n", "\nall 65537\n",
		}},
		{"nodes by name", `#!/bin/sh -eu
#SBATCH -N 2 -n 4
for node in $(scontrol show hostnames); do
  srun -N1 -n1 -w "$node" sh -c 'echo "$0 is $SLURMD_NODENAME, node $SLURM_NODEID of its step"' "$node"
done
srun --nodelist=10.0.0.2 -n 1 sh -c 'echo "named $SLURMD_NODENAME"'
srun -N 1 -n 2 --nodelist "$(uname -n)" sh -c 'echo "own $SLURM_PROCID $SLURMD_NODENAME"'
srun -N 2 -n 2 -w10.0.0.2 sh -c 'echo "more $SLURM_PROCID $SLURMD_NODENAME"'
srun -n 2 -w 10.0.0.2,10.0.0.1,10.0.0.2 sh -c 'echo "both $SLURM_PROCID $SLURMD_NODENAME"'
srun -n 1 -w 10.0.0.3 echo ran || echo "unknown: $?"
srun -N 1 -w 10.0.0.1,10.0.0.2 echo ran || echo "too few: $?"
srun -N 3 echo ran || echo "too many: $?"
`, []string{
			"\n10.0.0.1 is 10.0.0.1, node 0 of its step\n", "\n10.0.0.2 is 10.0.0.2, node 0 of its step\n",
			"\nnamed 10.0.0.2\n", "\nown 0 10.0.0.1\n", "\nown 1 10.0.0.1\n", "\nmore 0 10.0.0.1\n",
			"\nmore 1 10.0.0.2\n", "\nboth 0 10.0.0.1\n", "\nboth 1 10.0.0.2\n",
			"srun: 10.0.0.3 is no node of this job, which has 10.0.0.1,10.0.0.2\nunknown: 1\n",
			"srun: --nodelist names 2 nodes, and --nodes asks for 1\ntoo few: 1\n",
			"srun: 3 nodes are more than the 2 of this job\ntoo many: 1\n",
		}},
		{"choice of nodes", `#!/bin/bash
#SBATCH -N 2
srun -x 10.0.0.1 -n 1 sh -c 'echo "without the first: $SLURMD_NODENAME"'
srun -n 1 --relative=1 sh -c 'echo "from the second: $SLURMD_NODENAME"'
srun -r 2 -n 1 echo ran || echo "none: $?"
srun -r 1 -w 10.0.0.1 echo ran || echo "both: $?"
srun -lQn1 -x "$(echo 10.0.0.2)" echo letters
`, []string{
			"\nwithout the first: 10.0.0.2\n", "\nfrom the second: 10.0.0.2\n",
			"srun: no node of this job remains for the step\nnone: 1\n",
			"srun: --relative can not be used with --nodelist or --exclude\nboth: 1\n", "\n0: letters\n",
		}},
		{"files of the streams", `#!/bin/bash
#SBATCH -N 2 -J names
srun -o out-%t -e err-%x-%t sh -c 'echo "out $SLURM_PROCID"; echo "err $SLURM_PROCID" >&2'
head out-0 out-1 err-names-0 err-names-1
srun -e errors sh -c 'echo "shown $SLURM_PROCID"; echo "kept $SLURM_PROCID" >&2'
sort errors | sed 's/^/file: /'
echo before >log
srun -n 1 --open-mode=append -o log echo after
cat log
srun -o 1 sh -c 'echo "only $SLURM_PROCID"'
srun -o '%4t' true || echo "width: $?"
`, []string{
			"==> out-0 <==\nout 0\n\n==> out-1 <==\nout 1\n\n==> err-names-0 <==\nerr 0\n\n==> err-names-1 <==\nerr 1\n",
			"\nshown 0\n", "\nshown 1\n", "\nfile: kept 0\nfile: kept 1\nbefore\nafter\nonly 1\n", "width: 1\n",
		}},
		{"ends of programs", `#!/bin/bash
#SBATCH -N 2
srun -n 1 -t 0:01 sleep 1000 || echo "late: $?"
srun -n 1 -r 1 -t 0:01 sleep 1000 || echo "late there: $?"
srun -K sh -c 'if [ $SLURM_PROCID = 1 ]; then exit 3; fi; sleep 1000; echo never' || echo "failed"
srun --wait=1 sh -c 'if [ $SLURM_PROCID = 1 ]; then exit 0; fi; sleep 1000; echo never' || echo "alone"
srun -W 0 -K0 -t 1:00:00 echo in time
ls -A "$SLURM_SUBMIT_DIR" | grep slurm-step || echo "nothing left"
`, []string{
			"srun: the programs are ended: --time=0:01 has passed\n", "\nlate: ", "\nlate there: ",
			"srun: the programs are ended: one has failed\n", "\nfailed\n",
			"srun: the programs are ended: --wait=1 has passed since the first one ended\n", "\nalone\n",
			"\nin time\nin time\nnothing left\n",
		}},
		{"a signal before the time limit", `#!/bin/bash
#SBATCH -N 2 -t 0:05 --signal=USR1@2
trap 'echo "the script has it"' USR1
srun sh -c 'trap "echo saved $SLURM_PROCID; exit 3" USR1; while sleep 0.1 || :; do :; done' || echo "all: $?"
srun echo after
`, []string{"\nsaved 0\n", "\nsaved 1\n", "\nall: 3\n", "\nafter\n"}},
		{"devices", `#!/bin/bash
#SBATCH -N 2 --gpus-per-node=a100:4 --ntasks-per-node=2
show='echo "$SLURM_NODEID.$SLURM_LOCALID has [${CUDA_VISIBLE_DEVICES-all}] $SLURM_CPUS_PER_TASK"'
srun --gpus-per-task=2 -c 3 sh -c "$show"
srun -N1 -n1 --gres=gpu:4 sh -c "$show; echo not divided"
export CUDA_VISIBLE_DEVICES=4,5,6,7
srun -N1 -n2 --gpus-per-task=a100:1 sh -c "echo named; $show"
srun -N1 -n1 --gres=none sh -c "$show; echo hidden"
one=gpu:1
srun -N1 -n1 --gres=$one true || echo "some: $?"
srun -N1 -n4 --gpus-per-task=2 true || echo "many: $?"
`, []string{
			"\n0.0 has [0,1] 3\n", "\n0.1 has [2,3] 3\n", "\n1.0 has [0,1] 3\n", "\n1.1 has [2,3] 3\n",
			"\n0.0 has [4] 1\n", "\n0.1 has [5] 1\n", "\nnamed\n", "\n0.0 has [all] 1\nnot divided\n", "\n0.0 has [] 1\nhidden\n",
			"srun: --gres=gpu:1: a step gets all GPUs of the job, or --gpus-per-task for each rank\nsome: 1\n",
			"srun: 2 GPUs for each rank are more than the 4 of a node\n", "many: 1\n",
		}},
		{"Python", `#!/usr/bin/env python3
#SBATCH -N 2
import os, subprocess
os.environ["FOO"] = "bar"
os.chdir("here")
subprocess.run(["srun", "-l", "sh", "-c", "echo $FOO in ${PWD#$SLURM_SUBMIT_DIR}"], check=True)
print("head", subprocess.run(["scontrol", "show", "hostnames"], check=True, capture_output=True).stdout)
`, []string{"\n0: bar in /here\n", "\n1: bar in /here\n", "head b'10.0.0.1\\n10.0.0.2\\n'\n"}},
	} {
		for _, shell := range shells {
			t.Run(c.name+"/"+shell, func(t *testing.T) {
				args := shellOf(t, shell)
				if _, err := exec.LookPath("python3"); err != nil && c.name == "Python" {
					t.Skip(err)
				}
				j, err := slurm.Parse("job.sbatch", []byte(c.script))
				if err != nil {
					t.Fatal(err)
				}
				dir := t.TempDir()
				own, other, agent := filepath.Join(dir, "own"), filepath.Join(dir, "other"), filepath.Join(dir, "agent")
				for _, folder := range []string{filepath.Join(own, "here"), filepath.Join(other, "here/it's")} {
					if err := os.MkdirAll(folder, 0o700); err != nil {
						t.Fatal(err)
					}
				}
				hosts := filepath.Join(dir, "hosts")
				write(t, hosts, "10.0.0.1 launcher-0\n10.0.0.2 node-0\n", 0o600)
				commands := filepath.Join(dir, "commands")
				write(t, agent, strings.Replace(node, "#!/bin/sh\n", "#!/bin/sh\necho \"$*\" >>'"+commands+"'\n", 1), 0o700)
				cmd := exec.CommandContext(t.Context(), args[0], append(args[1:], j.Tasks[0].Run)...)
				cmd.Dir = own
				cmd.Env = append(os.Environ(), "TRADEWIND_JOB=j", "TRADEWIND_HOSTS="+hosts, "TRADEWIND_RSH_AGENT="+agent,
					"OTHER_NODE="+other, "OTHER_PATH="+os.Getenv("PATH"), "HYDRA_LAUNCHER_EXEC="+agent,
					"GIVEN=it's s3cret\n", "LANG=C")
				text, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
				for _, want := range c.want {
					if !strings.Contains("\n"+string(text), want) {
						t.Errorf("no %q in\n%s", want, text)
					}
				}
				if said, err := os.ReadFile(commands); err == nil && strings.Contains(string(said), "s3cret") {
					t.Errorf("the variables of the task are in a command line:\n%s", said)
				}
				if found, _ := filepath.Glob(filepath.Join(dir, "*/hacked")); found != nil {
					t.Error("the value of a variable was executed")
				}
			})
		}
	}
}

func write(t *testing.T, file, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// A script uses neither srun nor scontrol. The converted script must not contain their functions.
func TestUnusedFunctionsAreOmitted(t *testing.T) {
	for script, want := range map[string][2]bool{
		"./solve":                              {false, false},
		"srun ./solve":                         {true, false},
		"head=$(scontrol show hostnames)":      {false, true},
		"true; . ./functions.sh":               {true, true},
		"scontrol show hostnames; srun ./work": {true, true},
	} {
		j, err := slurm.Parse("job.sbatch", []byte("#!/bin/sh\n#SBATCH -N 2\n"+script+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		run := j.Tasks[0].Run
		if got := [2]bool{strings.Contains(run, "srun() "), strings.Contains(run, "scontrol() ")}; got != want {
			t.Errorf("%s: has srun, scontrol: %v, want %v", script, got, want)
		}
	}
}

// Scripts that wait for each other must become one job. Lines "-- NAME" separate the files.
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
				switch {
				case e.To == i && e.Each:
					fmt.Fprintf(&out, " after each %s", j.Tasks[e.From].Name)
				case e.To == i && e.All:
					fmt.Fprintf(&out, " after all: %s", j.Tasks[e.From].Name)
				case e.To == i:
					fmt.Fprintf(&out, " after %s", j.Tasks[e.From].Name)
				}
			}
			out.WriteString("\n")
		}
		return out.String()
	})
}

// Any text must result either in a job that can be marshalled, or in an error with a position.
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
		text, err := dag.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := native.Parse("job.yaml", text); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	})
}
