// Package dagtest has the common part of the readers' tests: tests of the valid and invalid files in testdata, fuzz
// tests, and generators of jobs.
package dagtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

// Parse reads a job from the text of a file.
type Parse = func(name string, data []byte) (*dag.Job, error)

// Failer is the part of testing.T that property tests have too.
type Failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Errors reads the invalid files in testdata/errors. Each must return one error with file, line and field.
func Errors(t *testing.T, file string, parse Parse) {
	datadriven.RunTest(t, filepath.Join("testdata", "errors"), func(t *testing.T, d *datadriven.TestData) string {
		j, err := parse(file, []byte(d.Input))
		var e *dag.Error
		switch {
		case err == nil:
			d.Fatalf(t, "was read")
		case j != nil:
			d.Fatalf(t, "an error, and a job")
		case !errors.As(err, &e) || e.File == "" || e.Reason == "":
			d.Fatalf(t, "%#v is not a full *Error", err)
		}
		return err.Error() + "\n"
	})
}

// Stories runs the files below testdata/stories. Each of the commands reads a file and prints the job or the error.
// The command where [FIELD] prints, for each task of the last job, the position of an error that no machine has the
// requested FIELD.
func Stories(t *testing.T, parse Parse, commands map[string]func(*testing.T, *dag.Job) string) {
	datadriven.Walk(t, filepath.Join("testdata", "stories"), func(t *testing.T, path string) {
		var j *dag.Job
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "where" {
				return where(j, d)
			}
			tell := commands[d.Cmd]
			if tell == nil {
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			read, err := parse("job.yaml", []byte(d.Input))
			if err != nil {
				return err.Error() + "\n"
			}
			j = read
			return tell(t, j)
		})
	})
}

func where(j *dag.Job, d *datadriven.TestData) string {
	field := ""
	for _, arg := range d.CmdArgs {
		field = arg.Key
	}
	var b strings.Builder
	for i := range j.Tasks {
		fmt.Fprintln(&b, j.ErrorAt(i, 0, field, "no machine has it", ""))
	}
	return b.String()
}

// Lines returns the lines of a job in the native format, without those that every job has.
func Lines(t *testing.T, j *dag.Job) (lines []string) {
	t.Helper()
	text, err := dag.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if s := strings.TrimRight(line, "\n"); s != "apiVersion: tradewind/v1" && s != "objective: cost" {
			lines = append(lines, s)
		}
	}
	return lines
}

// Workflows reads the files in testdata/workflows and compares the jobs, in the native format, with testdata/read.
func Workflows(t *testing.T, parse Parse) {
	datadriven.RunTest(t, filepath.Join("testdata", "read"), func(t *testing.T, d *datadriven.TestData) string {
		file := filepath.Join("testdata", "workflows", d.CmdArgs[0].Key)
		data, err := os.ReadFile(file) //nolint:gosec // a file of the tests
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		j, err := parse(file, data)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		if j.Format != dag.Format(d.Cmd) {
			d.Fatalf(t, "%s was read as %s", file, j.Format)
		}
		ReadBack(t, j)
		text, err := dag.Marshal(j)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		for _, w := range j.Warnings {
			text = append(text, "# "+filepath.ToSlash(w)+"\n"...)
		}
		return string(text)
	})
}

// ReadBack marshals j, reads the result, and fails if it is not the same job.
func ReadBack(t Failer, j *dag.Job) {
	t.Helper()
	text, err := dag.Marshal(j)
	if err != nil {
		t.Fatalf("%v", err)
	}
	got, err := native.Parse("job.yaml", text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	want := *j
	want.Format, want.Warnings = dag.Native, got.Warnings // warnings are about the text
	if want.Infeasible == "" {
		want.Infeasible = dag.Retry
	}
	a, errA := json.Marshal(got)
	b, errB := json.Marshal(&want)
	if errA != nil || errB != nil || string(a) != string(b) {
		t.Fatalf("read back\n%s %v\nwant\n%s %v\nfrom\n%s", a, errA, b, errB, text)
	}
}

// Fuzz runs a reader on any input: it must not panic, its errors must be *Error with a line, and its jobs must be
// valid and survive a round trip through the native format. It starts with the files of testdata.
func Fuzz(f *testing.F, parse Parse) {
	files, err := filepath.Glob(filepath.Join("testdata", "workflows", "*"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file) //nolint:gosec // a file of the tests
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	if bad, err := os.ReadFile(filepath.Join("testdata", "errors")); err == nil {
		for _, part := range strings.Split(string(bad), "\n----\n") {
			_, text, _ := strings.Cut(part, "\n\n") // from the end of the previous error to the command of this file
			_, text, _ = strings.Cut(text, "\n")
			f.Add([]byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := parse("job.yaml", data)
		if err == nil {
			if len(j.Warnings) > dag.MaxWarnings {
				t.Fatalf("%d warnings", len(j.Warnings))
			}
			ReadBack(t, j)
			return
		}
		var e *dag.Error
		if j != nil || !errors.As(err, &e) || e.File != "job.yaml" || e.Reason == "" {
			t.Fatalf("%#v, %v", err, j)
		}
		whole := errors.Is(err, dag.ErrLimit) || strings.HasPrefix(e.Reason, "cannot be read") ||
			e.Reason == "the file is empty" || e.Reason == "there is no adag element"
		if e.Line == 0 && !whole {
			t.Fatalf("no line: %v", err)
		}
	})
}
