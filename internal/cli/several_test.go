package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func TestEveryFailureIsPrinted(t *testing.T) {
	p := newProgram(t)
	p.hosts.broker.jobs = append(p.hosts.broker.jobs, detail("done-aaaaaa", apitypes.JobSucceeded, 1))
	p.hosts.up(1)
	r := p.run("cancel", "nope1", "done-aaaaaa", "nope2")
	for _, says := range []string{"nope1", "has already finished", "nope2"} {
		if r.code == command.ExitDone || strings.Count(r.err, says) != 1 {
			t.Errorf("exit %d, and %q is not said once:\n%s", r.code, says, r.err)
		}
	}
	// The error of closing the broker is printed, too, although the job's failure was already printed.
	p = newProgram(t)
	p.hosts.broker.outcome, p.hosts.left = apitypes.JobFailed, errors.New("machines of aws may still run")
	r = p.run("run", "testdata/jobs/two.yaml")
	if r.code != command.ExitFailed || !strings.Contains(r.err, "error: machines of aws may still run") {
		t.Errorf("exit %d:\n%s", r.code, r.err)
	}
}

// --state overrides $TRADEWIND_ENDPOINT.
func TestStateFlagOverridesEnvironment(t *testing.T) {
	p, _ := poolProgram(t)
	p.environ = []string{command.EnvEndpoint + "=http://127.0.0.1:1"}
	r := p.run("pool", "join", "lap", "--gpu", "none", "--state", p.state)
	if r.code != command.ExitBadInput || !strings.Contains(r.err, "there is no pool lap") {
		t.Errorf("pool join: exit %d: %s", r.code, r.err)
	}
	p = newProgram(t)
	p.environ = []string{command.EnvEndpoint + "=http://127.0.0.1:1"}
	r = p.run("run", "testdata/jobs/two.yaml", "--detach", "--state", p.state)
	if r.code != command.ExitFailed || !strings.Contains(r.err, "no broker is running for "+p.state) {
		t.Errorf("run: exit %d: %s", r.code, r.err)
	}
}

// Without a broker, a job does not change.
func TestStatusWatchWithoutBroker(t *testing.T) {
	for state, code := range map[apitypes.JobState]int{
		apitypes.JobSucceeded: command.ExitDone, apitypes.JobFailed: command.ExitFailed,
		apitypes.JobCancelled: command.ExitFailed, apitypes.JobRunning: command.ExitFailed,
	} {
		for _, more := range []string{"", " -o json"} {
			p := newProgram(t)
			d := detail("j-aaaaaa", state, 1)
			d.Plan = 1
			p.hosts.broker.jobs = append(p.hosts.broker.jobs, d)
			if r := p.run(strings.Fields("status -w j-aaaaaa" + more)...); r.code != code || r.out == "" {
				t.Errorf("%s%s: exit %d, want %d\n%s%s", state, more, r.code, code, r.out, r.err)
			}
		}
	}
}

// A converted job refers to the same files as the original.
func TestConvertRewritesPaths(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{
		"sub/sky.yaml": "workdir: .\nfile_mounts: {/data/a.txt: ./data.csv, /out: {name: b, source: ./local}}\nrun: ls\n",
		"sub/own.yaml": "apiVersion: tradewind/v1\nname: own\ntasks:\n  a: {run: ls, outputs: [{name: o, uri: results}]}\n" +
			"  b: {run: ls, workdir: {url: ../code, ref: main}}\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for file, wants := range map[string][]string{
		"sub/sky.yaml": {"workdir: ..\n", "uri: ../data.csv", "source: ../local"},
		"sub/own.yaml": {"../sub/results", "../code"},
	} {
		p := newProgram(t)
		if err := os.MkdirAll("to", 0o700); err != nil {
			t.Fatal(err)
		}
		r := p.run("convert", file, "--out", "to/job.yaml")
		body, err := os.ReadFile("to/job.yaml")
		if r.code != command.ExitDone || err != nil {
			t.Fatalf("%s: exit %d: %s %v", file, r.code, r.err, err)
		}
		for _, want := range wants {
			if !strings.Contains(string(body), want) {
				t.Errorf("%s: no %q in\n%s", file, want, body)
			}
		}
	}
}
