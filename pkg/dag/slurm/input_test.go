package slurm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag/slurm"
)

// shells are the shells that must be able to run a script.
var shells = []string{"sh", "bash", "dash", "busybox"}

// shellOf returns the command of a shell. It skips the test if the shell is not installed; short test runs use only
// the first shell.
func shellOf(t *testing.T, shell string) []string {
	t.Helper()
	if testing.Short() && shell != shells[0] {
		t.Skip("quick tests run scripts by " + shells[0])
	}
	program, err := exec.LookPath(shell)
	if err != nil {
		t.Skip(err)
	}
	if shell == "busybox" {
		return []string{program, "sh", "-c"}
	}
	return []string{program, "-c"}
}

// Each program that srun starts must read the input that is redirected or piped to srun. srun must not read the input
// of the script itself, which is an endless, empty pipe here.
func TestSrunPassesInput(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"a file", `printf 'one\ntwo\n' >in
srun -n 1 cat <in
srun sh -c 'sed "s/^/$SLURM_PROCID /"' <in | sort
`, "one\ntwo\n0 one\n0 two\n1 one\n1 two\n"},
		{"what is left of a file", `printf 'one\ntwo\n' >in
{ read -r first; srun -n 2 cat; echo "after $first"; } <in
`, "two\ntwo\nafter one\n"},
		{"a here-document", `name=it; srun sh -s <<EOF | sort
echo "$name's \$SLURM_PROCID"
EOF
`, "it's 0\nit's 1\n"},
		{"a pipe", `printf 'a\000b' | srun -n 1 od -An -c | tr -d ' '
printf 'a\000b' | srun -l od -An -c | tr -d ' ' | sort
`, "a\\0b\n0:a\\0b\n1:a\\0b\n"},
		{"a pipe that does not end yet", `mkfifo held
{ echo first; cat held; } | srun -n 1 sh -c 'read -r line; echo "$line"; echo go >held; cat'
`, "first\ngo\n"},
		{"none", `srun cat; srun -n 1 cat; srun -n 1 cat </dev/null; srun cat <&-; echo in | srun --input none cat; echo done
`, "done\n"},
		{"none in a loop", `printf 'a\nb\n' | while read -r x; do srun -i none -n 2 cat; srun -n 1 echo "$x"; done
`, "a\nb\n"},
		{"of one rank", `echo in | srun --input=1 sh -c 'echo "$SLURM_PROCID <$(cat)>"' | sort
echo in >in; srun -iin cat; srun --input=gone cat 2>&1 || echo "failed with $?"
`, "0 <>\n1 <in>\nin\nin\nsrun: --input=gone: there is no such file to read\nfailed with 1\n"},
	} {
		for _, shell := range shells {
			t.Run(c.name+"/"+shell, func(t *testing.T) {
				args := shellOf(t, shell)
				j, err := slurm.Parse("job.sbatch", []byte("#!/bin/sh -eu\n#SBATCH -n 2\n"+c.script))
				if err != nil {
					t.Fatal(err)
				}
				ours, theirs, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				cmd := exec.CommandContext(t.Context(), args[0], append(args[1:], j.Tasks[0].Run)...)
				cmd.Dir, cmd.Env, cmd.Stdin = t.TempDir(), append(os.Environ(), "TRADEWIND_JOB=j"), ours
				late := time.AfterFunc(10*time.Second, func() { _ = theirs.Close() })
				text, err := cmd.CombinedOutput()
				if !late.Stop() {
					t.Error("srun never returns")
				}
				_, _ = ours.Close(), theirs.Close()
				if err != nil || string(text) != c.want {
					t.Errorf("%v: %q, not %q", err, text, c.want)
				}
				if left, _ := filepath.Glob(filepath.Join(cmd.Dir, ".slurm-input*")); left != nil {
					t.Errorf("%v was not deleted", left)
				}
			})
		}
	}
}

// A shell reads the script from its standard input. srun must not read from it.
func TestSrunDoesNotReadScript(t *testing.T) {
	for _, shell := range shells {
		t.Run(shell, func(t *testing.T) {
			args := shellOf(t, shell)
			j, err := slurm.Parse("job.sbatch", []byte("#!/bin/sh\n#SBATCH -n 2\nsrun cat\nsrun -n 1 cat\necho went on\n"))
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), args[0], args[1:len(args)-1]...)
			cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "TRADEWIND_JOB=j")
			cmd.Stdin = strings.NewReader(j.Tasks[0].Run)
			if text, err := cmd.CombinedOutput(); err != nil || string(text) != "went on\n" {
				t.Errorf("%v: %q", err, text)
			}
		})
	}
}
