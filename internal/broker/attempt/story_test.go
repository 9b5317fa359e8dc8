package attempt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// TestStories runs the decisions of attempts on the records of the files in testdata/stories: no store, no clock. A
// command prints its decision, one line for each record with its changes, and applies it. Times count from the start of
// the story. Its commands:
//
//	new [nodes=N] [spot] [gang] [joins] [service] [budget=X] [state=S]
//	                                                   a job of four tasks; task 1, a child of task 0, is admitted;
//	                                                   joins: a fifth, which joins it; service: task 1 is a replica
//	again                                              task 1, which waits, is admitted again; commands are about its
//	                                                   new attempt, and with no=N about that one
//	set job|task|attempt|cluster|spec|market|ledger    changes fields of one (JSON below the command)
//	advance D
//	block KIND D | intent | bought M… [from=D] | failed KIND [late=N] | refused KIND [retry=D]
//	hello RANK [nonce=N] | proof RANK [cloud= id= region= account=] | report RANK EVENT [k=v…] | run
//	doomed D | leave WHY | vacate | lost OUTCOME | diagnose [machines=N] | lease | watched | too-late
//	releasing | released | gone | follow [joining] | complete [joining] | run-gang | gang [of=TASK] | join ADDRESS
//	other | update | edge outputs=(NAME, …) | assignment | parents | scope URI… | checkpoints URI
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		s := &stage{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t, s.out = t, &strings.Builder{}
			s.play(d)
			return s.out.String()
		})
	})
}

// stage holds the records of a story.
type stage struct {
	t       *testing.T
	out     *strings.Builder
	begun   time.Time
	now     time.Time
	cfg     config.Config
	spec    dag.Job
	plan    record.Plan
	bids    record.Bids
	records map[record.Key]any
	no      int // number of the attempt that commands refer to
}

func (s *stage) cluster() string { return record.ClusterID("j", 1, s.no) }

func (s *stage) begin(d *datadriven.TestData) {
	s.begun = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	s.now, s.cfg, s.records, s.no = s.begun, config.Default(), map[record.Key]any{}, 1
	s.cfg.SilentFor = 5 * time.Minute
	s.cfg.StoreURL, s.cfg.Overhead, s.cfg.Restart, s.cfg.TickEvery = "s3://home", 20*time.Minute, 10*time.Minute, 10*time.Minute
	nodes, gang := int(s.number(d, "nodes", 1)), ""
	if d.HasArg("gang") {
		gang = "g"
	}
	s.spec = dag.Job{Name: "story"}
	for _, name := range []string{"get", "train", "serve", "eval"} {
		t := dag.Task{
			Name: name, Run: "./" + name, Nodes: 1, Resources: []dag.Resources{{}}, Time: dag.TimeEstimate{Default: 2 * time.Hour},
			Checkpoint: &dag.Checkpoint{Every: 10 * time.Minute, Path: "ckpt"},
		}
		switch name {
		case "get":
			t.Outputs = []dag.Output{{Name: "model", Path: "m.bin"}, {Name: "logs", Path: "log/"}, {Name: "whole"}}
		case "train":
			t.Nodes, t.Gang = nodes, gang
		case "serve":
			t.Gang = gang
		}
		s.spec.Tasks = append(s.spec.Tasks, t)
	}
	if d.HasArg("joins") {
		t := s.spec.Tasks[1]
		t.Name, t.Gang, t.Joins, t.Role, t.Nodes = "train.more", "", gang, "train", 1
		s.spec.Tasks = append(s.spec.Tasks, t)
	}
	service := ""
	if d.HasArg("service") {
		t := &s.spec.Tasks[1]
		service = "web"
		t.Service, t.Checkpoint, t.Time = &dag.Service{Of: service, Port: 8080, Readiness: dag.Readiness{Path: "/health"}}, nil, dag.TimeEstimate{}
		more := *t
		more.Name = "train.1"
		s.spec.Tasks = append(s.spec.Tasks, more)
	}
	s.spec.Edges = []dag.Edge{{From: 0, To: 1}}
	if gang != "" {
		s.spec.Edges = append(s.spec.Edges, dag.Edge{From: 0, To: 2})
	}
	job := record.Job{
		ID: "j", Name: "story", Queue: "q", State: apitypes.JobState(s.word(d, "state", "running")), Tasks: 4, BudgetUSD: s.number(d, "budget", 0),
		Spec: record.Blob{Version: 1, Name: "spec"}, Plan: record.Blob{Version: 3, Name: "plan"}, Submitted: s.begun,
	}
	offer := apitypes.Offer{Cloud: "aws", Region: "r", Zone: "z", InstanceType: "m", USDPerHour: 1, Spot: d.HasArg("spot")}
	a := apitypes.Attempt{Job: "j", Task: 1, Number: 1, Plan: 3, Offer: offer, OfferID: "aws/r/z/m/spot", Nodes: nodes, VCPU: 2 * float64(nodes), Admitted: s.begun}
	if offer.Spot {
		a.MaxUSD = 1.5
	}
	if job.BudgetUSD > 0 {
		a.ReservedUSD = 3 * float64(nodes)
	}
	s.spec.Regions, s.plan, s.bids = nil, record.Plan{Version: 3, Choice: []int32{0, 0, 0, 0},
		Offers: []record.Planned{{ID: a.OfferID, Offer: offer, VCPU: 2}}}, record.Bids{}
	s.put(record.JobKey("j"), job)
	s.put(record.TaskKey("j", 0), record.Task{Job: "j", State: record.TaskSucceeded, Output: "j/get/out/j.0.1"})
	s.put(record.TaskKey("j", 1), record.Task{Job: "j", Index: 1, State: record.TaskAdmitted, Try: 1, Attempt: 1, Plan: 3, ReadyAt: s.begun, Gang: gang, Service: service})
	s.put(record.AttemptKey("j", 1, s.no), a)
	s.put(record.LedgerKey("j"), record.Ledger{ReservedUSD: a.ReservedUSD})
}

func (s *stage) put(key record.Key, v any) { s.records[key] = v }

func of[T any](s *stage, key record.Key) (v T) {
	v, _ = s.records[key].(T)
	return v
}

func (s *stage) losing() Losing {
	l := Losing{Job: of[record.Job](s, record.JobKey("j")), Task: of[record.Task](s, record.TaskKey("j", 1)),
		Attempt: of[apitypes.Attempt](s, record.AttemptKey("j", 1, s.no)), Cluster: of[record.Cluster](s, record.ClusterKey(s.cluster()))}
	l.Cluster.Nodes = slices.Clone(l.Cluster.Nodes)
	l.Cluster.UpdateAttempt(&l.Attempt)
	l.Cluster.UpdateTask(&l.Task)
	return l
}

func (s *stage) buying() Buying {
	st, err := LoadBuying(s, "j", 1, s.no)
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

// again admits the task once more, as a session would.
func (s *stage) again() {
	task, made := of[record.Task](s, record.TaskKey("j", 1)), of[apitypes.Attempt](s, record.AttemptKey("j", 1, s.no))
	job := of[record.Job](s, record.JobKey("j"))
	delete(s.records, record.WaitKey(job.Queue, record.WaitingOf(job, task)))
	s.no++
	task.State, task.Attempt, task.Plan = record.TaskAdmitted, s.no, job.Plan.Version
	s.put(record.TaskKey("j", 1), task)
	s.put(record.AttemptKey("j", 1, s.no), apitypes.Attempt{Job: "j", Task: 1, Number: s.no, Plan: task.Plan, Offer: made.Offer,
		OfferID: made.OfferID, Nodes: made.Nodes, VCPU: made.VCPU, Admitted: s.now, MaxUSD: made.MaxUSD,
		ReservedUSD: made.ReservedUSD,
		Resumed:     task.Progress, ResumedFrom: task.Checkpoint.Prefix})
}

func (s *stage) play(d *datadriven.TestData) {
	if d.HasArg("no") {
		defer func(no int) { s.no = no }(s.no)
		s.no = int(s.number(d, "no", 1))
	}
	switch d.Cmd {
	case "new":
		s.begin(d)
	case "set":
		s.set(d)
	case "again":
		s.again()
	case "advance":
		s.now = s.now.Add(s.span(d.CmdArgs[0].Key))
	case "block":
		k := apitypes.Block{Cloud: "aws", Kind: d.CmdArgs[0].Key, Region: "r", Zone: "z", InstanceType: "m", Reason: "as before",
			Market: string(record.Market(of[apitypes.Attempt](s, record.AttemptKey("j", 1, s.no)).Offer)), Until: s.now.Add(s.span(d.CmdArgs[1].Key))}
		s.put(record.BlockKey(k), k)
	default:
		if !s.buy(d) && !s.serve(d) && !s.end(d) && !s.tell(d) {
			d.Fatalf(s.t, "no command %s", d.Cmd)
		}
	}
}

// buy runs the story's commands about buying machines, from the intent to the outcome.
func (s *stage) buy(d *datadriven.TestData) bool {
	switch d.Cmd {
	case "intent":
		st := s.buying()
		dec, proceed := DecideIntent(&st, s.cfg, s.now)
		s.decided(dec)
		fmt.Fprintf(s.out, "it is bought: %v\n", proceed)
	case "bought":
		var machines []cloud.Machine
		for rank, arg := range d.CmdArgs {
			if arg.Key != "from" {
				machines = append(machines, cloud.Machine{ID: arg.Key, Rank: rank, Account: "42", Launched: s.now.Add(s.span(s.word(d, "from", "0s")))})
			}
		}
		s.decided(DecideBought(s.buying(), machines, s.market(), s.now))
	case "failed":
		err := cloud.Errorf("aws", cloud.Kind(d.CmdArgs[0].Key), "Code", "the cloud's words")
		err.Late = int(s.number(d, "late", 0))
		dec, again, refusal := DecideFailed(s.buying(), s.cfg, err)
		s.decided(dec)
		fmt.Fprintf(s.out, "again: %v, given up: %v\n", again, refusal)
	case "refused":
		err := cloud.Errorf("aws", cloud.Kind(d.CmdArgs[0].Key), "Code", "the cloud's words")
		err.RetryAfter, err.RetryAfterFull = s.span(s.word(d, "retry", "0s")), s.span(s.word(d, "again", "0s"))
		st, bad := LoadRefused(s, "j", 1, s.no)
		if errors.Is(bad, record.ErrSkip) { // stories of refusals may omit the commands before the refusal
			st, bad = s.buying(), nil
		}
		if bad != nil {
			s.t.Fatal(bad)
		}
		s.decided(DecideRefused(st, s.cfg, err, s.now))
	default:
		return false
	}
	return true
}

// serve runs the story's commands about calls and reports of machines.
func (s *stage) serve(d *datadriven.TestData) bool {
	rank := func() int { return int(s.parse(d.CmdArgs[0].Key)) }
	l := s.losing()
	switch d.Cmd {
	case "hello":
		st := Arriving{Job: l.Job, Task: l.Task, Cluster: l.Cluster, Rank: rank()}
		h := wire.Hello{Address: fmt.Sprint("10.0.0.", rank()), Nonce: s.word(d, "nonce", "n")}
		if st.AlreadyArrived(h) {
			s.out.WriteString("another has said hello\n")
			break
		}
		s.decided(DecideHello(&st, h, s.now))
	case "proof":
		st := Arriving{Cluster: l.Cluster, Rank: rank()}
		var m *wire.Machine
		if d.HasArg("id") {
			m = &wire.Machine{Cloud: s.word(d, "cloud", "aws"), ID: s.word(d, "id", ""), Region: s.word(d, "region", ""),
				Account: s.word(d, "account", ""), Fault: s.word(d, "fault", "")}
		}
		s.cfg.Proven = []string{"aws"}
		err := st.Doubt(s.cfg, m)
		fmt.Fprintf(s.out, "doubt: %v\n", err)
		if errors.Is(err, record.ErrMachine) {
			s.decided(DecideDoubt(l.Attempt, st.Rank, err, s.now))
		}
	case "report":
		st := Reporting{Job: l.Job, Spec: &s.spec.Tasks[1], Task: l.Task, Attempt: l.Attempt, Cluster: l.Cluster, Rank: rank(), Now: s.now,
			Chief: d.HasArg("chief"), Joinable: d.HasArg("joined"), Keep: s.span(s.word(d, "kept", "0s"))}
		if d.HasArg("led") { // by the other task of the gang
			s.spec.Tasks[2].On = []dag.Reaction{{Event: dag.TaskCompleted, Action: dag.Complete}}
			if err := st.LoadDone(s, &s.spec); err != nil {
				s.t.Fatal(err)
			}
		}
		s.cfg.Scale = s.number(d, "scale", 0)
		if st.Spec.Service != nil {
			if err := st.LoadServing(s, &s.spec); err != nil {
				s.t.Fatal(err)
			}
		}
		s.decided(st.Decide(wire.Report{
			Event: wire.Event(d.CmdArgs[1].Key), Seq: int(s.number(d, "seq", 0)), Prefix: s.word(d, "prefix", ""), Progress: s.number(d, "progress", 0),
			ExitCode: int(s.number(d, "code", 0)), Message: s.word(d, "message", ""), Phase: s.word(d, "phase", ""), Empty: d.HasArg("empty"),
			Port: int(s.number(d, "port", 0)), Notice: s.span(s.word(d, "in", "0s")), Keep: s.span(s.word(d, "keep", "0s")), Fault: s.word(d, "fault", ""),
		}, s.cfg))
	case "run":
		s.decided(DecideRun(l.Cluster, s.now))
	default:
		return false
	}
	return true
}

// end runs the story's commands that end attempts.
func (s *stage) end(d *datadriven.TestData) bool {
	l := s.losing()
	switch d.Cmd {
	case "doomed":
		s.decided(DecideDoomed(l, s.now.Add(s.span(d.CmdArgs[0].Key)), s.now))
	case "leave":
		s.decided(DecideLeave(l.Cluster, record.Leaving(d.CmdArgs[0].Key), "because", s.cfg.Overhead, s.now))
	case "vacate":
		s.decided(DecideVacate(l, s.cfg, "its owner wants it", s.now))
	case "lost":
		s.decided(DecideLost(l, apitypes.Outcome(d.CmdArgs[0].Key), "it is gone", s.now))
	case "can-go":
		fmt.Fprintln(s.out, l.CanLeave(s.cfg.Restart, s.now))
	case "diagnose":
		var seen Inventory
		if d.HasArg("machines") {
			seen = Inventory{Asked: s.now, Of: map[string]map[string][]cloud.Machine{
				"aws": {s.cluster(): make([]cloud.Machine, int(s.number(d, "machines", 0)))},
			}}
		}
		r := Diagnose(l.Cluster, s.cfg, seen, s.now)
		fmt.Fprintln(s.out, []string{"nothing", "launch", "release", "lost", "taken", "run", "lease"}[r])
		s.decided(DecideRemedy(r, l, s.cfg, seen, s.now))
	case "lease":
		var purses []record.Purse
		if month := s.number(d, "month", 0); month > 0 {
			purses = append(purses, record.Purse{Queue: "lab", MostUSD: month, SpentUSD: s.number(d, "spent", 0),
				Of: apitypes.Month{}.At(s.now)})
		}
		decided, more := DecideLease(l, of[record.Ledger](s, record.LedgerKey("j")), purses, s.cfg, s.now)
		if s.decided(decided); len(purses) > 0 {
			fmt.Fprintf(s.out, "%.4f USD more of the month's budget\n", more)
		}
	case "watched":
		s.judged(DecideWatched(s, s.cfg, l, s.now))
	case "too-late":
		var dec record.Decision
		dec.Emit(events.TaskReady{Job: "j", Task: 3, Try: 1})
		err := DecideTooLate(s, s.cfg, l.Job, &s.spec, &dec, s.now)
		s.judged(dec, err)
	case "releasing":
		s.decided(DecideReleasing(&l.Cluster, s.now))
	case "released":
		s.decided(DecideReleased(l.Cluster, l.Attempt, s.now))
	case "gone":
		s.decided(DecideGone(l.Cluster, l.Attempt, s.number(d, "usd", 0), s.now))
	default:
		return false
	}
	return true
}

// tell runs the story's commands about gangs, and those that print the data that agents get.
func (s *stage) tell(d *datadriven.TestData) bool {
	l := s.losing()
	members := func() []Member {
		found, err := GangOf(s, l.Job, 1)
		if d.HasArg("joining") {
			found, err = JoiningOf(s, l.Job, 1, true)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		return found
	}
	switch d.Cmd {
	case "follow":
		for _, m := range members() {
			s.decided(DecideFollowGang(m, "the gang is broken", s.cfg, s.now))
		}
	case "complete":
		for _, m := range members() {
			s.decided(DecideComplete(m, s.now))
		}
	case "left-behind":
		gang, err := GangOf(s, l.Job, 1)
		if err != nil {
			s.t.Fatal(err)
		}
		left, err := JoinedBefore(s, l.Job, gang[0], gang)
		for _, m := range left {
			fmt.Fprintln(s.out, m.Cluster.ID)
		}
		if err != nil {
			fmt.Fprintln(s.out, err)
		}
	case "run-gang":
		s.decided(DecideRunGang(members(), s.now))
	case "gang":
		cl := l.Cluster
		if d.HasArg("of") {
			cl = of[record.Cluster](s, record.ClusterKey(record.ClusterID("j", int(s.number(d, "of", 1)), 1)))
		}
		g, err := Gang(s, l.Job, &s.spec, cl)
		s.print(g, err)
	case "join":
		cl := l.Cluster
		cl.ID, cl.Task, cl.Nodes = record.ClusterID("j", 4, 1), 4, []record.Node{{Address: d.CmdArgs[0].Key}}
		s.put(record.ClusterKey(cl.ID), cl)
		s.put(record.TaskKey("j", 4), record.Task{Job: "j", Index: 4, State: record.TaskRunning, Attempt: 1, Plan: 3, Joins: "g"})
		s.put(record.AttemptKey("j", 4, 1), apitypes.Attempt{Job: "j", Task: 4, Number: 1, Plan: 3, Offer: cl.Offer, Nodes: 1, Admitted: s.now})
	case "update": // a user updates a service
		job := l.Job
		spec := job.Spec
		spec.Version = job.NextSpec()
		job.Updated(spec, s.now)
		s.put(record.JobKey("j"), job)
		r, err := LoadRolling(s, job, &s.spec)
		if err != nil {
			s.t.Fatal(err)
		}
		s.decided(r.Step(s.now))
	case "other": // the other replica of the service is ready
		cl := l.Cluster
		cl.ID, cl.Task, cl.Attempt, cl.Ready = record.ClusterID("j", 4, 1), 4, 1, s.now
		s.put(record.ClusterKey(cl.ID), cl)
	case "parents":
		in, err := ParentOutputs(s, s.cfg, l.Job, &s.spec, l.Cluster)
		s.print(in, err)
	case "edge": // task 1 gets these outputs of task 0, or none
		s.spec.Edges[0].Outputs = strings.Fields(strings.Join(d.CmdArgs[0].Vals, " ")) // an empty list, not nil
	case "assignment":
		s.print(Assignment(s.cfg, l.Job, &s.spec, l.Cluster, l.Task, l.Attempt,
			Inherited{Parents: map[string]string{"get": "here"}, Nothing: []string{"other"}}), nil)
	case "scope":
		scope, err := Scope(s, s.cfg, l.Job, l.Cluster, int(s.number(d, "rank", 0)), strings.Fields(d.Input))
		s.print(scope, err)
	case "checkpoints":
		below, err := Checkpoints(s, s.cfg, l.Job, l.Cluster, l.Attempt.ResumedFrom)
		s.print(below, err)
	default:
		return false
	}
	return true
}
