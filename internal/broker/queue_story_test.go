package broker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/session"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// TestQueueStories runs the files of testdata/queues. Each is a broker with queues, whose clouds launch everything
// that the story does not refuse.
func TestQueueStories(t *testing.T) { playStories(t, "queues") }

// playStories runs the files of a folder of testdata. The commands:
//
//	queue NAME [parent=Q] [weight=N] [month=USD] [vcpu=F] [running=N] [guaranteed=F] [deserved=F] [preempt] [closed] [keep=D]
//	policy                              sessions follow the one below
//	submit NAME [queue=Q] [namespace=N] [priority=N] [deadline=D] [budget=USD] [infeasible=wait]    a job with the tasks below
//	cancel JOB
//	remove JOB                          removes a finished job
//	left JOB                            its records, how many of them expire, its logs and its objects
//	usage D                             what the queues held in the last D
//	rerun JOB NAME                      runs its failed tasks again, as a job that the story calls NAME
//	suspend JOB|QUEUE [drain] | resume JOB|QUEUE    as ann, and as bob
//	refuse TASK [KIND] | allow          clouds refuse to launch the task, for a kind of reason | none does
//	up [JOB/TASK...]                    machines say hello, all or those of a task; those commanded to run do
//	poll                                agents obey: they run, or save what they have and stop
//	finish JOB/TASK | fail JOB/TASK | timeout JOB/TASK
//	notice JOB/TASK | taken JOB/TASK    the cloud will take its machine in two minutes | has taken it
//	planned                             how often the planner was called
//	prices FACTOR                       spot machines in use cost FACTOR times the planned price
//	planner fails TEXT | planner ends | planner works    it returns an error | its process ends during it | it plans again
//	advance D
//	reconcile
//	status                              tasks, and what queues hold
//	where JOB                           what is bought for each task, and the cost of the job
//	explain JOB                         what happened to it and why
//	why JOB                             why its tasks wait
func playStories(t *testing.T, folder string) {
	datadriven.Walk(t, filepath.Join("testdata", folder), func(t *testing.T, path string) {
		s := &queueBench{bench: newBench(t), agents: map[string]*queueAgent{}, specs: map[string]*dag.Job{}, ids: map[string]string{}}
		for _, c := range s.cloud {
			c.refuse = s.refusal
		}
		ports, cfg := s.b.Ports(), config.Default()
		if folder == "past" {
			s.kept, cfg.StoreURL = newOutputStore(), storeOfPast
			ports.Data, ports.Logs = s.kept, s.kept
		}
		s.plans = &flaky{Planner: ports.Planner}
		ports.Planner = s.plans
		s.b = broker.New(cfg, ports)
		datadriven.RunTest(t, path, s.command)
	})
}

// queueBench is a broker with several users, who share quotas.
type queueBench struct {
	*bench
	names   []string // of jobs
	ids     map[string]string
	specs   map[string]*dag.Job
	agents  map[string]*queueAgent // keyed by cluster
	refused string
	kind    cloud.Kind
	out     strings.Builder
	serial  int
	plans   *flaky
	kept    *outputStore // logs and outputs; nil if tasks have none
}

// flaky is a planner that can fail. It counts its calls.
type flaky struct {
	broker.Planner
	mode, text string
	calls      int
}

// errEnded stands for the end of the process: nothing runs after it.
var errEnded = errors.New("the process has ended")

func (p *flaky) Plan(ctx context.Context, in planinput.Input) (*record.Plan, error) {
	p.calls++
	switch p.mode {
	case "fails":
		return nil, errors.New(p.text)
	case "ends":
		panic(errEnded)
	}
	return p.Planner.Plan(ctx, in)
}

// queueAgent is the agents of a cluster: all of its nodes do the same.
type queueAgent struct {
	seen, saved   int
	running, over bool
}

func (s *queueBench) printf(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	for name, id := range s.ids {
		line = strings.ReplaceAll(line, id, name)
	}
	s.out.WriteString(strings.TrimRight(line, " ") + "\n")
}

// wait suspends or resumes a job, or the queue of that name if the job does not exist.
func (s *queueBench) wait(waits bool, name, key string, drain bool) error {
	ctx, why := context.Background(), apitypes.Suspension{By: "ann", Reason: "the data is wrong", Drain: drain}
	id, isJob := s.ids[name]
	switch {
	case isJob && waits:
		return s.b.Users.Suspend(ctx, id, why, key)
	case isJob:
		return s.b.Users.Resume(ctx, id, "bob", key)
	case waits:
		return s.b.Users.SuspendQueue(ctx, name, why, key)
	default:
		return s.b.Users.ResumeQueue(ctx, name, "bob", key)
	}
}

func (s *queueBench) refusal(spec cloud.LaunchSpec) error {
	if spec.Labels["task"] == s.refused {
		return cloud.Errorf(spec.Offer.Cloud, s.kind, "Denied", "no right to buy")
	}
	return nil
}

func (s *queueBench) command(t *testing.T, d *datadriven.TestData) string {
	s.t = t
	s.out.Reset()
	plain, named := words(d)
	var err error
	switch d.Cmd {
	case "queue":
		s.now = s.now.Add(time.Second) // make it a separate change
		var most apitypes.Amounts
		if usd := number(named["month"]); usd > 0 {
			most = apitypes.Amounts{apitypes.USDPerMonth: usd}
		}
		err = s.b.Users.SetQueue(context.Background(), plain[0], record.QueueSettings{
			Max:    most,
			Parent: named["parent"], Weight: int(number(named["weight"])), MaxVCPU: number(named["vcpu"]), MaxRunning: int(number(named["running"])),
			GuaranteedVCPU: number(named["guaranteed"]), DeservedVCPU: number(named["deserved"]),
			Preempt: slices.Contains(plain, "preempt"), Closed: slices.Contains(plain, "closed"), Keep: named["keep"],
		})
		s.deliverAll()
	case "policy":
		var p *scheduler.Policy
		p, err = session.ReadPolicy("policy.yaml", []byte(d.Input))
		s.policy = p
	case "submit":
		err = s.submit(plain[0], named, d.Input)
	case "remove":
		err = s.b.Users.Remove(context.Background(), s.ids[plain[0]])
		s.deliverAll()
	case "left":
		s.left(plain[0])
	case "usage":
		err = s.usage(plain[0])
	case "rerun":
		err = s.rerun(plain[0], plain[1])
	case "cancel":
		err = s.b.Users.Cancel(context.Background(), s.ids[plain[0]], "by its owner")
		s.deliverAll()
	case "suspend", "resume":
		err = s.wait(d.Cmd == "suspend", plain[0], named["key"], slices.Contains(plain, "drain"))
		s.deliverAll()
	case "refuse":
		s.refused, s.kind = plain[0], cloud.Auth // a failure of kind Auth blocks the whole cloud
		if len(plain) > 1 {
			s.kind = cloud.Kind(plain[1])
		}
	case "allow":
		s.refused = ""
	case "up":
		s.up(plain)
	case "poll":
		s.poll()
	case "finish":
		s.end(plain[0], wire.Succeeded)
	case "fail":
		s.end(plain[0], wire.Failed)
	case "timeout":
		s.endIn(plain[0], wire.Failed, wire.PhaseTimeout)
	case "notice":
		s.interrupt(plain[0], s.now.Add(2*time.Minute), "interruption")
	case "taken":
		s.interrupt(plain[0], s.now, "taken")
	case "planner":
		s.plans.mode, s.plans.text = plain[0], strings.Join(plain[1:], " ")
	case "planned":
		s.printf("%d calls of the planner", s.plans.calls)
	case "prices":
		err = s.prices(number(plain[0]))
	case "where":
		err = s.where(plain[0])
	case "explain":
		err = s.explain(plain[0])
	case "advance":
		span, perr := time.ParseDuration(plain[0])
		s.now, err = s.now.Add(span), perr
	case "reconcile":
		err = s.reconcile()
	case "status":
		s.status()
	case "why":
		why, werr := s.b.Views.WhyWaiting(context.Background(), s.ids[plain[0]])
		if err = werr; err == nil {
			s.printf("%s: %s", why.State, why.Reason)
			for _, w := range why.Tasks {
				s.printf("  %s: %s", w.Task, strings.Join(w.Reasons, "; "))
			}
		}
	case "line":
		why, werr := s.b.Views.WhyWaiting(context.Background(), s.ids[plain[0]])
		if err = werr; err == nil {
			for _, w := range why.Tasks {
				s.printf("%s since %s, %d ahead", w.Task, w.Since.UTC().Format("15:04"), w.Ahead)
			}
		}
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	if err != nil {
		s.printf("error: %v", err)
	}
	return s.out.String()
}

func (s *queueBench) submit(name string, named map[string]string, tasks string) error {
	text := "apiVersion: tradewind/v1\nname: " + name + "\n"
	for _, key := range slices.Sorted(maps.Keys(named)) {
		text += key + ": " + named[key] + "\n"
	}
	spec, err := read.Job(name+".yaml", strings.NewReader(text+tasks))
	if err != nil {
		return err
	}
	job, err := s.b.Users.Submit(context.Background(), broker.Submission{Spec: spec, Token: name})
	if err != nil {
		return err
	}
	if !slices.Contains(s.names, name) {
		s.names = append(s.names, name)
	}
	s.ids[name], s.specs[name] = job.ID, spec
	s.deliverAll()
	return nil
}

// rerun runs the failed tasks of a job again.
func (s *queueBench) rerun(job, name string) error {
	again, err := s.b.Users.Rerun(context.Background(), s.ids[job], name, true)
	if err != nil {
		s.printf("%v", err)
		return nil
	}
	s.names, s.ids[name], s.specs[name] = append(s.names, name), again.ID, s.specs[job]
	s.deliverAll()
	return nil
}

// clusters returns the clusters that run in clouds, sorted by name.
func (s *queueBench) clusters() (ids []string) {
	for _, c := range s.cloud {
		for id := range c.clusters {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// taskOf returns the story's name of a cluster's task: JOB/TASK.
func (s *queueBench) taskOf(cluster string) string {
	for name, id := range s.ids {
		for i := range s.specs[name].Tasks {
			if strings.HasPrefix(cluster, id+"."+strconv.Itoa(i)+".") {
				return name + "/" + s.specs[name].Tasks[i].Name
			}
		}
	}
	return ""
}

func (s *queueBench) claims(cluster string) wire.Claims {
	return wire.Claims{Job: record.ClusterJob(cluster), Cluster: cluster}
}

func (s *queueBench) up(only []string) {
	for _, id := range s.clusters() {
		if s.agents[id] != nil || len(only) > 0 && !slices.Contains(only, s.taskOf(id)) {
			continue
		}
		if _, err := s.b.Agents.Hello(context.Background(), s.claims(id), wire.Hello{Address: "10.0.0.1"}); err != nil {
			s.printf("%s: %v", s.taskOf(id), err)
			continue
		}
		s.agents[id] = &queueAgent{}
		s.deliverAll()
	}
	s.poll()
}

// poll makes agents obey their commands.
func (s *queueBench) poll() {
	for _, id := range s.clusters() {
		a := s.agents[id]
		if a == nil || a.over {
			continue
		}
		w, err := s.b.Agents.Work(context.Background(), s.claims(id), a.seen)
		if err != nil {
			continue
		}
		a.seen = w.Seq
		switch w.Command {
		case wire.Run:
			a.running = true
			s.printf("%s runs%s", s.taskOf(id), resumed(w.Assignment))
			s.report(id, wire.Report{Event: wire.Started})
		case wire.SaveAndStop:
			s.printf("%s saves and stops", s.taskOf(id))
			if s.saves(id) {
				a.saved++
				s.report(id, wire.Report{Event: wire.Checkpointed, Seq: a.saved, Prefix: s.taskOf(id) + "/ckpt"})
			}
			a.over = true
			s.report(id, wire.Report{Event: wire.Stopped})
		case wire.None, wire.Stop, "disconnect":
		}
	}
}

func resumed(a *wire.Assignment) string {
	if a == nil || a.Checkpoint == nil || a.Checkpoint.Restore == "" {
		return ""
	}
	return ", from its checkpoint"
}

// saves reports whether a cluster's task saves checkpoints.
func (s *queueBench) saves(cluster string) bool {
	job, task, _ := strings.Cut(s.taskOf(cluster), "/")
	for i := range s.specs[job].Tasks {
		if t := &s.specs[job].Tasks[i]; t.Name == task {
			return t.Checkpoint != nil
		}
	}
	return false
}

func (s *queueBench) report(cluster string, r wire.Report) {
	s.serial++
	r.ID, r.Attempt = strconv.Itoa(s.serial), cluster
	if err := s.b.Agents.Report(context.Background(), s.claims(cluster), r); err != nil {
		s.printf("%s: %v", s.taskOf(cluster), err)
	}
	s.deliverAll()
}

func (s *queueBench) end(task string, how wire.Event) { s.endIn(task, how, "") }

func (s *queueBench) endIn(task string, how wire.Event, phase string) {
	for _, id := range s.clusters() {
		if a := s.agents[id]; a != nil && a.running && !a.over && s.taskOf(id) == task {
			a.over = true
			if s.kept != nil {
				s.kept.fill(storeOfPast, id)
			}
			s.report(id, wire.Report{Event: how, Phase: phase, ExitCode: 1})
		}
	}
}

func (s *queueBench) reconcile() error {
	err := s.b.Functions.Emit(context.Background(), "test", "reconcile-"+strconv.Itoa(s.serial), events.BrokerReconcile{})
	s.serial++
	s.deliverAll()
	return err
}

func (s *queueBench) status() {
	for _, name := range s.names {
		d, err := s.b.Views.JobDetail(context.Background(), s.ids[name])
		if err != nil {
			s.printf("%s: %v", name, err)
			continue
		}
		line := name + " " + string(d.State) + ":"
		for _, t := range d.TaskList {
			line += " " + t.Name + " " + string(t.State)
		}
		if d.Reason != "" {
			line += " (" + d.Reason + ")"
		}
		s.printf("%s", line)
	}
	queues, _ := s.b.Views.Queues(context.Background())
	for _, q := range queues {
		if q.Running > 0 || q.VCPU > 0 {
			s.printf("queue %s: %d running, %g vCPUs", q.Name, q.Running, q.VCPU)
		}
		if m := q.Month; q.Max[apitypes.USDPerMonth] > 0 || m.ReservedUSD > 0 {
			s.printf("queue %s in %s: %.4f USD spent, %.4f set aside, %.4f below", q.Name, m.Of, m.SpentUSD, m.ReservedUSD,
				m.BelowUSD)
		}
		if by := q.Suspended.By; by != "" {
			s.printf("queue %s: suspended by %s", q.Name, by)
		}
	}
}
