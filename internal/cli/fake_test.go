package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/api/logstore"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/view"
	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/everycloud"
	"github.com/tradewind-broker/tradewind/internal/grant/filegrant"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/internal/lab"
	"github.com/tradewind-broker/tradewind/internal/pack/depot"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// begin is the start time of these tests, on the broker's clock.
var begin = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return begin.Add(time.Duration(minutes) * time.Minute) }

// fakeBroker answers the real API with made-up jobs.
type fakeBroker struct {
	// Methods that are not defined below are not called.
	api.Submitter
	api.JobViews
	api.QueueSetter
	api.QueueViews

	mu        sync.Mutex
	outcome   apitypes.JobState // final state of submitted jobs; JobRunning runs until it is cancelled
	plan      int               // plan version of submitted jobs
	short     bool              // submitted jobs take less time than planned
	simulated float64           // if above 0, nothing is bought for submitted jobs, and this is their time scale
	submitted []broker.Submission
	arrived   chan struct{}         // gets one value per submission, unless it is full
	jobs      []*apitypes.JobDetail // oldest first
	queues    []apitypes.Queue
}

func (b *fakeBroker) Submit(_ context.Context, s broker.Submission) (record.Job, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.submitted = append(b.submitted, s)
	select {
	case b.arrived <- struct{}{}:
	default:
	}
	d := detail(fmt.Sprintf("%s-%06d", s.Spec.Name, len(b.jobs)+1), b.outcome, b.plan)
	d.Queue = s.Spec.Queue
	if b.short {
		d.SpentUSD = 0.05
	}
	d.Simulated, d.TimeScale = b.simulated > 0, b.simulated
	b.jobs = append(b.jobs, d)
	return record.Job{ID: d.ID}, nil
}

// detail returns a job of two tasks in a state.
func detail(id string, state apitypes.JobState, plan int) *apitypes.JobDetail {
	d := &apitypes.JobDetail{JobView: apitypes.JobView{
		ID: id, Name: "train-infer", Queue: "default", State: state, Objective: "cost", Submitted: begin, Tasks: 2, Plan: plan,
		SpentUSD: 1.25, PlannedUSD: 1.5, OnDemandUSD: 6.25,
	}}
	const offer = "aws/us-east-1/use1-az1/p3.2xlarge/spot"
	d.TaskList = []apitypes.TaskView{
		{Index: 0, Name: "train", State: "running", Nodes: 1, Offer: offer, Hours: 2, Attempts: 1, Started: at(1), USD: 1.25},
		{Index: 1, Name: "infer", State: "waiting", Nodes: 1, After: []int{0}, Hours: 0.5},
	}
	d.Attempts = []apitypes.Attempt{{Job: id, Task: 0, Number: 1, OfferID: offer, Offer: apitypes.Offer{USDPerHour: 0.918}, Nodes: 1, Launched: at(1)}}
	if plan > 0 {
		d.Plans = []apitypes.PlanHead{{Version: 1, At: at(0), Status: "optimal", USD: 1.5, Hours: 2.5, OnDemandUSD: 6.25}}
	}
	if state.Finished() {
		end(d, state)
	}
	return d
}

// end finishes a job.
func end(d *apitypes.JobDetail, state apitypes.JobState) {
	d.State, d.Finished = state, at(150)
	switch {
	case state == apitypes.JobSucceeded:
		d.Succeeded = 2
		for i := range d.TaskList {
			d.TaskList[i].State, d.TaskList[i].Started, d.TaskList[i].Ended = "succeeded", at(1), at(120)
		}
		d.Attempts[0].Ended, d.Attempts[0].Outcome, d.Attempts[0].USD = at(120), apitypes.OutcomeSucceeded, 1.25
	case state == apitypes.JobFailed && d.Plan == 0:
		d.Reason = "no feasible plan: the deadline is 6m but the fastest plan takes at least 3h"
	case state == apitypes.JobFailed:
		d.Reason = "task infer: exit code 1"
	case state == apitypes.JobCancelled:
		d.Reason = "interrupted"
	}
}

func (b *fakeBroker) find(id string) (*apitypes.JobDetail, error) {
	for _, d := range b.jobs {
		if d.ID == id {
			return d, nil
		}
	}
	return nil, fmt.Errorf("job %s: %w", id, record.ErrNotFound)
}

func (b *fakeBroker) Cancel(_ context.Context, id, reason string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	d, err := b.find(id)
	switch {
	case err != nil:
		return err
	case d.State.Finished():
		return record.ErrFinished
	}
	end(d, apitypes.JobCancelled)
	d.Reason = reason
	return nil
}

func (b *fakeBroker) Remove(_ context.Context, id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	d, err := b.find(id)
	switch {
	case err != nil:
		return err
	case !d.State.Finished():
		return fmt.Errorf("%w: cancel it first", record.ErrUnfinished)
	}
	b.jobs = slices.DeleteFunc(b.jobs, func(d *apitypes.JobDetail) bool { return d.ID == id })
	return nil
}

func (b *fakeBroker) Jobs(_ context.Context, _ string, limit int) ([]apitypes.JobView, string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []apitypes.JobView
	for _, d := range slices.Backward(b.jobs) {
		list = append(list, d.JobView)
	}
	return list[:min(limit, len(list))], "", nil
}

func (b *fakeBroker) JobView(ctx context.Context, id string) (apitypes.JobView, error) {
	d, err := b.JobDetail(ctx, id)
	if err != nil {
		return apitypes.JobView{}, err
	}
	return d.JobView, nil
}

func (b *fakeBroker) JobDetail(_ context.Context, id string) (*apitypes.JobDetail, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d, err := b.find(id)
	if err != nil {
		return nil, err
	}
	clone := *d
	clone.TaskList, clone.Attempts = slices.Clone(d.TaskList), slices.Clone(d.Attempts)
	return &clone, nil
}

func (b *fakeBroker) JobPart(ctx context.Context, id string, _ view.Part) (*apitypes.JobDetail, error) {
	return b.JobDetail(ctx, id)
}

func (b *fakeBroker) JobSince(ctx context.Context, id string, _ *view.Look) (*view.Look, error) {
	d, err := b.JobDetail(ctx, id)
	if err != nil {
		return nil, err
	}
	return &view.Look{JobDetail: *d}, nil
}

func (b *fakeBroker) ExplainPart(ctx context.Context, id string, _ view.Part) (*apitypes.Story, error) {
	d, err := b.JobDetail(ctx, id)
	if err != nil {
		return nil, err
	}
	return &apitypes.Story{
		Job: d.JobView,
		Entries: []apitypes.Entry{
			{At: at(0), Kind: "submitted", Text: "2 tasks, to minimise cost"},
			{At: at(1), Kind: "refused", Task: "train", Text: "attempt 1 was refused: aws: capacity: \x1b[31mno capacity\x1b[0m"},
			{At: at(120), Kind: "succeeded", Task: "train", Text: "attempt 2 succeeded", USD: 1.25},
		},
		Choices: []apitypes.TaskWhy{{
			Task: "train", Chosen: "aws/us-east-1/use1-az1/p3.2xlarge/spot", USD: 1.25, Hours: 2.1,
			Runners: []apitypes.Runner{{ID: "gcp/us-central1/us-central1-a/n1-standard-8+V100:1/spot", USD: 1.4, Hours: 2.2, Adds: 0.15}},
		}},
	}, nil
}

func (b *fakeBroker) Queues(context.Context) ([]apitypes.Queue, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.queues), nil
}

func (b *fakeBroker) SetQueue(_ context.Context, name string, s record.QueueSettings) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queues = slices.DeleteFunc(b.queues, func(q apitypes.Queue) bool { return q.Name == name })
	b.queues = append(b.queues, apitypes.Queue{
		Name: name, MaxRunning: s.MaxRunning, MaxVCPU: s.MaxVCPU, Description: s.Description, Parent: s.Parent, Weight: s.Weight,
		DeservedVCPU: s.DeservedVCPU, GuaranteedVCPU: s.GuaranteedVCPU, Preempt: s.Preempt, Closed: s.Closed, Keep: s.Keep,
	})
	return nil
}

func (b *fakeBroker) WhyWaiting(_ context.Context, id string) (*apitypes.Why, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, j := range b.jobs {
		if j.ID == id {
			return &apitypes.Why{
				Job: id, Queue: j.Queue, State: j.State, Waiting: 1, Reason: "queue default holds 4 of at most 4 vCPU, and this needs 2 more",
				Tasks: []apitypes.WhyTask{{Task: "train", Since: j.Submitted, Ahead: 3, Reasons: []string{"queue default has 4 of the 4 vCPU that it may have, and this needs 2"}}},
			}, nil
		}
	}
	return nil, record.ErrNotFound
}

const testToken = "0123456789abcdef0123456789abcdef"

// fakeHosts finds and opens brokers that have the real API but run no tasks.
type fakeHosts struct {
	clouds  apitypes.CloudReports
	t       *testing.T
	broker  *fakeBroker
	logs    *logstore.Store
	dead    apitest.Dead
	packs   *depot.Depot  // of the latest opened broker
	running *host.Running // a broker that is running for the folder

	mu     sync.Mutex
	locked int // how often opening fails because the folder is locked
	opened []host.Options
	open   int   // brokers opened and not closed
	left   error // error of closing a broker
	// price is the cost of each task in plans, which do not exist below 0; 0 means that the broker does not plan.
	price float64
}

func newHosts(t *testing.T) *fakeHosts {
	t.Helper()
	logs, err := logstore.New(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = logs.Close() })
	return &fakeHosts{t: t, broker: &fakeBroker{outcome: apitypes.JobSucceeded, plan: 1, arrived: make(chan struct{}, 1)}, logs: logs}
}

// up starts a broker on the folder.
func (h *fakeHosts) up(scale float64) {
	s := h.serve()
	h.running = &host.Running{URL: s.URL, PID: 4242, Started: begin, TimeScale: scale, Token: testToken}
}

func (h *fakeHosts) serve() *httptest.Server {
	s := httptest.NewUnstartedServer(nil)
	dir := h.t.TempDir()
	files, err := filegrant.New(dir, filegrant.Options{
		BaseURL: "http://" + s.Listener.Addr().String() + api.ObjectsPath,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { files.Close(); root.Close() })
	h.packs = &depot.Depot{Store: depot.Folder{Root: root}, Sign: files, URI: "file://" + dir, Now: time.Now}
	ports := api.PortsOf(&broker.Broker{})
	ports.Submitter, ports.JobViews = h.broker, h.broker
	ports.QueueSetter, ports.QueueViews = h.broker, h.broker
	var plan api.PlanFunc
	if h.price != 0 {
		plan = h.plan
	}
	a, err := api.New(api.Config{
		Plan: plan, Packs: h.packs, Objects: files,
		Broker: ports, Token: testToken, Logs: h.logs, Dead: &h.dead, Now: func() time.Time { return at(60) },
		Clouds: func(context.Context) (apitypes.CloudReports, error) { return h.clouds, nil },
		Verify: func(string) (wire.Claims, error) { return wire.Claims{}, errors.New("no agents here") },
	})
	if err != nil {
		h.t.Fatal(err)
	}
	s.Config.Handler = a
	s.Start()
	h.t.Cleanup(func() {
		a.Close()
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// plan makes a plan with the same price for each task.
func (h *fakeHosts) plan(_ context.Context, spec *dag.Job) (*record.Plan, error) {
	if h.price < 0 {
		return &record.Plan{Status: record.PlanInfeasible, Message: "no feasible plan: no zone has capacity"}, nil
	}
	const offer = "aws/us-east-1/use1-az1/p3.2xlarge/spot"
	n := len(spec.Tasks)
	p := &record.Plan{
		Status: "optimal", USD: float64(n) * h.price, Hours: 2, OnDemandUSD: float64(2*n) * h.price,
		Offers: []record.Planned{{ID: offer, Offer: apitypes.Offer{Cloud: "aws", InstanceType: "p3.2xlarge", USDPerHour: h.price}}},
		Choice: make([]int32, n), TaskUSD: make([]float64, n), TaskHours: make([]float64, n),
	}
	for i := range n {
		p.TaskUSD[i], p.TaskHours[i] = h.price, 1
	}
	return p, nil
}

func (h *fakeHosts) Find(string) (host.Running, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running == nil {
		return host.Running{}, false, nil
	}
	return *h.running, true, nil
}

func (h *fakeHosts) Open(_ context.Context, o host.Options) (Server, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opened = append(h.opened, o)
	if h.locked > 0 {
		h.locked--
		return nil, fmt.Errorf("state folder: %w", host.ErrLocked)
	}
	h.open++
	return &fakeServer{hosts: h, url: h.serve().URL}, nil
}

type fakeServer struct {
	hosts *fakeHosts
	url   string
}

func (s *fakeServer) Serve(ctx context.Context) error { <-ctx.Done(); return nil }
func (s *fakeServer) URL() string                     { return s.url }
func (s *fakeServer) Token() string                   { return testToken }
func (s *fakeServer) Close() error {
	s.hosts.mu.Lock()
	defer s.hosts.mu.Unlock()
	s.hosts.open--
	return s.hosts.left
}

// program runs commands in this process.
type program struct {
	hosts   *fakeHosts
	state   string
	in      string
	environ []string
	clouds  clouds.Support
	asking  sync.Mutex
	answers []string // of a person at a terminal; nil means that there is none
	signals chan os.Signal
	exited  chan int
	now     func() time.Time
}

func newProgram(t *testing.T) *program {
	t.Helper()
	clock := begin
	var mu sync.Mutex
	return &program{
		hosts: newHosts(t), clouds: everycloud.Support(), state: t.TempDir(), signals: make(chan os.Signal), exited: make(chan int, 1),
		now: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			clock = clock.Add(time.Second)
			return clock
		},
	}
}

// result is the outcome of a command.
type result struct {
	code     int
	out, err string
}

// run runs a command. It may be called more than once.
func (p *program) run(args ...string) result {
	var out bytes.Buffer
	errs := &lockedBuffer{}
	env := &Env{Brokers: p.hosts, Clouds: p.clouds, Env: command.Env{
		In: strings.NewReader(p.in), Out: &out, Err: errs, Environ: append([]string{"TRADEWIND_STATE=" + p.state, "HOME=/nowhere"}, p.environ...),
		Version: "v1.2.3", Now: p.now, Interrupts: p.signals, Exit: func(code int) { p.exited <- code },
	}}
	if p.answers != nil {
		env.Ask = p.answer(errs)
	}
	code := Run(context.Background(), env, args)
	return result{code: code, out: out.String(), err: errs.String()}
}

// answer returns how a person answers questions: with one answer after the other, and then the end of the input.
func (p *program) answer(out io.Writer) func(context.Context, string) (string, error) {
	return func(_ context.Context, question string) (string, error) {
		p.asking.Lock()
		defer p.asking.Unlock()
		if len(p.answers) == 0 {
			fmt.Fprintln(out, question)
			return "", io.EOF
		}
		said := p.answers[0]
		p.answers = p.answers[1:]
		fmt.Fprintln(out, question+said)
		return said, nil
	}
}

// lab runs a command of the research program on the same state folder.
func (p *program) lab(args ...string) result {
	var out, errs bytes.Buffer
	code := lab.Run(context.Background(), &command.Env{
		In: strings.NewReader(p.in), Out: &out, Err: &errs, Environ: []string{"TRADEWIND_STATE=" + p.state, "HOME=/nowhere"},
		Version: "v1.2.3", Now: p.now,
	}, args)
	return result{code: code, out: out.String(), err: errs.String()}
}

// lockedBuffer is safe for concurrent writes, like a terminal.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
