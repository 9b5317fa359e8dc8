package slurm

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/podtext"
)

// interpreter is the program in the first line of a script.
type interpreter struct {
	words []string // the program and its arguments; nil if there is no such line
	shell bool     // it is a shell that can run the prelude and the script
	flags string   // of the shell, in the form for set
}

// shells are the shells that can run the prelude. bash also supports the extensions of the others.
var shells = []string{"sh", "bash", "dash", "ash", "ksh"}

// interpreterOf reads the first line of a script, if it begins with #!.
func interpreterOf(script string) (in interpreter) {
	line, _, _ := strings.Cut(script, "\n")
	rest, ok := strings.CutPrefix(strings.TrimRight(line, "\r"), "#!")
	if in.words = strings.Fields(rest); !ok || len(in.words) == 0 {
		return interpreter{shell: true}
	}
	words := in.words
	if path.Base(words[0]) == "env" && len(words) > 1 {
		if words = words[1:]; words[0] == "-S" && len(words) > 1 {
			words = words[1:]
		}
	}
	if in.shell = slices.Contains(shells, path.Base(words[0])); !in.shell {
		return in
	}
	for _, word := range words[1:] {
		if letters, ok := strings.CutPrefix(word, "-"); ok && !strings.HasPrefix(letters, "-") {
			// It is a login shell anyway, and set has no -l.
			in.flags += strings.Map(func(c rune) rune {
				if strings.ContainsRune("aefnuvxC", c) {
					return c
				}
				return -1
			}, letters)
		}
	}
	return in
}

// taskScript returns the script of the task: the prelude and the script. A script in another language is written to a
// file. It cannot call shell functions, so srun and scontrol are written to files too.
func (in interpreter) taskScript(prelude, script string) string {
	if in.shell {
		if in.flags != "" {
			prelude += "set -" + in.flags + "\n"
		}
		return prelude + script
	}
	var b strings.Builder
	b.WriteString(prelude + "mkdir -p .slurm\n")
	writeFile(&b, ".slurm/srun", "#!/bin/sh\n"+srun+"srun \"$@\"\n")
	writeFile(&b, ".slurm/scontrol", "#!/bin/sh\n"+scontrol+"scontrol \"$@\"\n")
	b.WriteString("chmod +x .slurm/srun .slurm/scontrol\nexport PATH=\"$PWD/.slurm:$PATH\"\n")
	writeFile(&b, ".slurm/script", script)
	b.WriteString("exec")
	for _, word := range in.words {
		b.WriteString(" " + podtext.Quote(word))
	}
	b.WriteString(" .slurm/script\n")
	return b.String()
}

// writeFile writes the shell command that writes a text to a file.
func writeFile(b *strings.Builder, name, text string) {
	end := "END_OF_FILE"
	for strings.Contains(text, end) {
		end += "_"
	}
	fmt.Fprintf(b, "cat >%s <<'%s'\n%s\n%s\n", name, end, strings.TrimRight(text, "\n"), end)
}

// SetArgs gives all tasks of a job that was read from a script the arguments of sbatch FILE ARG…
func SetArgs(job *dag.Job, args []string) {
	quoted := ""
	for _, a := range args {
		quoted += " " + podtext.Quote(a)
	}
	const run = " .slurm/script\n"
	for i := range job.Tasks {
		t := &job.Tasks[i]
		switch before, ok := strings.CutSuffix(t.Run, run); {
		case t.Role == "node": // does not run the script
		case ok && strings.Contains(before, "\nexec"):
			t.Run = before + strings.TrimSuffix(run, "\n") + quoted + "\n"
		default:
			t.Run = "set --" + quoted + "\n" + t.Run
		}
	}
}
