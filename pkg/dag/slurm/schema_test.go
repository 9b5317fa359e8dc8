package slurm_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dagtest"
	"github.com/tradewind-broker/tradewind/pkg/dag/slurm"
)

// Every option in testdata/schema.txt must be converted, ignored with a warning, or refused, as the documentation
// says. The options are those of sbatch (doc/man/man1/sbatch.1 of Slurm, commit 284c3b95f08a) and of the plugin
// pyxis.
func TestEveryOptionOfSbatchIsConsidered(t *testing.T) {
	dagtest.Fields(t, "from-slurm.md", func(f dagtest.Field) string {
		option := "#SBATCH --" + f.Path
		if f.Value != "" {
			option += "=" + f.Value
		}
		return option + "\ntrue\n"
	}, slurm.Parse)
}

// Every option of srun must be converted, ignored with a warning, or refused, as the documentation says: both when
// the script is read and when srun runs, for example with options in a variable. The options are those of Slurm's
// src/common/slurm_opt.c (commit 284c3b95f08a) and of the plugin pyxis.
func TestEveryOptionOfSrunIsConsidered(t *testing.T) {
	step := func(f dagtest.Field) string {
		if f.Value == "" {
			return "--" + f.Path
		}
		return "--" + f.Path + "=" + f.Value
	}
	fields := dagtest.FieldsOf(t, "srun", "from-slurm.md", func(f dagtest.Field) string {
		return "#SBATCH -N1\nsrun " + step(f) + " true\n"
	}, slurm.Parse)
	script := "#SBATCH -N1\n"
	for i, f := range fields {
		script += fmt.Sprintf("unknown=\"%s\"\nsrun $unknown touch \"$SLURM_SUBMIT_DIR/ran-%d\"\necho \"=== $?\"\n", step(f), i)
	}
	j, err := slurm.Parse("job.sbatch", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), shellOf(t, "sh")[0], "-c", j.Tasks[0].Run)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "TRADEWIND_JOB=j")
	text, err := cmd.CombinedOutput()
	outputs := strings.SplitAfter(string(text), "=== ")
	if err != nil || len(outputs) != len(fields)+1 {
		t.Fatalf("%v: %s", err, text)
	}
	for i, f := range fields {
		_, missing := os.Stat(filepath.Join(cmd.Dir, fmt.Sprint("ran-", i)))
		failed := !strings.HasPrefix(outputs[i+1], "0")
		got := dagtest.Done
		switch {
		case failed && missing != nil && strings.Contains(outputs[i], "srun: --"+f.Path):
			got = dagtest.Refused
		case failed || missing != nil:
			got = "failed"
		case strings.Contains(outputs[i], "srun: --"+f.Path+" is ignored: "):
			got = dagtest.Warned
		}
		if got != f.Handled {
			t.Errorf("%s is %s when srun runs, not %s: %q", step(f), got, f.Handled, outputs[i])
		}
	}
}

// srun must find the program among its arguments: the value of an option in the next word is not the program, but a
// word after an option without a value is. testdata/srun/values.txt has all options of Slurm's
// src/common/slurm_opt.c: name, whether the option has a value, and letter.
func TestSrunFindsTheProgram(t *testing.T) {
	text, err := os.ReadFile("testdata/srun/values.txt")
	if err != nil {
		t.Fatal(err)
	}
	spellings := map[string]bool{} // whether the value of each is in the next word
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		spellings["--"+words[0]] = words[1] == "required"
		if len(words) > 2 {
			spellings["-"+words[2]] = words[1] == "required"
		}
	}
	for option, value := range spellings {
		needs, known := slurm.StepNeedsValue(option)
		if !known || needs != value {
			t.Errorf("%s: known %v, has a value in the next word %v, and in Slurm %v", option, known, needs, value)
		}
	}
}
