package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// TestStories runs sessions on the records that the stories in testdata/stories set up: no store, no clock. (testdata
// may also contain the output of failed random tests.) The commands:
//
//	queue NAME [parent=Q] [running=N] [vcpu=N] [max-running=N] [max-vcpu=N] [deserved=N] [preempt] [closed]
//	job ID queue=Q tasks=N usd=X vcpu=N [priority=N] [budget=X] [spent=X] [outstanding=N] [state=S] [min-plan=N]
//	    a running job with a plan, whose tasks wait in the queue until a run command. With joins=N its last N tasks join
//	    the gang of its first task; with gang=N its first N tasks are a gang; with unplaced=T the plan has no place for T
//	run JOB TASK [for=2h] [on=POOL/ID cpus=N]   the task runs on a cluster, or holds N cores of a machine of a pool
//	end JOB TASK             the task's machines are being released
//	session QUEUE [written] [where] [crowded] [stale]   decides, and prints the decisions; written also prints all changes
//	                         of records, where the machines of pools that tasks go to; crowded handles other events in
//	                         the same transaction, stale uses pools that were read for an earlier session
//	set job|ledger|progress|spec|plan|stands JOB, label-stands NAME:VALUE, task|waiting|spec-task JOB TASK,
//	    cluster|attempt JOB TASK, queue NAME, bids JOB, market OFFER, machine POOL ID, pool NAME
//	                         changes fields of one (JSON below the command)
//	pool NAME usd=X [place=P] [partitions=N]   a pool with X USD per machine and hour. Moving a GiB between places costs
//	                         0.1 USD and takes 0.01 hours; a bucket is in the place of its name
//	machine POOL ID cpus=N mem=N [used=N] [count=N]   a machine with used cores in use; with count, machines ID0, ID1, …
//	keep POOL ID for=CLAIM cpus=N count=N   keeps cores of the machines ID0, ID1, … for a claim
//	price JOB usd=X [on-demand]   the first task may wait for a spot market that alternates between 0.2 and 0.7 USD and
//	                         costs X now; it is planned there, or on demand
//	block REGION for=D       the region is blocked
//	why JOB                  explains why the job's tasks wait
//	limit any [machines=N] [usd=X]   what the deployment may have at a time
//	advance D                advances the clock
//	policy                   sets the policy below
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		s := &stage{t: t, now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC), kept: recordcache.NewKept(1 << 20), policy: OwnPolicy(), records: map[record.Key]any{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			var out strings.Builder
			s.play(d, &out)
			return out.String()
		})
	})
}

// stage is the state of a story.
type stage struct {
	t       *testing.T
	now     time.Time
	kept    *recordcache.Cache
	records map[record.Key]any
	policy  *scheduler.Policy
	pools   []record.PoolSeen
	written bool // print all written records
	crowded bool // the transaction handles other events as well
	stale   bool // pools were read for an earlier session
	where   bool // print the machines of pools that tasks go to
	limit   config.Limit
}

func (s *stage) play(d *datadriven.TestData, out *strings.Builder) {
	if d.Cmd == "policy" {
		var err error
		if s.policy, err = ReadPolicy("policy.yaml", []byte(d.Input)); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	name, arg := d.CmdArgs[0].Key, func(key string) (v float64) {
		if d.HasArg(key) {
			var text string
			d.ScanArgs(s.t, key, &text)
			v, _ = strconv.ParseFloat(text, 64)
		}
		return v
	}
	word := func(key, otherwise string) string {
		if d.HasArg(key) {
			d.ScanArgs(s.t, key, &otherwise)
		}
		return otherwise
	}
	switch d.Cmd {
	case "queue":
		q := apitypes.Queue{
			Name: name, Parent: word("parent", ""), Running: int(arg("running")), VCPU: arg("vcpu"),
			MaxRunning: int(arg("max-running")), MaxVCPU: arg("max-vcpu"), DeservedVCPU: arg("deserved"),
			Preempt: d.HasArg("preempt"), Closed: d.HasArg("closed"),
		}
		if parent, ok := s.records[record.QueueKey(q.Parent)].(apitypes.Queue); ok {
			parent.Inner = true
			s.records[record.QueueKey(q.Parent)] = parent
		}
		s.records[record.QueueKey(name)] = q
	case "job":
		s.job(name, word, arg)
	case "run":
		for1, _ := time.ParseDuration(word("for", "2h"))
		task, _ := strconv.Atoi(d.CmdArgs[1].Key)
		s.run(name, task, for1)
		if on := word("on", ""); on != "" {
			s.runOn(on, name, task, for1, arg("cpus"))
		}
	case "end":
		key := record.ClusterKey(record.ClusterID(name, int(number(s.t, d.CmdArgs[1].Key)), 1))
		cl := s.records[key].(record.Cluster) //nolint:forcetypeassert // the story made it
		cl.Outcome = apitypes.OutcomeSucceeded
		s.records[key] = cl
	case "advance":
		by, _ := time.ParseDuration(name)
		s.now = s.now.Add(by)
	case "limit":
		s.limit = config.Limit{Machines: int(arg("machines")), USDPerHour: arg("usd")}
	case "set":
		s.set(d)
	case "pool", "machine":
		s.pool(d.Cmd, name, word("place", ""), d.CmdArgs, arg)
	case "price":
		s.price(name, arg("usd"), !d.HasArg("on-demand"))
	case "keep":
		for i := range int(arg("count")) {
			m := s.machine(name, fmt.Sprint(d.CmdArgs[1].Key, i))
			m.Promises = append(m.Promises, record.PoolPromise{For: word("for", ""), Rank: i, Waits: true,
				Hold: apitypes.Capacity{CPUs: arg("cpus"), MemoryGiB: 2 * arg("cpus")}, Until: s.now.Add(time.Hour)})
		}
		s.writePool(name)
	case "block":
		span, _ := time.ParseDuration(word("for", "1h"))
		k := apitypes.Block{
			Cloud: "aws", Region: name, Kind: string(cloud.Quota), Reason: "no quota",
			At: s.now, Until: s.now.Add(span),
		}
		s.records[record.BlockKey(k)] = k
	case "session":
		s.written, s.where = d.HasArg("written"), d.HasArg("where")
		s.crowded, s.stale = d.HasArg("crowded"), d.HasArg("stale")
		s.decide(name, out, func(x *Session) error { return x.Decide() })
		s.written, s.where, s.crowded, s.stale = false, false, false, false
		if out.Len() == 0 {
			out.WriteString("nothing\n")
		}
	case "why":
		job := s.records[record.JobKey(name)].(record.Job) //nolint:forcetypeassert // the story made it
		var w *apitypes.Why
		s.decide(job.Queue, out, func(x *Session) error {
			w = &apitypes.Why{}
			return x.ExplainTasks(w, job)
		})
		for _, task := range w.Tasks {
			fmt.Fprintf(out, "%s: %s", task.Task, strings.Join(task.Reasons, "; "))
			if task.Ahead > 0 {
				fmt.Fprintf(out, " (%d ahead)", task.Ahead)
			}
			out.WriteString("\n")
		}
		if w.Waiting > len(w.Tasks) {
			fmt.Fprintf(out, "%d wait in all\n", w.Waiting)
		}
	default:
		d.Fatalf(s.t, "no command %s", d.Cmd)
	}
}

func number(t *testing.T, text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (s *stage) job(id string, word func(string, string) string, arg func(string) float64) {
	n := int(arg("tasks"))
	job := record.Job{
		ID: id, Name: id, Queue: word("queue", "default"), Priority: int(arg("priority")), State: apitypes.JobState(word("state", "running")),
		BudgetUSD: arg("budget"), Tasks: n, Submitted: s.now, Started: true,
		Spec: record.Blob{Version: 1, Name: "spec", Token: id}, Plan: record.Blob{Version: 1, Name: "plan", Token: id},
	}
	spec := &dag.Job{Name: id}
	plan := &record.Plan{Version: 1, Offers: []record.Planned{{ID: "aws/r/z/m", VCPU: arg("vcpu"), Offer: apitypes.Offer{Cloud: "aws", Region: "r", USDPerHour: 1}}}}
	for i := range n {
		t := dag.Task{Name: fmt.Sprint("t", i), Nodes: 1}
		if i == 0 && arg("joins") > 0 {
			t.Gang, t.Role = "g", "r"
		}
		if i < int(arg("gang")) {
			t.Gang = "g"
		}
		if i >= n-int(arg("joins")) {
			t.Joins, t.Role = "g", "r"
		}
		spec.Tasks = append(spec.Tasks, t)
		plan.Choice = append(plan.Choice, 0)
		if word("unplaced", "") == strconv.Itoa(i) {
			plan.Choice[i] = -1
		}
		plan.TaskUSD = append(plan.TaskUSD, arg("usd"))
		plan.TaskHours = append(plan.TaskHours, arg("usd"))
		task := record.Task{Job: id, Index: i, State: record.TaskQueued, Try: 1, ReadyAt: s.now, MinPlan: int(arg("min-plan")), Gang: t.Gang, Joins: t.Joins}
		s.records[record.TaskKey(id, i)] = task
		w := record.WaitingOf(job, task)
		s.records[record.WaitKey(job.Queue, w)] = w
	}
	s.kept.Blobs.Put(job.Spec.In(id), spec, 1)
	s.kept.Blobs.Put(job.Plan.In(id), plan, 1)
	s.records[record.JobKey(id)] = job
	s.records[record.ActiveKey(id)] = record.JobIndex{ID: id}
	s.records[record.ProgressKey(id)] = record.Progress{Phases: []byte(strings.Repeat(string(record.PhaseReady), n))}
	s.records[record.LedgerKey(id)] = record.Ledger{SpentUSD: arg("spent"), Outstanding: int(arg("outstanding"))}
	s.now = s.now.Add(time.Second) // later jobs are younger
}

// run makes a waiting task run.
func (s *stage) run(id string, index int, since time.Duration) {
	job, task := s.records[record.JobKey(id)].(record.Job), s.records[record.TaskKey(id, index)].(record.Task) //nolint:forcetypeassert // the story made them
	delete(s.records, record.WaitKey(job.Queue, record.WaitingOf(job, task)))
	v, _ := s.kept.Blobs.Get(job.Plan.In(id)).(*record.Plan)
	vcpu := v.Offers[0].VCPU
	task.State, task.Attempt = record.TaskLaunching, 1
	s.records[record.TaskKey(id, index)] = task
	name := record.ClusterID(id, index, 1)
	at := s.now.Add(-since)
	s.records[record.ClusterKey(name)] = record.Cluster{
		ID: name, Job: id, Task: index, Attempt: 1, Queue: job.Queue, State: record.ClusterUp, VCPU: vcpu, Nodes: make([]record.Node, 1),
		Launched: at, Running: at, Started: true, Since: at, Command: "run",
	}
	s.records[record.AttemptKey(id, index, 1)] = apitypes.Attempt{Job: id, Task: index, Number: 1, VCPU: vcpu}
	ledger, _ := s.records[record.LedgerKey(id)].(record.Ledger)
	ledger.Outstanding++
	ledger.VCPU += vcpu
	s.records[record.LedgerKey(id)] = ledger
	q, _ := s.records[record.QueueKey(job.Queue)].(apitypes.Queue)
	q.Running++
	q.VCPU += vcpu
	s.records[record.QueueKey(job.Queue)] = q
}

// decide runs a session, loading the records that it lacks, and prints its decisions.
func (s *stage) decide(queue string, out *strings.Builder, decide func(*Session) error) {
	of := recordcache.New(s.kept)
	cfg := config.Default()
	cfg.Limit = s.limit
	var fresh []string
	for i := range s.pools {
		for j := range s.pools[i].Parts { // as the process has read them
			s.supply(of, recordcache.Missing{Keys: []record.Key{record.PartitionKey(s.pools[i].Name, j)}})
		}
		if !s.stale {
			fresh = append(fresh, s.pools[i].Name)
		}
	}
	for round := 1; ; round++ {
		d := recordcache.NewDraft(of, s.now, 0)
		d.Crowded = s.crowded
		x, err := New(Input{Config: cfg, Policy: s.policy, Pools: &s.pools, Fresh: fresh, Mover: roads{}}, d, queue)
		if err == nil {
			err = decide(x)
		}
		if d.Missing.Any() {
			s.supply(of, d.Missing)
			for _, name := range d.Missing.Fresh {
				fmt.Fprintf(out, "reads pool %s again\n", name)
				fresh = append(fresh, name)
			}
			continue
		}
		if errors.Is(err, errCrowded) {
			out.WriteString("needs its own transaction\n")
			return
		}
		if err != nil {
			s.t.Fatal(err)
		}
		if round > 12 {
			s.t.Errorf("it took %d rounds", round)
		}
		s.tell(d, out)
		return
	}
}

func (s *stage) supply(of *recordcache.Book, l recordcache.Missing) {
	add := func(key record.Key) {
		if of.Knows(key) {
			return
		}
		r := store.Record{Key: key}
		if v, ok := s.records[key]; ok {
			r.Version = 1
			r.Body, _ = json.Marshal(v)
		}
		of.Seed(r)
	}
	for _, key := range l.Keys {
		add(key)
	}
	for _, span := range l.Spans {
		of.AddSpan(span)
		for key := range s.records {
			if key.Partition == span.Partition && strings.HasPrefix(key.Sort, span.Prefix) {
				add(key)
			}
		}
	}
	if len(l.Blobs) > 0 {
		s.t.Fatalf("the story lacks the blob %+v", l.Blobs)
	}
}

// tell prints the decisions.
func (s *stage) tell(d *recordcache.Draft, out *strings.Builder) {
	for _, e := range d.Emits {
		switch e := e.(type) {
		case events.TaskAdmitted:
			fmt.Fprintf(out, "%s/t%d is admitted\n", e.Job, e.Task)
		case events.TaskFailed:
			fmt.Fprintf(out, "%s/t%d fails (%d): %s\n", e.Job, e.Task, e.ExitCode, e.Message)
		case events.DAGReplan:
			fmt.Fprintf(out, "%s is replanned: %s\n", e.Job, e.Reason)
		case events.CapacityFreed:
			fmt.Fprintf(out, "continues in another transaction\n")
		default:
			fmt.Fprintf(out, "%s\n", e.Type())
		}
	}
	for _, slot := range d.Changed {
		switch {
		case s.written && slot.Dirty:
			s.tellChanges(slot, out)
		case s.written && slot.Held:
			fmt.Fprintf(out, "  %s/%s must not have changed\n", slot.Key.Partition, slot.Key.Sort)
		}
		var made apitypes.Attempt
		if s.where && slot.Dirty && json.Unmarshal(slot.Body, &made) == nil && made.Hosts != nil {
			fmt.Fprintf(out, "%s/t%d goes to %s\n", made.Job, made.Task, made.OfferID)
		}
		if id, ok := record.ClusterOf(slot.Key); ok && slot.Dirty {
			var cl record.Cluster
			_ = json.Unmarshal(slot.Body, &cl)
			if cl.Leaving == "" { // touched only: written unchanged
				continue
			}
			fmt.Fprintf(out, "%s saves and stops: %s\n", id, cl.Reason)
		}
		var q apitypes.Queue
		if slot.Key.Partition == record.QueueKey("").Partition && slot.Dirty && json.Unmarshal(slot.Body, &q) == nil {
			for _, c := range q.Claims {
				fmt.Fprintf(out, "room is kept for %s\n", c.For)
			}
		}
	}
}
