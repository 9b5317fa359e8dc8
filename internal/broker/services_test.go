package broker_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cloud/service/memory"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// onServices plans each task on the first of some offers that no block covers.
type onServices struct {
	broker.Planner
	offers []apitypes.Offer
}

func (p onServices) Plan(_ context.Context, in planinput.Input) (*record.Plan, error) {
	plan := &record.Plan{Status: "optimal", Choice: []int32{-1}, TaskUSD: []float64{0.1}, TaskHours: []float64{0.1}}
	for _, o := range p.offers {
		if !slices.ContainsFunc(in.Blocks, func(k apitypes.Block) bool { return record.Covers(k, o, in.Now) }) {
			plan.Choice[0] = 0
			plan.Offers = []record.Planned{{ID: o.Cloud + "/" + o.Region + "/" + o.InstanceType + "/" + o.Service, Offer: o, VCPU: 4}}
			return plan, nil
		}
	}
	plan.Status, plan.Message = record.PlanInfeasible, "every service is blocked"
	return plan, nil
}

// serviceBench is a bench with two services.
type serviceBench struct {
	*bench
	account map[string]*memory.Account
	job     string
	apps    []service.App
	outcome memory.Outcome
	logs    map[string]string // by attempt
}

func newServiceBench(t *testing.T, before ...func(*serviceBench)) *serviceBench {
	t.Helper()
	cfg := config.Default()
	cfg.StoreURL = "s3://home"
	w := &serviceBench{bench: newBenchOf(t, cfg), account: map[string]*memory.Account{},
		outcome: memory.Outcome{State: service.Succeeded, Log: service.Log{Stdout: []byte("42 rows\n")}}, logs: map[string]string{}}
	ports := w.b.Ports()
	planner := onServices{Planner: ports.Planner}
	ports.Services = map[string]service.Service{}
	ports.AppendLog = func(_ context.Context, _, attempt string, all []byte) error {
		w.logs[attempt] = string(all)
		return nil
	}
	for _, name := range []string{"emr", "emr-serverless"} {
		w.account[name] = &memory.Account{Service: name, Now: func() time.Time { return w.now }, Run: func(a service.App) memory.Outcome {
			w.apps = append(w.apps, a)
			return w.outcome
		}}
		ports.Services[name] = w.account[name].Deployment("test")
		planner.offers = append(planner.offers, apitypes.Offer{
			Cloud: "aws", Region: "us-east-1", InstanceType: "m5.xlarge", Service: name, Release: "7.5.0", USDPerHour: 0.5,
		})
	}
	ports.Planner = planner
	w.b = broker.New(cfg, ports)
	for _, f := range before {
		f(w)
	}
	spec, err := read.Job("job.yaml", strings.NewReader(`
apiVersion: tradewind/v1
name: words
tasks:
  count:
    inputs: ["s3://data/words.txt"]
    spark:
      main: s3://code/count.py
      args: [$TRADEWIND_INPUTS/words.txt, $TRADEWIND_OUTPUT/counts]
    outputs: [{name: counts, path: counts, size: 1MiB}]
    resources: {executors: 2-10, anyOf: [{service: emr}, {cpus: 4}]}
    time: 1h
`))
	if err != nil {
		t.Fatal(err)
	}
	job, err := w.b.Users.Submit(t.Context(), broker.Submission{Spec: spec, Token: "1"})
	if err != nil {
		t.Fatal(err)
	}
	w.job = job.ID
	w.deliverAll()
	return w
}

// step lets some time pass: services advance, and the broker watches them.
func (w *serviceBench) step() {
	w.t.Helper()
	w.now = w.now.Add(10 * time.Second)
	for _, a := range w.account {
		a.Step()
	}
	if _, err := w.b.Services.Watch(w.t.Context()); err != nil {
		w.t.Logf("watch: %v", err)
	}
	w.deliverAll()
}

func (w *serviceBench) detail() *apitypes.JobDetail {
	w.t.Helper()
	d, err := w.b.Views.JobDetail(w.t.Context(), w.job)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// finish waits until the job has ended, and checks that nothing is left.
func (w *serviceBench) finish(want apitypes.JobState) {
	w.t.Helper()
	for range 30 {
		w.step()
	}
	if d := w.detail(); d.State != want {
		w.t.Errorf("the job is %s: %+v", d.State, d.TaskList)
	}
	for name, a := range w.account {
		if n := a.Left(); n != 0 {
			w.t.Errorf("%d places of %s are left", n, name)
		}
	}
}

// until waits until an application runs.
func (w *serviceBench) running() {
	w.t.Helper()
	for range 10 {
		if w.step(); w.detail().TaskList[0].State == "running" {
			return
		}
	}
	w.t.Fatalf("it does not run: %+v", w.detail().TaskList)
}

func TestSparkTaskRunsOnService(t *testing.T) {
	w := newServiceBench(t)
	w.finish(apitypes.JobSucceeded)
	if n := w.account["emr"].Runs(); n != 1 || w.account["emr"].Made() != 1 {
		t.Errorf("%d runs", n)
	}
	app := w.apps[0]
	if len(app.Args) != 2 || app.Args[0] != "s3://data/words.txt" || !strings.HasPrefix(app.Args[1], "s3://home/"+w.job+"/count/out/") ||
		!strings.HasSuffix(app.Args[1], "/0/counts") || app.Executors != (service.Executors{Min: 2, Max: 10}) {
		t.Errorf("%+v", app)
	}
	if got := w.logs[record.ClusterID(w.job, 0, 1)]; got != "42 rows\n" {
		t.Errorf("its log is %q", got)
	}
	if d := w.detail(); !(d.SpentUSD > 0) {
		t.Errorf("it cost %v USD", d.SpentUSD)
	}
}

// TestReadyPlaceGetsItsApplicationAtOnce covers the look that sees that a place is ready: it also submits.
func TestReadyPlaceGetsItsApplicationAtOnce(t *testing.T) {
	w := newServiceBench(t)
	for range 10 {
		w.step()
		places, err := w.b.Ports().Services["emr"].Places(t.Context())
		if err != nil || len(places) != 1 {
			t.Fatal(places, err)
		}
		if ready, n := places[0].State == service.Ready, w.account["emr"].Runs(); ready != (n == 1) {
			t.Fatalf("the place is %s and has %d applications", places[0].State, n)
		} else if ready {
			return
		}
	}
	t.Error("it was never ready")
}

// terse is a service whose lists of runs lack times, like EMR Serverless. It refuses some of the calls that ask for a
// run by its ID.
type terse struct {
	service.Service
	refusals int
}

func (s *terse) Watch(ctx context.Context, at service.Place, run service.Run) (service.Place, service.Run, error) {
	if run.ID != "" && s.refusals > 0 {
		s.refusals--
		return at, run, cloud.Errorf("aws", cloud.Throttled, "TooManyRequestsException", "slow down")
	}
	p, found, err := s.Service.Watch(ctx, at, run)
	if run.ID == "" {
		found.Began, found.Ended = time.Time{}, time.Time{}
	}
	return p, found, err
}

// A service that bills from the start of the application does not answer when the broker asks for the time of the
// start. The start must be reported only when the time is known, because the attempt is billed from then on.
func TestStartIsReportedWithItsTime(t *testing.T) {
	var of *terse
	w := newServiceBench(t, func(w *serviceBench) {
		w.outcome = memory.Outcome{} // it runs until it is stopped
		ports := w.b.Ports()
		planner := ports.Planner.(onServices)
		planner.offers = planner.offers[1:]
		of = &terse{Service: ports.Services["emr-serverless"], refusals: 3}
		ports.Planner, ports.Services["emr-serverless"] = planner, of
		w.b = broker.New(w.b.Config(), ports)
	})
	if w.running(); of.refusals != 0 {
		t.Errorf("the start was reported, although %d calls would still be refused", of.refusals)
	}
}

func TestRefusedServiceFailsOverToAnother(t *testing.T) {
	for _, kind := range []cloud.Kind{cloud.Capacity, cloud.Quota, cloud.Auth} {
		w := newServiceBench(t, func(w *serviceBench) {
			w.account["emr"].Refuse(memory.Create, &cloud.Error{Kind: kind, Cloud: "aws", Code: "x", Message: "no"})
		})
		w.finish(apitypes.JobSucceeded)
		if n := w.account["emr-serverless"].Runs(); n != 1 {
			t.Errorf("%s: %d runs on the other service", kind, n)
		}
	}
}

// A cluster may be refused after it was accepted. Then its location is blocked, as if it had been refused at once.
func TestPlaceThatNeverBecomesReadyFailsOver(t *testing.T) {
	w := newServiceBench(t, func(w *serviceBench) {
		w.account["emr"].FailLate(&cloud.Error{Kind: cloud.Capacity, Cloud: "aws", Message: "no machines left"})
	})
	w.finish(apitypes.JobSucceeded)
	if w.account["emr"].Runs() != 0 || w.account["emr-serverless"].Runs() != 1 {
		t.Error("it did not run on the other service")
	}
}

func TestLostPlaceIsReplaced(t *testing.T) {
	w := newServiceBench(t)
	w.outcome = memory.Outcome{}
	w.running()
	places, err := w.b.Ports().Services["emr"].Places(t.Context())
	if err != nil || len(places) != 1 {
		t.Fatal(places, err)
	}
	w.account["emr"].Kill(places[0].Name, &cloud.Error{Kind: cloud.Capacity, Cloud: "aws", Message: "the primary node ended"})
	w.outcome = memory.Outcome{State: service.Succeeded}
	w.finish(apitypes.JobSucceeded)
	if n := w.account["emr"].Runs(); n != 2 {
		t.Errorf("%d runs, want a second one", n)
	}
	if n := w.detail().TaskList[0].Attempts; n != 2 {
		t.Errorf("%d attempts", n)
	}
}

func TestFailedApplicationFailsTheTask(t *testing.T) {
	w := newServiceBench(t)
	w.outcome = memory.Outcome{State: service.Failed, Message: "the table is missing"}
	w.finish(apitypes.JobFailed)
	if d := w.detail(); !strings.Contains(d.TaskList[0].Reason, "the table is missing") {
		t.Errorf("%+v", d.TaskList[0])
	}
}

func TestCancelledJobEndsItsPlace(t *testing.T) {
	w := newServiceBench(t)
	w.outcome = memory.Outcome{}
	w.running()
	if err := w.b.Users.Cancel(t.Context(), w.job, "test"); err != nil {
		t.Fatal(err)
	}
	w.finish(apitypes.JobCancelled)
}

// A broker that crashed may have left a place of which it has no record.
func TestPlaceWithoutAttemptEnds(t *testing.T) {
	w := newServiceBench(t)
	spec := service.Spec{Name: "lost", Region: "us-east-1", Release: "7.5.0", Logs: "s3://home/", Executors: service.Executors{Min: 1, Max: 1}}
	if _, err := w.b.Ports().Services["emr-serverless"].Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	w.finish(apitypes.JobSucceeded)
}

// Attempts on services have no agents, so an outage of the broker does not end them.
func TestAttemptOnServiceOutlastsAnOutageOfTheBroker(t *testing.T) {
	w := newServiceBench(t)
	w.outcome = memory.Outcome{}
	w.running()
	w.now = w.now.Add(3 * time.Hour)
	w.reconcile()
	w.outcome = memory.Outcome{State: service.Succeeded}
	w.finish(apitypes.JobSucceeded)
	if n := w.account["emr"].Runs(); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// A place on a service counts as one machine, but on machines of a pool the task needs one for each executor.
func TestTaskPlannedOnServiceTakesNoSingleMachineOfPool(t *testing.T) {
	w := newServiceBench(t, func(w *serviceBench) {
		if err := w.b.Users.SetPool(t.Context(), "lab", record.PoolSettings{}); err != nil {
			t.Fatal(err)
		}
		m := wire.PoolClaims{Pool: "lab", Machine: "m", Joined: w.now}
		r := wire.PoolReport{Capacity: wire.PoolCapacity{CPUs: 8, MemoryGiB: 64}}
		if _, err := w.b.Agents.SyncMachine(t.Context(), m, r); err != nil {
			t.Fatal(err)
		}
	})
	w.finish(apitypes.JobSucceeded)
	if n := w.account["emr"].Runs(); n != 1 {
		t.Errorf("%d runs on the service", n)
	}
}

// endedAtOnce is a service whose first place ends, and whose broker crashes before it has the answer: a second process
// asks for the same place.
type endedAtOnce struct {
	service.Service
	account *memory.Account
	done    bool
}

func (s *endedAtOnce) Create(ctx context.Context, spec service.Spec) (service.Place, error) {
	if !s.done {
		s.done = true
		p, err := s.Service.Create(ctx, spec)
		if err != nil {
			return p, err
		}
		s.account.Kill(p.Name, &cloud.Error{Kind: cloud.Capacity, Cloud: "aws", Message: "no machines left"})
	}
	return s.Service.Create(ctx, spec)
}

func TestPlaceThatEndsBeforeItsCreationIsRecordedFailsOver(t *testing.T) {
	w := newServiceBench(t, func(w *serviceBench) {
		ports := w.b.Ports()
		ports.Services["emr"] = &endedAtOnce{Service: ports.Services["emr"], account: w.account["emr"]}
	})
	w.finish(apitypes.JobSucceeded)
	if n := w.account["emr-serverless"].Runs(); n != 1 {
		t.Errorf("%d runs on the other service", n)
	}
	d := w.detail()
	if len(d.Attempts) != 2 || d.Attempts[0].Outcome != apitypes.OutcomeRefused {
		t.Errorf("%+v", d.Attempts)
	}
}
