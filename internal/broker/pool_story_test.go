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
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/session"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// TestPoolStories runs the files of testdata/pools, each a broker with pools whose machines ask what to run when a
// command makes them. The commands:
//
//	pool NAME [place=P] [usd=F] [partitions=N]
//	policy                      sessions follow the one below
//	machine POOL/ID cpus=F mem=F [accelerators=NAME:N] [type=T] [arch=A] [rack=R] [window=W]    it joins
//	queue NAME month=USD        it may cost this much in a month
//	submit                      the job below
//	sync [POOL/ID...]           machines ask what to run and obey; those that vanished do not
//	vanish POOL/ID              it is never heard of again
//	leave POOL/ID               its process is about to end
//	break POOL/ID               agents cannot be started there
//	fail POOL/ID                its agents end without a report to the broker
//	finish TASK                 its agents succeed
//	save TASK                   they save a checkpoint
//	drain POOL[/ID] [now|undo]
//	remove POOL[/ID]
//	advance D                   time passes; running agents send signs of life
//	reconcile
//	status                      the tasks of the job
//	pools                       machines, and what they hold
//	explain
//	why                         why it waits
//	use NAME                    continue with the job of this name, which was submitted before
func TestPoolStories(t *testing.T) {
	datadriven.Walk(t, filepath.Join("testdata", "pools"), func(t *testing.T, path string) {
		s := &poolBench{bench: newBench(t), machines: map[string]*poolMachine{}}
		ports := s.b.Ports()
		ports.Planner = struct{ broker.Planner }{ports.Planner} // hides the other methods of the broker's planner
		s.b = broker.New(config.Default(), ports)
		datadriven.RunTest(t, path, s.command)
	})
}

// poolBench is a broker with machines of pools.
type poolBench struct {
	*bench
	machines map[string]*poolMachine
	job      string
	spec     *dag.Job
	out      strings.Builder
	serial   int
	jobs     []poolJob // in the order of submission
}

type poolJob struct {
	id   string
	spec *dag.Job
}

// poolMachine is a machine of a pool, and the agents that run on it.
type poolMachine struct {
	pool, id string
	claims   wire.PoolClaims
	report   wire.PoolReport
	agents   map[wire.PoolAgent]*poolAgent
	vanished bool
	broken   bool
}

type poolAgent struct {
	claims wire.Claims
	seen   int
	prefix string
	next   int
	over   bool
}

func (s *poolBench) printf(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if s.job != "" {
		line = strings.ReplaceAll(line, s.job, "JOB")
	}
	for _, j := range s.jobs {
		line = strings.ReplaceAll(line, j.id, strings.ToUpper(j.spec.Name))
	}
	s.out.WriteString(strings.TrimRight(line, " ") + "\n")
}

func (s *poolBench) command(t *testing.T, d *datadriven.TestData) string {
	s.t = t
	s.out.Reset()
	f, ok := map[string]func(*datadriven.TestData) error{
		"pool": s.pool, "policy": s.policy, "machine": s.machine, "submit": s.submit, "sync": s.sync, "vanish": s.vanish, "leave": s.leave, "break": s.spoil, "fail": s.crash,
		"finish": s.finish, "drain": s.drain, "remove": s.remove, "advance": s.advance, "reconcile": s.reconcile, "status": s.status, "pools": s.pools,
		"explain": s.explain, "queue": s.queue, "why": s.why, "use": s.use, "save": s.save,
	}[d.Cmd]
	if !ok {
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	if err := f(d); err != nil {
		s.printf("error: %v", err)
	}
	return s.out.String()
}

func words(d *datadriven.TestData) (plain []string, named map[string]string) {
	named = map[string]string{}
	for _, a := range d.CmdArgs {
		if len(a.Vals) > 0 {
			named[a.Key] = strings.Join(a.Vals, ",")
			continue
		}
		plain = append(plain, a.Key)
	}
	return plain, named
}

func number(s string) float64 {
	v, _ := strconv.ParseFloat(s, 64)
	return v
}

func (s *poolBench) pool(d *datadriven.TestData) error {
	plain, named := words(d)
	return s.b.Users.SetPool(context.Background(), plain[0], record.PoolSettings{
		Place: named["place"], USDPerHour: number(named["usd"]), Partitions: int(number(named["partitions"])),
	})
}

func (s *poolBench) machine(d *datadriven.TestData) error {
	plain, named := words(d)
	of, id, _ := strings.Cut(plain[0], "/")
	m := &poolMachine{pool: of, id: id, claims: wire.PoolClaims{Pool: of, Machine: id, Joined: s.now}, agents: map[wire.PoolAgent]*poolAgent{}}
	acc, count, _ := strings.Cut(named["accelerators"], ":")
	m.report = wire.PoolReport{
		Type:     named["type"],
		Capacity: wire.PoolCapacity{CPUs: number(named["cpus"]), MemoryGiB: number(named["mem"]), Accelerator: acc, Accelerators: number(count)},
	}
	for _, label := range []string{"arch", "rack", "window"} {
		if named[label] == "" {
			continue
		}
		if m.report.Labels == nil {
			m.report.Labels = map[string]string{}
		}
		m.report.Labels[label] = named[label]
	}
	s.machines[plain[0]] = m
	return s.syncOne(m)
}

func (s *poolBench) policy(d *datadriven.TestData) error {
	p, err := session.ReadPolicy("policy.yaml", []byte(d.Input))
	s.bench.policy = p
	return err
}

func (s *poolBench) queue(d *datadriven.TestData) error {
	plain, named := words(d)
	usd, err := strconv.ParseFloat(named["month"], 64)
	if err != nil {
		return err
	}
	return s.b.Users.SetQueue(context.Background(), plain[0], record.QueueSettings{Max: apitypes.Amounts{apitypes.USDPerMonth: usd}})
}

func (s *poolBench) submit(d *datadriven.TestData) error {
	spec, err := read.Job("job.yaml", strings.NewReader("apiVersion: tradewind/v1\n"+d.Input))
	if err != nil {
		return err
	}
	s.serial++
	job, err := s.b.Users.Submit(context.Background(), broker.Submission{Spec: spec, Token: fmt.Sprint(s.serial)})
	if err != nil {
		return err
	}
	s.job, s.spec = job.ID, spec
	s.jobs = append(s.jobs, poolJob{job.ID, spec})
	s.deliverAll()
	return nil
}

func (s *poolBench) sync(d *datadriven.TestData) error {
	names, _ := words(d)
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(s.machines))
	}
	for _, name := range names {
		if m := s.machines[name]; !m.vanished {
			if err := s.syncOne(m); err != nil {
				s.printf("%s: %v", name, err)
			}
		}
	}
	return nil
}

// syncOne makes a machine ask for its orders, and obey them.
func (s *poolBench) syncOne(m *poolMachine) error {
	m.report.Running = m.report.Running[:0]
	for ref, a := range m.agents {
		if !a.over {
			m.report.Running = append(m.report.Running, ref)
		}
	}
	o, err := s.b.Agents.SyncMachine(context.Background(), m.claims, m.report)
	if err != nil {
		return err
	}
	ordered := map[wire.PoolAgent]bool{}
	for _, c := range o.Agents {
		ordered[c.PoolAgent] = true
	}
	for _, ref := range slices.SortedFunc(maps.Keys(m.agents), func(x, y wire.PoolAgent) int { return strings.Compare(x.Cluster, y.Cluster) }) {
		if !ordered[ref] {
			s.printf("%s/%s ends %s", m.pool, m.id, ref.Cluster)
			delete(m.agents, ref)
		}
	}
	m.report.Ended = slices.DeleteFunc(m.report.Ended, func(e wire.PoolEnd) bool { return !ordered[e.PoolAgent] })
	for _, c := range o.Agents {
		s.obey(m, c)
	}
	switch {
	case o.Leave:
		s.printf("%s/%s is not needed any more", m.pool, m.id)
	case len(o.Agents) == 0:
		s.printf("%s/%s has nothing to run", m.pool, m.id)
	}
	s.deliverAll()
	return nil
}

// obey starts the agent of an order, unless it already runs. A running agent asks for its work.
func (s *poolBench) obey(m *poolMachine, c wire.PoolOrder) {
	a := m.agents[c.PoolAgent]
	if a == nil {
		s.printf("%s/%s begins %s rank %d with %s", m.pool, m.id, c.Cluster, c.Rank, held(apitypes.Capacity(c.Hold), c.Devices))
		if c.Token == "" || c.Job == "" {
			s.printf("  without a token")
		}
		if m.broken {
			m.report.Ended = append(m.report.Ended, wire.PoolEnd{PoolAgent: c.PoolAgent, Reason: "exec: no such file"})
			return
		}
		a = &poolAgent{claims: wire.Claims{Job: c.Job, Cluster: c.Cluster, Rank: c.Rank}}
		m.agents[c.PoolAgent] = a
		_, err := s.b.Agents.Hello(context.Background(), a.claims, wire.Hello{Address: "10.0.0.1"})
		s.tell("hello", err)
		s.deliverAll()
	}
	if !a.over {
		s.work(m, a)
	}
}

func held(c apitypes.Capacity, devices []int) string {
	text := fmt.Sprintf("%g vCPUs, %g GiB", c.CPUs, c.MemoryGiB)
	if c.Accelerators > 0 {
		text += fmt.Sprintf(", %g %s %v", c.Accelerators, c.Accelerator, devices)
	}
	return text
}

func (s *poolBench) tell(what string, err error) {
	if err != nil {
		s.printf("  %s: %v", what, err)
	}
}

func (s *poolBench) work(m *poolMachine, a *poolAgent) {
	w, err := s.b.Agents.Work(context.Background(), a.claims, a.seen)
	if errors.Is(err, record.ErrGone) {
		a.over = true
		return
	}
	s.tell("work", err)
	a.seen = w.Seq
	switch w.Command {
	case wire.Run:
		a.prefix, a.next = w.Assignment.Prefix, 1
		if c := w.Assignment.Checkpoint; c != nil {
			a.next = c.Next
			if c.Restore != "" {
				s.printf("  resumes from a checkpoint")
			}
		}
		s.say(a, wire.Report{Event: wire.Started})
	case wire.SaveAndStop:
		s.printf("%s/%s saves and stops %s", m.pool, m.id, a.claims.Cluster)
		s.say(a, wire.Report{Event: wire.Checkpointed, Seq: a.next, Prefix: fmt.Sprintf("%s/ckpt/%d", a.prefix, a.next)})
		s.say(a, wire.Report{Event: wire.Stopped})
		a.over = true
	case wire.Stop, wire.Disconnect:
		a.over = true
	case wire.None:
	}
}

func (s *poolBench) say(a *poolAgent, r wire.Report) {
	s.serial++
	r.ID, r.Attempt = fmt.Sprint(s.serial), a.claims.Cluster
	s.tell(string(r.Event), s.b.Agents.Report(context.Background(), a.claims, r))
	s.deliverAll()
}

func (s *poolBench) vanish(d *datadriven.TestData) error {
	s.machines[d.CmdArgs[0].Key].vanished = true
	return nil
}

func (s *poolBench) leave(d *datadriven.TestData) error {
	s.machines[d.CmdArgs[0].Key].report.Leaving = true
	return nil
}

func (s *poolBench) spoil(d *datadriven.TestData) error {
	s.machines[d.CmdArgs[0].Key].broken = true
	return nil
}

// crash ends the agents of a machine without a report.
func (s *poolBench) crash(d *datadriven.TestData) error {
	m := s.machines[d.CmdArgs[0].Key]
	for ref, a := range m.agents {
		a.over = true
		m.report.Ended = append(m.report.Ended, wire.PoolEnd{PoolAgent: ref, Reason: "signal: killed"})
	}
	return nil
}

func (s *poolBench) finish(d *datadriven.TestData) error {
	for _, name := range slices.Sorted(maps.Keys(s.machines)) {
		for ref, a := range s.machines[name].agents {
			if !a.over && s.taskOf(ref.Cluster) == d.CmdArgs[0].Key {
				if _, named := words(d); named["keeps"] != "" { // the task fails, and its machines are kept
					keep, _ := time.ParseDuration(named["keeps"])
					s.say(a, wire.Report{Event: wire.Failed, ExitCode: 3, Message: "sorry", Keep: keep})
					continue
				}
				s.say(a, wire.Report{Event: wire.Succeeded})
				a.over = true
			}
		}
	}
	return nil
}

// save makes the agents of a task save a checkpoint.
func (s *poolBench) save(d *datadriven.TestData) error {
	for _, name := range slices.Sorted(maps.Keys(s.machines)) {
		for ref, a := range s.machines[name].agents {
			if !a.over && s.taskOf(ref.Cluster) == d.CmdArgs[0].Key {
				s.say(a, wire.Report{Event: wire.Checkpointed, Seq: a.next, Prefix: fmt.Sprintf("%s/ckpt/%d", a.prefix, a.next)})
				a.next++
			}
		}
	}
	return nil
}

func (s *poolBench) taskOf(cluster string) string {
	part := strings.Split(cluster, ".")
	i, err := strconv.Atoi(part[1])
	if err != nil || !strings.HasPrefix(cluster, s.job+".") {
		return ""
	}
	return s.spec.Tasks[i].Name
}

func (s *poolBench) drain(d *datadriven.TestData) error {
	plain, _ := words(d)
	of, id, _ := strings.Cut(plain[0], "/")
	how := apitypes.DrainSoon
	if len(plain) > 1 {
		how = apitypes.Drain(plain[1])
	}
	err := s.b.Users.DrainMachine(context.Background(), of, id, how)
	s.deliverAll()
	return err
}

func (s *poolBench) remove(d *datadriven.TestData) error {
	pool, id, one := strings.Cut(d.CmdArgs[0].Key, "/")
	if !one {
		return s.b.Users.RemovePool(context.Background(), pool)
	}
	return s.b.Users.RemoveMachine(context.Background(), pool, id)
}

func (s *poolBench) advance(d *datadriven.TestData) error {
	span, err := time.ParseDuration(d.CmdArgs[0].Key)
	if err != nil {
		return err
	}
	s.now = s.now.Add(span)
	for _, name := range slices.Sorted(maps.Keys(s.machines)) {
		m := s.machines[name]
		for _, a := range m.agents {
			if !a.over && !m.vanished {
				s.serial++
				_ = s.b.Agents.Report(context.Background(), a.claims, wire.Report{ID: fmt.Sprint(s.serial), Event: wire.Alive})
			}
		}
	}
	return nil
}

func (s *poolBench) reconcile(*datadriven.TestData) error {
	s.serial++
	e := events.New(fmt.Sprint("reconcile", s.serial), "test", s.now, events.BrokerReconcile{})
	errs := s.b.Functions.Handle(context.Background(), events.FnReconcile, []events.Event{e})
	s.deliverAll()
	return errs[0]
}

func (s *poolBench) status(*datadriven.TestData) error {
	d, err := s.b.Views.JobDetail(context.Background(), s.job)
	if err != nil {
		return err
	}
	s.printf("%s %s", d.State, d.Reason)
	for _, t := range d.TaskList {
		offer, _, _ := strings.Cut(t.Offer, "/")
		if offer == apitypes.PoolCloud {
			offer = t.Offer
		}
		s.printf("%s %s on %s, attempt %d", t.Name, t.State, offer, t.Attempts)
	}
	return nil
}

func (s *poolBench) pools(*datadriven.TestData) error {
	views, err := s.b.Views.Pools(context.Background())
	if err != nil {
		return err
	}
	for _, p := range views {
		s.printf("%s: %s used of %s", p.Name, held(p.Used, nil), held(p.Capacity, nil))
		for _, m := range p.Machines {
			s.printf("  %s %s %s", m.ID, m.State, m.Reason)
			for _, t := range m.Tasks {
				s.printf("    %s rank %d of %s holds %s", t.Task, t.Rank, t.JobName, held(t.Hold, nil))
			}
		}
	}
	return nil
}

func (s *poolBench) explain(*datadriven.TestData) error {
	story, err := s.b.Views.Explain(context.Background(), s.job)
	if err != nil {
		return err
	}
	for _, e := range story.Entries {
		if e.Kind != "planned" && e.Kind != "submitted" {
			s.printf("%s %s %s: %s", e.At.Format("15:04:05"), e.Kind, e.Task, e.Text)
		}
	}
	return nil
}

func (s *poolBench) why(*datadriven.TestData) error {
	w, err := s.b.Views.WhyWaiting(context.Background(), s.job)
	if err == nil {
		s.printf("%s", w.Reason)
	}
	return err
}

func (s *poolBench) use(d *datadriven.TestData) error {
	for _, j := range s.jobs {
		if j.spec.Name == d.CmdArgs[0].Key {
			s.job, s.spec = j.id, j.spec
		}
	}
	return nil
}
