package check

import (
	"bytes"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/sim/planner"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// The invariants. Each is the name that a violation carries.
//
// At every transaction:
const (
	// InvEvent: what is emitted stays in the outbox until the bus has it, and in the bus until a handler has taken it.
	InvEvent = "no event is lost"
	// InvForward: a job's states only move forward; what is over stays as it is.
	InvForward = "a job moves forward"
	// InvCounts: Job.Progress and Job.Succeeded agree with the tasks, and no task is ready before its parents.
	InvCounts = "progress agrees with the tasks"
	// InvFinished: a task that succeeded stays so, and is never run again.
	InvFinished = "a finished task never runs again"
	// InvAttempt: at most one attempt of a task is open, and an attempt ends once.
	InvAttempt = "one attempt at a time"
	// InvQueued: a queued task has its entry in the queue.
	InvQueued = "a queued task waits in its queue"
	// InvQuota: a queue's usage is the sum of the attempts that hold some, and within its quota.
	InvQuota = "a queue's usage is its attempts'"
	// InvMonth: what a queue has spent in a month, and set aside of its budget, is what its attempts have, and never
	// more than the budget where more is set aside.
	InvMonth = "a month's budget is kept"
	// InvGang: the machines of a task are bought together, and it begins on all of them or on none.
	InvGang = "a gang starts whole or not at all"
	// InvJoin: machines beyond those that a gang begins with are there for a gang that runs.
	InvJoin = "machines join a gang that runs"
	// InvRole: what begins anew by itself, as its author wants it to, leaves the others of its gang alone, and one of
	// them is there.
	InvRole = "a role begins anew alone"
	// InvChief: when a gang's chief has succeeded, its others are done within a bound, also those that never end by
	// themselves.
	InvChief = "a gang ends with its chief"
	// InvStarved: what has waited for too long for its queue's quota is not overtaken there by what has not.
	InvStarved = "no task starves in its queue"
	// InvLedger: what a job has spent and set aside is the sum over its attempts, each settled once.
	InvLedger = "the ledger is its attempts'"
	// InvAsleep: what reconcile and tick do not look at holds nothing.
	InvAsleep = "what rests holds nothing"
	// InvBlock: nothing is bought where it has just been refused.
	InvBlock = "a blocked location is left alone"
	// InvReserved: no more machines are at work on what an account has reserved than there are.
	InvReserved = "no more on a reservation than there is"
	// InvIntent: nothing is bought before it was recorded that it would be.
	InvIntent = "intent before action"
	// InvCluster: at most one set of machines lives for an attempt.
	InvCluster = "one live cluster an attempt"
	// InvHealthy: no attempt is given up as lost before its machines have had the time to be heard.
	InvHealthy = "a healthy attempt is left alone"
	// InvAssigned: what an agent is told to run is its own open attempt, with its parents' outputs there.
	InvAssigned = "an agent runs its own attempt"
	// InvCheckpoint: the checkpoint to resume from is there, and is the last that was taken note of.
	InvCheckpoint = "no saved work is lost"
	// InvToken: each machine is given its own token.
	InvToken = "a machine has its own token"
)

// All the time:
const (
	// InvOwned: a machine that nothing needs any more is gone within a bound.
	InvOwned = "a machine is owned or about to be terminated"
	// InvBudget: what machines have really cost stays within the job's budget (see Overspend).
	InvBudget = "spend within budget"
	// InvErrors: handlers fail only for what was done to them.
	InvErrors = "a handler fails only for cause"
	// InvPanic: and they do not panic.
	InvPanic = "no panic"
	// InvCircles: what happens leads somewhere: a world comes to rest within a number of steps, far above that of any
	// that does.
	InvCircles    = "nothing goes round in circles"
	InvOneHistory = "a seed is one history"
)

// At the end, when the faults have stopped:
const (
	// InvEnds: every job ends.
	InvEnds = "every job ends"
	// InvCause: a job that failed did so for a cause: a task's exit code, no feasible plan, its budget, its queue's
	// quota.
	InvCause = "a job fails only for cause"
	// InvPatience: a job that merely blocks stand in the way of waits for their end, as long as its patience lasts.
	InvPatience = "blocks that end are waited for"
	// InvNotice: what runs is told to save its work when its machine is about to be taken and the cloud has said so.
	InvNotice = "a notice is passed on"
	// InvDeadline: see Guarantee.
	InvDeadline = "a deadline that can be kept is kept"
	// InvRest: nothing is left over: no machine, no record of one, no message, no quota in use.
	InvRest = "nothing is left over"
	// InvBooked: what a job is said to have cost is what its machines cost.
	InvBooked = "the bill is the ledger's"
)

// Checker knows what was committed, and compares it with what must be.
type Checker struct {
	*timeline.Timeline
	sky      *weather.Sky
	cfg      record.Config
	store    *mem.Store
	decoded  *book.Decoded
	world    World
	Stormy   bool // the broker's own parts are to fail
	Data     Objects
	OnTime   bool // nothing is to take longer than planned, by the planner of a world
	wanted   []*Wanted
	wantedBy map[string]*Wanted           // by name
	noPlan   map[string]noPlan            // jobs, by name, that were told that there is no plan
	outputs  map[string]bool              // of attempts, by their prefixes
	labels   map[string]map[string]string // of machines of pools
	idle     map[*Machine]time.Duration   // how long nothing has needed a machine
	Jobs     map[string]*Job
	order    []*Job
	byName   map[string]*Job
	queues   map[string]apitypes.Queue
	claimed  map[string]promise  // room that others were stopped for, by its claim
	pending  map[string]bool     // emitted and not yet marked as published
	bodies   map[string]string   // of what was emitted
	sent     map[string]int      // emitted and published: how often
	routes   map[string][]string // of what was published: who is to handle it
	handled  map[string]bool     // queue and ID
	freed    map[string]attemptKey
	gone     []attemptKey         // whose clusters' records the transaction at hand removes
	refusals map[string][]refusal // by cluster
	avoid    []avoided
	touched  []*Job
	gangs    gangChecker
	grown    []string // queues that hold more than before the transaction
	reserves bool     // it has changed a cluster on reserved capacity
	pool     poolChecker
	policy   policyChecker
	reclaim  reclaimChecker
	moves    moveChecker
	month    monthChecker
	heardOf  map[string][]heardOf       // prices that the broker has in its records, by listing
	held     map[*Machine]time.Duration // how long a machine runs for what is suspended

	Suspensions Suspensions
}

// attemptKey names an attempt.
type attemptKey struct {
	job           string
	task, attempt int
}

// attemptState is an attempt, as committed.
type attemptState struct {
	attemptKey
	apitypes.Attempt
	cluster string // the ID of its cluster
	settled bool   // schedule has taken back what it held
}

// refusal is what a cloud said of a launch.
type refusal struct {
	kind cloud.Kind
	text string
}

// avoided is where nothing is to be bought.
type avoided struct {
	block apitypes.Block
	since time.Time
}

// moment is when something was committed.
type moment struct {
	step int
	at   time.Time
}

// Job is a job as committed.
type Job struct {
	Name, ID     string
	Record       record.Job
	progress     record.Progress
	user         *Wanted
	graph        *dag.Graph
	Ledger       record.Ledger
	Tasks        map[int]record.Task
	finished     map[int]int       // step in which a task succeeded
	led          map[int]time.Time // when a gang's chief had
	attempts     map[attemptKey]*attemptState
	order        []*attemptState // those that were admitted, by when
	clusters     map[string]record.Cluster
	closed       map[string]moment    // when a cluster's attempt was over
	lingered     map[string]time.Time // since when a cluster is kept whose task has failed; zero when it has been left
	leases       map[string]time.Time // until when what was set aside for a cluster lasts
	released     map[string]time.Time // when a cluster's record was removed, and its attempt booked
	heard        map[string]bool      // clusters that the broker knew to have been bought
	late         map[string]string    // how a cluster was refused of which machines had been made
	unended      map[string]bool      // clusters that were to be terminated while their cloud took no calls
	told         map[string]time.Time // when a cluster was told to run
	served       map[int]time.Time    // when a replica of a service was last ready
	replaced     map[int]int          // how often one was replaced, since a time
	replacedFrom time.Time
	waiting      map[int]int       // entries in a queue
	entered      map[int]time.Time // when they were committed
	changed      time.Time         // when the job's record was
	planned      time.Time         // when the plan in force was committed
	freed        map[attemptKey]string
	machines     []*Machine
	rests        bool      // reconcile and tick read no more than its line
	Promised     bool      // its deadline is one that must be kept
	calm         time.Time // when nothing failed any more; zero before
	ending       moment    // when it began to end
	endBy        time.Time // see InvBound; zero before the calm
}

// New makes one for a world in which nothing has happened yet.
func New(t *timeline.Timeline, s *weather.Sky, cfg record.Config, records *mem.Store,
	decoded *book.Decoded, world World) *Checker {
	return &Checker{
		Timeline: t, sky: s, cfg: cfg, store: records, decoded: decoded, world: world, wantedBy: map[string]*Wanted{},
		labels: map[string]map[string]string{},
		noPlan: map[string]noPlan{}, outputs: map[string]bool{}, idle: map[*Machine]time.Duration{},
		Jobs: map[string]*Job{}, byName: map[string]*Job{}, queues: map[string]apitypes.Queue{},
		claimed: map[string]promise{}, gangs: gangChecker{
			broken: map[string]events.GangBroken{}, leaving: map[string]bool{},
		},
		pending: map[string]bool{}, bodies: map[string]string{}, sent: map[string]int{},
		routes:  map[string][]string{},
		handled: map[string]bool{}, freed: map[string]attemptKey{}, refusals: map[string][]refusal{},
		pool: newPoolChecker(), month: newMonthChecker(), reclaim: newReclaimChecker(), moves: newMoveChecker(),
		heardOf:     map[string][]heardOf{},
		held:        map[*Machine]time.Duration{},
		Suspensions: Suspensions{Closed: map[string]time.Time{}, Empty: map[string]time.Time{}},
	}
}

func (c *Checker) state(id string) *Job {
	s, ok := c.Jobs[id]
	if !ok {
		s = &Job{
			ID: id, Tasks: map[int]record.Task{}, finished: map[int]int{}, led: map[int]time.Time{},
			attempts: map[attemptKey]*attemptState{},
			clusters: map[string]record.Cluster{}, closed: map[string]moment{}, lingered: map[string]time.Time{},
			leases: map[string]time.Time{},
			late:   map[string]string{}, unended: map[string]bool{},
			heard: map[string]bool{}, released: map[string]time.Time{}, told: map[string]time.Time{},
			served: map[int]time.Time{}, waiting: map[int]int{}, entered: map[int]time.Time{},
			freed: map[attemptKey]string{},
		}
		c.Jobs[id] = s
		c.order = append(c.order, s)
	}
	return s
}

// attempt returns an attempt of the job, empty where it was not admitted.
func (s *Job) attempt(k attemptKey) *attemptState {
	a, ok := s.attempts[k]
	if !ok {
		a = &attemptState{attemptKey: k, cluster: record.ClusterID(k.job, k.task, k.attempt)}
		s.attempts[k] = a
	}
	return a
}

// All are the jobs, as they were accepted.
func (c *Checker) All() iter.Seq[*Job] { return slices.Values(c.order) }

// Named is a job by its name, nil when it was not accepted yet.
func (c *Checker) Named(name string) *Job { return c.byName[name] }

// Expect makes a job known that somebody will submit.
func (c *Checker) Expect(j *Wanted) {
	c.wanted = append(c.wanted, j)
	c.wantedBy[j.Spec.Name] = j
}

// Kept notes that the outputs of an attempt are there.
func (c *Checker) Kept(prefix string) { c.outputs[prefix] = true }

// Open says whether there is a record of a cluster.
func (c *Checker) Open(cluster string) bool {
	_, open := c.Jobs[record.ClusterJob(cluster)].clusters[cluster]
	return open
}

// IDOf returns the ID of a job by its name, empty when it was not accepted yet.
func (c *Checker) IDOf(name string) string {
	if s := c.byName[name]; s != nil {
		return s.ID
	}
	return ""
}

// Committed takes in a transaction, then checks what it touched.
func (c *Checker) Committed(tx store.Tx) {
	c.touched = c.touched[:0]
	queue := ""
	for i := range tx.Writes {
		w := &tx.Writes[i]
		switch part := w.Key.Partition; {
		case strings.HasPrefix(part, "job#"):
			c.jobWrite(part[len("job#"):], w)
		case strings.HasPrefix(part, "queue#"):
			c.waitWrite(w)
		case strings.HasPrefix(part, "pool#"):
			c.partition(w)
		case part == record.PartActive && w.Op == store.Put:
			c.state(w.Key.Sort).rests = !decode[record.JobIndex](c, w).RestsUntil.IsZero()
		case part == record.PartPools:
			c.poolRecord(w)
		case part == "market":
			c.marketRecord(w)
		case part == "queues":
			c.queueRecord(w)
			queue = w.Key.Sort
		case strings.HasPrefix(part, "seen#"+events.FnSchedule+"#"):
			if k, ok := c.freed[part[len("seen#"+events.FnSchedule+"#"):]]; ok {
				c.settle(k)
			}
		case strings.HasPrefix(part, "seen#"+events.FnInterrupt+"#"):
			if e, ok := c.gangs.broken[part[len("seen#"+events.FnInterrupt+"#"):]]; ok {
				c.gangs.heard = append(c.gangs.heard, e)
			}
		}
	}
	for i := range tx.Events {
		c.emitted(&tx.Events[i])
	}
	for _, k := range c.gone { // with its cluster's record, unless it is this transaction that gives it back
		if id := c.state(k.job).freed[k]; !slices.ContainsFunc(tx.Events, func(e store.Event) bool {
			return e.ID == id
		}) {
			c.settle(k)
		}
	}
	c.gone = c.gone[:0]
	for _, s := range c.touched {
		c.checkDone(s)
		c.checkTasks(s)
		c.checkLedger(s)
		queue = s.Record.Queue
	}
	if q, ok := c.queues[queue]; ok {
		c.checkQueue(q)
		c.checkSpaces(q)
	}
	c.checkMonths()
	c.checkQuotas()
	c.checkBroken()
	c.checkTogether()
	c.checkAssigned()
	c.checkReserved()
}

func (c *Checker) touch(s *Job) {
	if !slices.Contains(c.touched, s) {
		c.touched = append(c.touched, s)
	}
}

// decode reads a record as written; the zero value when it was deleted. What it refers to is shared with the brokers.
func decode[T any](c *Checker, w *store.Write) (v T) {
	if w.Op != store.Put {
		return v
	}
	shared, err := book.Shared[T](c.decoded, w.Key, w.Body)
	if err != nil {
		c.Violatef(InvErrors, "%v", err)
	}
	return *shared
}

func (c *Checker) jobWrite(id string, w *store.Write) {
	if w.Op == store.Check {
		return
	}
	s := c.state(id)
	kind, rest, _ := strings.Cut(w.Key.Sort, "#")
	switch kind {
	case "job":
		plan := s.Record.Plan.Version
		c.jobRecord(s, decode[record.Job](c, w))
		if s.changed = c.Now; s.Record.Plan.Version != plan {
			s.planned = c.Now
		}
	case "progress":
		c.progressRecord(s, decode[record.Progress](c, w))
	case "ledger":
		s.Ledger = decode[record.Ledger](c, w)
	case "task":
		c.taskRecord(s, decode[record.Task](c, w))
	case "attempt":
		c.attemptRecord(s, decode[apitypes.Attempt](c, w))
	case "cluster":
		c.clusterRecord(s, rest, w)
	default:
		return
	}
	c.touch(s)
}

func (c *Checker) waitWrite(w *store.Write) {
	parts := strings.Split(w.Key.Sort, "#")
	task, err := strconv.Atoi(parts[len(parts)-1])
	if err != nil || len(parts) < 3 {
		c.Violatef(InvErrors, "waiting entry %s", w.Key)
		return
	}
	s := c.state(parts[len(parts)-2])
	if w.Op == store.Put {
		s.waiting[task] = 1
		s.entered[task] = c.Now
	} else {
		delete(s.waiting, task)
	}
	c.touch(s)
}

// freedType marks the bodies that emitted looks into.
var freedType = []byte(`"` + events.TypeCapacityFreed + `"`)

var brokenType = []byte(`"` + events.TypeGangBroken + `"`)

// withoutTime is an envelope but for when it was made.
func withoutTime(body []byte) string {
	before, rest, _ := bytes.Cut(body, []byte(`"time":"`))
	_, after, _ := bytes.Cut(rest, []byte(`"`))
	return string(before) + string(after)
}

// emitted notes an event, and which attempt it settles.
func (c *Checker) emitted(e *store.Event) {
	c.pending[e.ID] = true
	body := withoutTime(e.Body)
	if first, again := c.bodies[e.ID]; again && first != body {
		c.Violatef(InvEvent, "event %s is emitted with two contents: %s and %s", e.ID, first, body)
	}
	c.bodies[e.ID] = body
	if bytes.Contains(e.Body, brokenType) {
		c.gangs.note(e)
	}
	if !bytes.Contains(e.Body, freedType) {
		return
	}
	ev, err := events.Parse(e.Body)
	data, ok := ev.Data.(events.CapacityFreed)
	if err != nil || !ok || data.Job == "" {
		return
	}
	s := c.state(data.Job)
	k := attemptKey{data.Job, data.Task, data.Attempt}
	if first, again := s.freed[k]; again && first != e.ID && data.Cluster == "" {
		c.Violatef(InvLedger, "attempt %v is given back twice, by events %s and %s", k, first, e.ID)
	}
	s.freed[k] = e.ID
	c.freed[e.ID] = k
}

// settle notes that schedule has taken back what an attempt held.
func (c *Checker) settle(k attemptKey) {
	s := c.state(k.job)
	a := s.attempt(k)
	if a.settled {
		c.Violatef(InvLedger, "attempt %v is settled twice", k)
	}
	a.settled = true
	c.month.settled = append(c.month.settled, k)
	c.touch(s)
}

// promises says whether a job's deadline is one that has to be kept.
func (c *Checker) promises(s *Job) bool {
	j := s.user.Spec
	if !c.OnTime || record.IsPlaced(j) || j.Deadline == 0 || j.Budget > 0 || j.Queue != "" ||
		j.Deadline < planner.Guarantee(j) {
		return false
	}
	for i := range j.Tasks {
		for _, r := range j.Tasks[i].Resources {
			if r.Market == dag.MarketSpot {
				return false
			}
		}
	}
	return true
}
