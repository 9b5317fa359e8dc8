package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// begin runs init in a folder with some files, and returns its output and the job file.
func beginInit(t *testing.T, files []string, answers string, args ...string) (said, job string, err error) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, file := range files {
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, told bytes.Buffer
	c := InitCommand(command.New(t.Context(), &command.Env{In: strings.NewReader(answers), Out: &out, Err: &told}, args))
	c.SetArgs(args)
	c.SilenceErrors, c.SilenceUsage = true, true
	err = c.ExecuteContext(context.Background())
	body, _ := os.ReadFile("job.yaml") // the file may not exist
	return out.String() + told.String(), string(body), err
}

func TestInitWritesJobFromAnswers(t *testing.T) {
	for _, c := range []struct {
		what, answers string
		files, args   []string
		want, not     []string
	}{
		{what: "defaults", answers: "\n\n\n", want: []string{"hello from", "cpus: 2+", "time: 10m"}, not: []string{"workdir"}},
		{what: "no input", want: []string{"hello from"}},
		{what: "answers", answers: "sleep 1\n8 CPUs, 32 GB\n90m\n", want: []string{"sleep 1", "cpus: 8+, memory: 32+", "time: 1h30m\n"}},
		{what: "wrong answers are asked again", answers: "sleep 1\nA1000\nA100\nsoon\n5m\n", want: []string{"A100:1", "time: 5m\n"}},
		{what: "a folder with a program", files: []string{"train.py"}, want: []string{"python3 train.py", "workdir: ."}},
		{what: "a named file", files: []string{"a.sh"}, answers: "sh a.sh; ls\n", want: []string{"workdir: ."}},
		{what: "flags", args: []string{"--run", "a: b", "--needs", "2 v100", "--time", "2d"}, want: []string{"      a: b", "V100:2", "time: 48h\n"}},
		{what: "lines", args: []string{"--run", "echo a\n\n  echo b"}, want: []string{"      echo a\n", "        echo b"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			said, job, err := beginInit(t, c.files, c.answers, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(job, want) {
					t.Errorf("no %q in\n%s", want, job)
				}
			}
			for _, not := range c.not {
				if strings.Contains(job, not) {
					t.Errorf("%q is in\n%s", not, job)
				}
			}
			if !strings.HasPrefix(job, "# yaml-language-server: $schema=https://") {
				t.Errorf("editors find no schema in\n%s", job)
			}
			if !strings.Contains(said, "tradewind run job.yaml") {
				t.Errorf("said %s", said)
			}
		})
	}
}

func TestInitRejectsInvalidInput(t *testing.T) {
	for _, c := range []struct {
		what, answers string
		files, args   []string
		want          string
	}{
		{what: "existing file", files: []string{"job.yaml"}, want: "job.yaml already exists"},
		{what: "unknown accelerator", answers: "x\nA1000\n", want: `did you mean "A100"?`},
		{what: "wrong line of three", answers: "x\nA1000\n10m\n", want: `did you mean "A100"?`},
		{what: "wrong line without a newline", answers: "x\nA1000", want: `did you mean "A100"?`},
		{what: "invalid count", args: []string{"--needs", "A100:x"}, want: "--needs: \"A100:x\": the colon must be followed by a count"},
		{what: "invalid time", args: []string{"--time", "soon"}, want: "--time: must be a time"},
		{what: "nothing", args: []string{"--needs", ","}, want: "names no resource"},
		{what: "missing folder", args: []string{"a/b.yaml"}, want: "a/b.yaml: folder a does not exist"},
	} {
		t.Run(c.what, func(t *testing.T) {
			_, job, err := beginInit(t, c.files, c.answers, c.args...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, not %q", err, c.want)
			}
			if job != "" && job != "x" {
				t.Errorf("wrote %s", job)
			}
		})
	}
}

func TestInitForceOverwrites(t *testing.T) {
	if _, job, err := beginInit(t, []string{"job.yaml"}, "", "--force"); err != nil || !strings.Contains(job, "hello") {
		t.Errorf("%v: %s", err, job)
	}
}

// Every job file that init writes can be read.
func TestWrittenJobCanBeRead(t *testing.T) {
	known, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "job.yaml")
	rapid.Check(t, func(t *rapid.T) {
		a := answers{
			run:  strings.TrimSpace(rapid.StringMatching(`[ -~]{1,40}(\n[ -~]{1,40})?`).Draw(t, "run")),
			time: time.Duration(rapid.IntRange(1, 100_000).Draw(t, "s")) * time.Second,
		}
		if a.run == "" {
			return
		}
		text := rapid.SampledFrom([]string{"1", "3 cores", "0.5cpu 1GB", "a100", "4xA", "T4:2 64 gib"}).Draw(t, "needs")
		if a.needs, err = parseNeeds(text, known.Accelerators()); err != nil {
			return
		}
		job, err := read.JobWithEnv(file, bytes.NewReader(a.job("n", false)), nil)
		if err != nil || strings.TrimSpace(job.Tasks[0].Run) != a.run || len(job.Tasks[0].Resources) == 0 {
			t.Fatalf("%v: %s", err, a.job("n", false))
		}
	})
}

func TestInitWarnsOfMissingFile(t *testing.T) {
	for run, missing := range map[string]bool{
		"python3 train.py --out x": true, "python3 have.py": false, "bash 'sub/run.sh'": true, "echo train": false,
		"python3 /opt/train.py": false,
	} {
		said, job, err := beginInit(t, []string{"have.py"}, "", "--run", run, "--needs", "2 CPUs", "--time", "1m")
		if err != nil || job == "" {
			t.Fatal(err)
		}
		if got := strings.Contains(said, "which does not exist in"); got != missing {
			t.Errorf("%s: said %s", run, said)
		}
	}
}
