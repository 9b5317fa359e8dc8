package cli

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/planning"
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// started runs a command in the background and returns a channel for its result.
func (p *program) started(args ...string) <-chan result {
	done := make(chan result, 1)
	go func() { done <- p.run(args...) }()
	return done
}

func TestFirstInterruptCancelsJob(t *testing.T) {
	p := newProgram(t)
	p.hosts.broker.outcome = apitypes.JobRunning
	done := p.started("run", "testdata/jobs/two.yaml")
	<-p.hosts.broker.arrived
	p.signals <- syscall.SIGINT
	r := <-done
	if r.code != command.ExitFailed || !strings.Contains(r.out, "cancelled: 0 of 2 tasks") || !strings.Contains(r.err, "cancelling train-infer-000001") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	if p.hosts.open != 0 {
		t.Errorf("%d brokers are left", p.hosts.open)
	}
	if len(p.exited) > 0 {
		t.Error("the process was ended at once")
	}
}

func TestSecondInterruptExitsAtOnce(t *testing.T) {
	p := newProgram(t)
	p.hosts.broker.outcome = apitypes.JobRunning
	done := p.started("run", "testdata/jobs/two.yaml")
	<-p.hosts.broker.arrived
	p.signals <- syscall.SIGINT // the clock of these tests advances by a second at each reading
	p.signals <- syscall.SIGINT
	if code := <-p.exited; code != command.ExitInterrupted {
		t.Errorf("left with %d", code)
	}
	if r := <-done; !strings.Contains(r.err, "exited at once") {
		t.Errorf("said %q", r.err)
	}
}

func TestUpServesUntilInterrupted(t *testing.T) {
	p := newProgram(t)
	p.hosts.broker.jobs = append(p.hosts.broker.jobs, detail("train-infer-aaaaaa", apitypes.JobRunning, 1))
	done := p.started("up", "--dags", "dags", "--addr", "127.0.0.1:7000", "--time-scale", "0.5", "--max-machines", "3", "-o", "json")
	p.signals <- syscall.SIGTERM
	r := <-done
	if r.code != command.ExitDone {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	var got UpResult
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || got.State != p.state || !strings.Contains(got.Dashboard, "/#code=") {
		t.Errorf("%v: %s", err, r.out)
	}
	if !strings.Contains(r.err, "also resuming unfinished jobs") {
		t.Errorf("unfinished jobs are not reported: %s", r.err)
	}
	o := p.hosts.opened[0]
	if o.DAGs != "dags" || o.Addr != "127.0.0.1:7000" || o.TimeScale != 0.5 || o.MaxMachines != 3 || o.State != p.state || o.Passive || o.Version != "v1.2.3" {
		t.Errorf("opened with %+v", o)
	}
	if p.hosts.open != 0 {
		t.Errorf("%d brokers are left", p.hosts.open)
	}
}

func TestUpReportsCreatedDAGFolder(t *testing.T) {
	p := newProgram(t)
	dir := t.TempDir()
	for dags, made := range map[string]bool{dir: false, filepath.Join(dir, "typo") + "/": true} {
		done := p.started("up", "--dags", dags, "-o", "json")
		p.signals <- syscall.SIGTERM
		r := <-done
		if said := strings.Contains(r.err, "created the folder "+dags); r.code != command.ExitDone || said != made {
			t.Errorf("%s: exit %d, %s", dags, r.code, r.err)
		}
	}
}

func TestStartWaitsForEndingBroker(t *testing.T) {
	p := newProgram(t)
	p.hosts.locked = 2
	if r := p.run("run", "testdata/jobs/two.yaml"); r.code != command.ExitDone {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	p.hosts.locked = 1000
	r := p.run("run", "testdata/jobs/two.yaml")
	if r.code != command.ExitFailed || !strings.Contains(r.err, "hint: another tradewind is starting or ending there") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
}

func TestReadCommandsStartNoBroker(t *testing.T) {
	p := newProgram(t)
	p.hosts.broker.jobs = append(p.hosts.broker.jobs, detail("train-infer-aaaaaa", apitypes.JobRunning, 1))
	for _, line := range []string{"status", "status last", "explain last", "logs last", "queue list"} {
		if r := p.run(strings.Fields(line)...); r.code != command.ExitDone {
			t.Errorf("%s: exit %d: %s", line, r.code, r.err)
		}
	}
	for _, o := range p.hosts.opened {
		if !o.Passive {
			t.Errorf("opened with %+v", o)
		}
	}
	if p.hosts.open != 0 {
		t.Errorf("%d brokers are left", p.hosts.open)
	}
	opened := len(p.hosts.opened)
	r := p.run("status", "--state", filepath.Join(p.state, "not-there"))
	if r.code != command.ExitBadInput || len(p.hosts.opened) != opened || command.Exists(filepath.Join(p.state, "not-there")) {
		t.Errorf("a folder that is not there: exit %d, %s", r.code, r.err)
	}
}

func TestQueueSetWarnsOfNewStateFolder(t *testing.T) {
	const said = "created a new state folder at "
	p := newProgram(t)
	if r := p.run("queue", "set", "lab", "--max-vcpu", "8"); r.code != command.ExitDone || !strings.Contains(r.err, said+p.state) {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	write(t, filepath.Join(p.state, "objects"), "") // a broker makes that
	if r := p.run("queue", "set", "lab", "--max-vcpu", "8"); r.code != command.ExitDone || strings.Contains(r.err, said) {
		t.Errorf("once more: exit %d: %s", r.code, r.err)
	}
	missing := filepath.Join(p.state, "not-there")
	r := p.run("queue", "set", "lab", "--state", missing)
	if r.code != command.ExitBadInput || !strings.Contains(r.err, missing+" does not exist") || command.Exists(missing) {
		t.Errorf("a folder that is not there: exit %d: %s", r.code, r.err)
	}
}

func TestRunSubmitsOverridesAndPaths(t *testing.T) {
	p := newProgram(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "job.yaml")
	write(t, file, `
apiVersion: tradewind/v1
name: job
tasks:
  a:
    run: echo a
    workdir: code
    inputs: [{uri: data.csv}, {uri: "s3://bucket/x", size: 1GiB}, {uri: shared/part.csv}]
    outputs: [{name: out, uri: shared}]
`)
	if err := os.Mkdir(filepath.Join(dir, "code"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "data.csv"), "1")
	r := p.run("run", file, "--deadline", "2h", "--budget", "3.5", "--queue", "research", "--objective", "makespan")
	if r.code != command.ExitDone {
		t.Fatalf("exit %d: %s", r.code, r.err)
	}
	s := p.hosts.broker.submitted[0]
	got := s.Spec
	if got.Deadline.Hours() != 2 || got.Budget != 3.5 || got.Queue != "research" || got.Objective != dag.MinimizeMakespan {
		t.Errorf("got %+v", got)
	}
	task := got.Tasks[0]
	for want, uri := range map[string]string{"code": task.Workdir, "data.csv": task.Inputs[0].URI} {
		if !pack.IsURI(uri) || filepath.Base(uri) != want {
			t.Errorf("%s has become %s", want, uri)
		}
		if err := p.hosts.packs.Check(t.Context(), uri); err != nil {
			t.Error(err)
		}
	}
	for want, path := range map[string]string{ // which a task makes
		"shared/part.csv": task.Inputs[2].URI, "shared": task.Outputs[0].URI,
	} {
		if path != filepath.Join(dir, want) {
			t.Errorf("%s has become %s", want, path)
		}
	}
	if task.Inputs[1].URI != "s3://bucket/x" {
		t.Errorf("a bucket has become %s", task.Inputs[1].URI)
	}
	if s.Token == "" || s.Source != "job.yaml" {
		t.Errorf("key %q, source %q", s.Token, s.Source)
	}
}

func TestRunSubmitsUnchangedFileVerbatim(t *testing.T) {
	p := newProgram(t)
	if r := p.run("run", "testdata/jobs/sky.yaml"); r.code != command.ExitDone {
		t.Fatalf("exit %d: %s", r.code, r.err)
	}
	if got := p.hosts.broker.submitted[0].Spec; got.Format != dag.SkyPilot {
		t.Errorf("it has become %s", got.Format)
	}
}

func TestInvalidOverrideNamesFlag(t *testing.T) {
	r := newProgram(t).run("run", "testdata/jobs/two.yaml", "--queue", "no/such queue")
	if r.code != command.ExitBadInput || !strings.Contains(r.err, "error: --queue: ") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
}

func write(t *testing.T, path, body string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDoctor(t *testing.T) {
	p := newProgram(t)
	p.environ = []string{"AWS_PROFILE=work"}
	r := p.run("doctor", "-o", "json", "--catalog", "testdata/catalog")
	var got DoctorResult
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		t.Fatalf("%v: %s", err, r.out)
	}
	verdicts := map[string]string{}
	for _, c := range got.Checks {
		verdicts[c.Name] = c.Verdict
	}
	for name, want := range map[string]string{
		"version": OK, "broker": OK, "network": OK, "catalogue": OK, "aws": OK,
		"gcp": Note,
	} {
		if verdicts[name] != want {
			t.Errorf("%s is %s, want %s", name, verdicts[name], want)
		}
	}
	p.hosts.up(1)
	p.hosts.running.Token = "not the token of this broker at all"
	write(t, filepath.Join(p.state, "token"), "x")
	if err := os.Chmod(filepath.Join(p.state, "token"), 0o644); err != nil { //nolint:gosec // what doctor has to find
		t.Fatal(err)
	}
	r = p.run("doctor", "--catalog", "testdata/catalog")
	if r.code != command.ExitFailed || !strings.Contains(r.out, "does not accept the token") || !strings.Contains(r.out, "chmod 600") {
		t.Errorf("exit %d:\n%s", r.code, r.out)
	}
}

// convert turns Volcano Queues into the commands that create them, parents first.
func TestConvertQueues(t *testing.T) {
	p := newProgram(t)
	file := filepath.Join(t.TempDir(), "queues.yaml")
	text := `apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: vision}
spec: {parent: lab, weight: 3, capability: {cpu: 64, memory: 8Gi}, deserved: {cpu: 32}, guarantee: {resource: {cpu: 8500m}}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: lab}
spec: {weight: 1}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "tradewind queue set lab\ntradewind queue set vision --parent lab --weight 3 --max vcpus=64,memory=8 " +
		"--deserved 32 --guaranteed 8.5\n"
	if r := p.run("convert", file); r.code != command.ExitDone || r.out != want || r.err != "" {
		t.Errorf("exit %d: %s\n%s", r.code, r.out, r.err)
	}
}

func TestConvertAndSchema(t *testing.T) {
	p := newProgram(t)
	out := filepath.Join(t.TempDir(), "sky.tradewind.yaml")
	if r := p.run("convert", "testdata/jobs/sky.yaml", "--out", out); r.code != command.ExitDone || r.out != "" {
		t.Fatalf("exit %d: %s", r.code, r.err)
	}
	spec, err := read.File(out)
	if err != nil || spec.Format != dag.Native || spec.Tasks[0].Resources[0].Market != dag.MarketSpot {
		t.Errorf("%v: %+v", err, spec)
	}
	if r := p.run("convert", "testdata/jobs/sky.yaml", "--out", out); r.code != command.ExitDone || !strings.Contains(r.err, "overwriting the old file") {
		t.Errorf("once more: exit %d: %s", r.code, r.err)
	}
	sky := filepath.Join(t.TempDir(), "sky.yaml")
	task := "envs: {MODEL: , SIZE: small}\nfile_mounts: {/data: 's3://models/$MODEL'}\nrun: ls /data\n"
	if err := os.WriteFile(sky, []byte(task), 0o600); err != nil {
		t.Fatal(err)
	}
	given := p.run("convert", sky, "--env", "MODEL=llama", "--env", "SIZE=large")
	if given.code != command.ExitDone || given.err != "" || !strings.Contains(given.out, "s3://models/llama") ||
		!strings.Contains(given.out, "SIZE: large") {
		t.Errorf("with variables: exit %d: %s%s", given.code, given.out, given.err)
	}
	if r := p.run("convert", sky, "--env", "9=x"); r.code != command.ExitBadInput || !strings.Contains(r.err, "--env") {
		t.Errorf("with a name that is none: exit %d: %s", r.code, r.err)
	}
	r := p.run("schema")
	var schema map[string]any
	if err := json.Unmarshal([]byte(r.out), &schema); err != nil || schema["$schema"] == nil {
		t.Errorf("%v: %.100s", err, r.out)
	}
}

func TestPlanTotalsAddUp(t *testing.T) {
	r := newProgram(t).run("plan", "testdata/jobs/two.yaml", "--catalog", "testdata/catalog", "--objective", "makespan", "-o", "json")
	var got planning.PlanResult
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		t.Fatalf("exit %d: %v: %s", r.code, err, r.err)
	}
	if got.Status != "optimal" || got.Objective != "makespan" || got.Hours != got.Bound || *got.DeadlineHours != 6 || *got.BudgetUSD != 40 || len(got.Tasks) != 2 {
		t.Errorf("got %+v", got)
	}
	sum := got.TransferUSD
	for _, task := range got.Tasks {
		sum += task.USD
		id := task.Cloud + "/" + task.Region + "/" + task.Zone + "/" + task.InstanceType
		if !strings.HasPrefix(task.Offer, id) || !strings.HasSuffix(task.Offer, "/"+task.Market) || task.Nodes != 1 {
			t.Errorf("%s is not %+v", task.Offer, task)
		}
	}
	if math.Abs(sum-got.USD) > 1e-9 {
		t.Errorf("tasks and transfers cost %v, the plan %v", sum, got.USD)
	}
	if after := got.Tasks[1].After; len(after) != 1 || after[0] != "train" {
		t.Errorf("infer is after %q", after)
	}
}

// interrupted runs a job that runs until it is cancelled, and interrupts the command once the job has arrived.
func interrupted(p *program) result {
	p.hosts.broker.outcome = apitypes.JobRunning
	done := p.started("run", "testdata/jobs/two.yaml")
	<-p.hosts.broker.arrived
	p.signals <- syscall.SIGINT
	return <-done
}

func (b *fakeBroker) state() apitypes.JobState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.jobs[len(b.jobs)-1].State
}

func TestInterruptLeavesJobOfAnotherBroker(t *testing.T) {
	p := newProgram(t)
	p.hosts.up(1)
	r := interrupted(p)
	if r.code != command.ExitInterrupted || !strings.Contains(r.err, "`tradewind status -w train-infer-000001` follows it") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	if got := p.hosts.broker.state(); got != apitypes.JobRunning {
		t.Errorf("the job is %s", got)
	}
}

func TestInterruptAtTerminalAsks(t *testing.T) {
	for answer, want := range map[string]struct {
		state apitypes.JobState
		code  int
		says  string
	}{
		"l": {apitypes.JobRunning, command.ExitInterrupted, "train-infer-000001 resumes when a broker next runs"},
		"c": {apitypes.JobCancelled, command.ExitFailed, "cancelling train-infer-000001"},
	} {
		p := newProgram(t)
		p.answers = []string{"what", answer}
		r := interrupted(p)
		if r.code != want.code || !strings.Contains(r.err, want.says) || !strings.Contains(r.err, "answer l, c or s") {
			t.Errorf("%s: exit %d: %s", answer, r.code, r.err)
		}
		if got := p.hosts.broker.state(); got != want.state {
			t.Errorf("%s: the job is %s", answer, got)
		}
		if p.hosts.open != 0 {
			t.Errorf("%s: %d brokers are left", answer, p.hosts.open)
		}
	}
}
