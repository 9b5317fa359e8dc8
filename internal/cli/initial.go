package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// InitResult is the output of `init -o json`.
type InitResult struct {
	File string `json:"file"`
	Job  string `json:"job"` // name of the job
}

// flags are answers given on the command line.
type flags struct {
	run, needs, time string
	force            bool
	output           *command.Choice
}

// InitCommand is the init command.
func InitCommand(a *command.App) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Ask three questions and write a job file that runs",
		Long: "Asks three questions: which command to run, which machine it needs, and about how long it takes.\n" +
			"Writes a job file (default job.yaml) that you can run without changes. An empty answer takes the\n" +
			"default in brackets. If the command names files of this folder, the job uploads the folder. You can\n" +
			"also answer with flags, or with lines on standard input.",
		Example: "  tradewind init\n" +
			"  tradewind init train.yaml --run 'python3 train.py' --needs 'A100' --time 2h\n" +
			"  tradewind init --needs '8 CPUs, 32 GB' </dev/null",
		Args:              command.Args(0, 1),
		ValidArgsFunction: command.CompleteFile,
	}
	c.Flags().StringVar(&f.run, "run", "", "the command to run (answers the first question)")
	c.Flags().StringVar(&f.needs, "needs", "", "the machine that it needs: 8 CPUs, 32 GB, A100, V100:4")
	c.Flags().StringVar(&f.time, "time", "", "about how long it takes: 10m, 2h")
	c.Flags().BoolVar(&f.force, "force", false, "overwrite an existing file")
	f.output = command.OutputFlag(c)
	c.RunE = func(_ *cobra.Command, given []string) error {
		file := "job.yaml"
		if len(given) > 0 {
			file = given[0]
		}
		return writeInit(a, file, f)
	}
	return c
}

func writeInit(a *command.App, file string, f flags) error {
	if !f.force && command.Exists(file) {
		return command.BadInput("name another file, or use --force", "%s already exists", file)
	}
	dir := filepath.Dir(file)
	if !command.Exists(dir) {
		return command.BadInput("create the folder first", "%s: folder %s does not exist", file, dir)
	}
	known, err := catalog.Default()
	if err != nil {
		return err
	}
	got, err := ask(a, f, dir, known.Accelerators())
	if err != nil {
		return err
	}
	if missing := missingFile(dir, got.run); missing != "" {
		a.Warn([]string{fmt.Sprintf("the command names %s, which does not exist in %s: create it before the job runs",
			missing, command.Absolute(dir))})
	}
	name := dag.ToName(filepath.Base(command.Absolute(dir)), "job")
	body := got.job(name, needsFolder(dir, got.run))
	if _, err := read.JobWithEnv(file, bytes.NewReader(body), nil); err != nil {
		return fmt.Errorf("the written job is invalid: %w", err)
	}
	if err := writeJobFile(file, body, f.force); err != nil {
		return err
	}
	if f.output.JSON() {
		return a.PrintJSON(InitResult{File: file, Job: name})
	}
	return a.Printf("wrote %s\n\n  tradewind plan %[1]s     # show where it would run and its cost\n"+
		"  tradewind run %[1]s      # run it on this computer, on simulated machines\n", file)
}

// writeJobFile writes a new file, or overwrites one if over is true.
func writeJobFile(file string, body []byte, over bool) error {
	how := os.O_CREATE | os.O_WRONLY | os.O_EXCL
	if over {
		how = os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	}
	out, err := os.OpenFile(file, how, 0o644) //nolint:gosec // like a text editor
	if err != nil {
		return command.Unreadable(file, err)
	}
	_, err = out.Write(body)
	return errors.Join(err, out.Close())
}

// asker asks questions, one per line.
type asker struct {
	a  *command.App
	in *bufio.Reader
}

// question is a question, its default answer, and a function that takes the answer.
type question struct {
	flag, text, defaultAnswer string
	flagValue                 string // answer from its flag
	take                      func(string) error
}

// ask collects all answers: from flags, otherwise by asking.
func ask(a *command.App, f flags, dir string, known []catalog.AcceleratorInfo) (got answers, err error) {
	q := asker{a: a, in: bufio.NewReader(io.LimitReader(a.In, 1<<20))}
	all := []question{
		{"--run", "What should it run?", guessCommand(dir), f.run, func(s string) error {
			got.run = strings.TrimSpace(s)
			return nil
		}},
		{"--needs", "What does a machine need for it (8 CPUs, 32 GB, A100, V100:4)?", "2 CPUs", f.needs,
			func(s string) (err error) {
				got.needs, err = parseNeeds(s, known)
				return err
			}},
		{"--time", "About how long does it take?", "10m", f.time, func(s string) error {
			var t command.Span
			err := t.Set(s)
			got.time = t.Value
			return err
		}},
	}
	for _, one := range all { // check the flags before asking anything
		if one.flagValue == "" {
			continue
		}
		if err := one.take(one.flagValue); err != nil {
			return got, command.BadInput("", "%s: %v", one.flag, err)
		}
	}
	for _, one := range all {
		if one.flagValue != "" {
			continue
		}
		if err := q.askOne(one); err != nil {
			return got, err
		}
	}
	return got, nil
}

// askOne asks one question, and asks again after an invalid answer. If the input ends then, it fails instead of using
// the default, because the user wanted something else.
func (q asker) askOne(one question) error {
	var first error // the first mistake: later lines of a script may answer other questions
	for {
		q.a.Tell("%s [%s]", one.text, one.defaultAnswer)
		line, err := q.in.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		answer := strings.TrimSpace(line)
		ended := "the input has ended; " + one.flag + " sets the answer, too"
		if answer == "" && err != nil && first != nil {
			return command.BadInput(ended, "%v", first)
		}
		wrong := one.take(cmp.Or(answer, one.defaultAnswer))
		if wrong == nil {
			return nil
		}
		first = cmp.Or(first, wrong)
		if err != nil {
			return command.BadInput(ended, "%v", first)
		}
		q.a.Tell("%v", wrong)
	}
}

// short formats a duration as people write it: 10m, not 10m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// schemaURL is where editors find the schema of a job file.
const schemaURL = "https://raw.githubusercontent.com/tradewind-broker/tradewind/main/pkg/dag/native/schema.json"

// job returns the content of the job file.
func (a answers) job(name string, folder bool) []byte {
	var b bytes.Buffer
	b.WriteString("# yaml-language-server: $schema=" + schemaURL + "\n")
	fmt.Fprintf(&b, "apiVersion: tradewind/v1\nname: %s\n# deadline: 6h\n# budget: 5 USD\ntasks:\n  main:\n", name)
	if folder {
		b.WriteString("    workdir: .   # uploaded with the job, except what .tradewindignore or .gitignore lists\n")
	}
	b.WriteString("    run: |\n")
	for line := range strings.Lines(a.run) {
		b.WriteString("      " + strings.TrimRight(line, "\n") + "\n")
	}
	fmt.Fprintf(&b, "    resources: %s\n    time: %s\n", a.needs.yaml(), short(a.time))
	b.WriteString("    # outputs: [{name: result, path: out/, size: 1GiB}]   # kept after the task has finished\n" +
		"    # checkpoint: {every: 10m, path: ckpt/, size: 1GiB}   # the task resumes from it after an interruption\n")
	return b.Bytes()
}
