package check

import (
	"bytes"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/sim/planner"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// The invariants. Each string is the name in a violation.
//
// At every transaction:
const (
	// InvEvent: an emitted event stays in the outbox until the bus has it, and in the bus until a handler has taken it.
	InvEvent = "no event is lost"
	// InvForward: a job's state only moves forward; a finished job does not change.
	InvForward = "a job moves forward"
	// InvCounts: Job.Progress and Job.Succeeded agree with the tasks, and no task is ready before its parents have
	// succeeded.
	InvCounts = "progress agrees with the tasks"
	// InvFinished: a task that succeeded stays so and is never run again.
	InvFinished = "a finished task never runs again"
	// InvAttempt: at most one attempt of a task is open, and an attempt ends once.
	InvAttempt = "one attempt at a time"
	// InvParallel: no more members of an array have machines than its maxParallel.
	InvParallel = "an array runs as wide as it may"
	// InvQueued: a queued task has its entry in the queue.
	InvQueued = "a queued task waits in its queue"
	// InvQuota: a queue's usage is the sum of the attempts that hold resources, and within its quota.
	InvQuota = "a queue's usage is its attempts'"
	// InvMonth: the spent and the reserved amount of a queue in a month are the sums over its attempts. When a
	// further amount is reserved, the total does not exceed the budget.
	InvMonth = "a month's budget is kept"
	// InvGang: the machines of a task are bought together, and it starts on all of them or none.
	InvGang = "a gang starts whole or not at all"
	// InvJoin: machines that join a gang are bought only while the gang runs.
	InvJoin = "machines join a gang that runs"
	// InvRole: a task that restarts by itself, as configured, does not affect the other tasks of its gang, and at
	// least one of those exists.
	InvRole = "a role restarts alone"
	// InvChief: when a gang's chief has succeeded, its other tasks end within a bound, even those that never end by
	// themselves.
	InvChief = "a gang ends with its chief"
	// InvStarved: an overdue task is not overtaken in its queue by tasks that are not overdue.
	InvStarved = "no task starves in its queue"
	// InvLedger: the spent and the reserved amount of a job are the sums over its attempts, each settled once.
	InvLedger = "the ledger is its attempts'"
	// InvAsleep: a resting job, which reconcile and tick skip, holds nothing.
	InvAsleep = "a resting job holds nothing"
	// InvBlock: nothing is bought at a location that has just refused.
	InvBlock = "a blocked location is left alone"
	// InvReserved: the number of machines that use an account's reservation is at most the size of the reservation.
	InvReserved = "a reservation is not overused"
	// InvIntent: the intent to buy is recorded before anything is bought.
	InvIntent = "intent before action"
	// InvCluster: an attempt has at most one set of live machines.
	InvCluster = "one live cluster an attempt"
	// InvHealthy: no attempt is given up as lost before its machines have had time to report.
	InvHealthy = "a healthy attempt is left alone"
	// InvOutage is that no attempt ends because agents cannot reach the broker for half an hour.
	InvOutage = "an outage of half an hour ends no work"
	// InvAssigned: an agent gets only the assignment of its own open attempt, and the outputs of the task's parents
	// exist.
	InvAssigned = "an agent runs its own attempt"
	// InvChunk: a member that ran in the attempt of another member succeeds only if its outputs are stored, and does
	// not run again.
	InvChunk = "a member of a chunk runs to its end, once"
	// InvCheckpoint: the checkpoint to resume from exists, and is the last one that was recorded.
	InvCheckpoint = "no saved work is lost"
	// InvMail: an agent's message to a broker without an address is in the bucket until its answer is. No agent gets
	// the answer to another message or uses up its URLs. In the end, the bucket is empty.
	InvMail = "every letter is answered and none is left"
	// InvToken: each machine receives its own token.
	InvToken = "a machine has its own token"
)

// Checked continuously:
const (
	// InvOwned: a machine that nothing needs ends within a bound.
	InvOwned = "a machine is owned or about to be terminated"
	// InvBudget: the real cost of machines stays within the job's budget (see overspend).
	InvBudget = "spend within budget"
	// InvErrors: handlers fail only because of injected faults.
	InvErrors = "a handler fails only for cause"
	// InvPanic: handlers do not panic.
	InvPanic = "no panic"
	// InvCircles: a world comes to rest within a number of steps that is far above what any correct world needs.
	InvCircles    = "a world comes to rest"
	InvOneHistory = "a seed is one history"
)

// Checked at the end, when the faults have stopped:
const (
	// InvEnds: every job ends.
	InvEnds = "every job ends"
	// InvOwner: a function writes only the records that it has rights to.
	InvOwner = "a function writes its own records"
	// InvLimit: the machines bought at a time are within the limit of the deployment.
	InvLimit = "what is bought is within the limit"
	// InvCause: a job fails only for a reason: a task's exit code, no feasible plan, its budget, or its queue's quota.
	InvCause = "a job fails only for cause"
	// InvPatience: a job that is held up only by blocks waits for their end, as long as its patience lasts.
	InvPatience = "a job waits for blocks that end"
	// InvNotice: when the cloud has announced that it will take a machine, its task gets the command to save its work.
	InvNotice = "a notice is passed on"
	// InvDeadline: see planner.Guarantee.
	InvDeadline = "a feasible deadline is met"
	// InvRest: nothing remains: no machine, no record of one, no message, no quota in use.
	InvRest = "nothing is left over"
	// InvBooked: the reported cost of a job is the cost of its machines.
	InvBooked = "the bill is the ledger's"
)

// Checker compares commits with the invariants.
type Checker struct {
	*timeline.Timeline
	sky      *weather.Sky
	cfg      config.Config
	store    *mem.Store
	decoded  *recordcache.Decoded
	world    World
	Stormy   bool // the broker's own parts may fail
	Late     bool // the calls of an agent may arrive after its machine has ended
	Data     Objects
	OnTime   bool // nothing takes longer than planned by the planner of a world
	wanted   []*Wanted
	wantedBy map[string]*Wanted           // by name
	noPlan   map[string]noPlan            // jobs, by name, that had no feasible plan
	outputs  map[string]bool              // prefixes of attempts with outputs
	labels   map[string]map[string]string // of machines of pools
	idle     map[*Machine]time.Duration   // how long each machine has not been needed
	Jobs     map[string]*Job
	order    []*Job
	byName   map[string]*Job
	queues   map[string]apitypes.Queue
	claimed  map[string]promise  // room that others were stopped for, by claim
	pending  map[string]bool     // emitted and not yet marked as published
	bodies   map[string]string   // contents of emitted events
	sent     map[string]int      // emitted and published: how often
	routes   map[string][]string // functions that have to handle a published event
	handled  map[string]bool     // queue and ID
	freed    map[string]attemptKey
	gone     []attemptKey         // attempts whose cluster records the current transaction deletes
	refusals map[string][]refusal // by cluster
	avoid    []avoided
	blocks   map[string]apitypes.Block // the last one of each location
	touched  []*Job
	gangs    gangChecker
	grown    []string // queues that hold more after the current transaction
	reserves bool     // the current transaction changed a cluster on reserved capacity
	pool     poolChecker
	workers  workerChecker
	policy   policyChecker
	reclaim  reclaimChecker
	moves    moveChecker
	month    monthChecker
	owed     owedChecker
	heardOf  map[string][]heardOf       // prices in the broker's records, by listing
	held     map[*Machine]time.Duration // how long a machine has run for a suspended job
	unseen   map[*Machine]time.Duration // how long the loss of a place has not been noticed

	Suspensions Suspensions
}

// attemptKey identifies an attempt.
type attemptKey struct {
	job           string
	task, attempt int
}

// attemptState is an attempt as committed.
type attemptState struct {
	attemptKey
	apitypes.Attempt
	cluster string // the ID of its cluster
	settled bool   // schedule has booked it and freed its capacity
}

// refusal is a cloud's answer to a launch.
type refusal struct {
	kind  cloud.Kind
	class string // the exhausted quota
	ended bool   // the place had ended before
	text  string
}

// avoided is a block within which nothing may be bought. A block for lack of quota ends when a machine of its class
// ends.
type avoided struct {
	block apitypes.Block
	since time.Time
}

// moment is the time of a commit.
type moment struct {
	step int
	at   time.Time
}

// Job is a job as committed.
type Job struct {
	Name, ID       string
	Record         record.Job
	progress       record.Progress
	user           *Wanted
	graph          *dag.Graph
	Ledger         record.Ledger
	Tasks          map[int]record.Task
	finished       map[int]int       // step in which a task succeeded
	chiefSucceeded map[int]time.Time // when a gang's chief succeeded
	attempts       map[attemptKey]*attemptState
	order          []*attemptState // admitted attempts, in order of admission
	clusters       map[string]record.Cluster
	closed         map[string]moment    // when a cluster's attempt ended
	lingered       map[string]time.Time // since when a cluster is kept after its task failed; zero when released
	leases         map[string]time.Time // end of the lease of a cluster's money
	released       map[string]time.Time // when a cluster's record was deleted and its attempt booked
	heard          map[string]bool      // clusters that the broker knew to have been bought
	lost           map[int]lostWork     // on spot, by task
	late           map[string]string    // refusal of a cluster after some machines were created
	unended        map[string]bool      // clusters that could not be terminated because their cloud took no calls
	commanded      map[string]time.Time // when a cluster got the command to run
	served         map[int]time.Time    // when a replica of a service was last ready
	limited        map[int]time.Time    // when a task that restarts by itself last waited for the limit
	replaced       map[int]int          // number of replacements since replacedFrom
	replacedFrom   time.Time
	waiting        map[int]int       // entries in a queue
	entered        map[int]time.Time // when the queue entries were committed
	changed        time.Time         // when the job's record was committed
	planned        time.Time         // when the current plan was committed
	freed          map[attemptKey]string
	machines       []*Machine
	rests          bool      // reconcile and tick read only its line
	Promised       bool      // its deadline must be met
	calm           time.Time // when faults stopped; zero before
	ending         moment    // when it started to end
	endBy          time.Time // see InvBound; zero before the calm
}

// New returns a checker for a world in which nothing has happened yet.
func New(t *timeline.Timeline, s *weather.Sky, cfg config.Config, records *mem.Store,
	decoded *recordcache.Decoded, world World) *Checker {
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
		pool: newPoolChecker(), workers: newWorkerChecker(),
		month: newMonthChecker(), reclaim: newReclaimChecker(), moves: newMoveChecker(),
		owed:        owedChecker{since: map[string]time.Time{}},
		heardOf:     map[string][]heardOf{},
		blocks:      map[string]apitypes.Block{},
		held:        map[*Machine]time.Duration{},
		unseen:      map[*Machine]time.Duration{},
		Suspensions: Suspensions{Closed: map[string]time.Time{}, Empty: map[string]time.Time{}},
	}
}

func (c *Checker) state(id string) *Job {
	s, ok := c.Jobs[id]
	if !ok {
		s = &Job{
			ID: id, Tasks: map[int]record.Task{}, finished: map[int]int{}, chiefSucceeded: map[int]time.Time{},
			attempts: map[attemptKey]*attemptState{},
			clusters: map[string]record.Cluster{}, closed: map[string]moment{}, lingered: map[string]time.Time{},
			leases: map[string]time.Time{},
			late:   map[string]string{}, unended: map[string]bool{},
			heard: map[string]bool{}, released: map[string]time.Time{}, commanded: map[string]time.Time{},
			served: map[int]time.Time{}, limited: map[int]time.Time{}, waiting: map[int]int{},
			entered: map[int]time.Time{},
			freed:   map[attemptKey]string{}, lost: map[int]lostWork{},
		}
		c.Jobs[id] = s
		c.order = append(c.order, s)
	}
	return s
}

// attempt returns an attempt of the job, an empty one if it was not admitted.
func (s *Job) attempt(k attemptKey) *attemptState {
	a, ok := s.attempts[k]
	if !ok {
		a = &attemptState{attemptKey: k, cluster: record.ClusterID(k.job, k.task, k.attempt)}
		s.attempts[k] = a
	}
	return a
}

// All returns the accepted jobs, in order.
func (c *Checker) All() iter.Seq[*Job] { return slices.Values(c.order) }

// Named returns a job by its name, nil if it was not accepted yet.
func (c *Checker) Named(name string) *Job { return c.byName[name] }

// Expect announces a job that a user will submit.
func (c *Checker) Expect(j *Wanted) {
	c.wanted = append(c.wanted, j)
	c.wantedBy[j.Spec.Name] = j
}

// OutputsStored records that the outputs of an attempt are stored.
func (c *Checker) OutputsStored(prefix string) { c.outputs[prefix] = true }

// Open reports whether a cluster has a record.
func (c *Checker) Open(cluster string) bool {
	_, open := c.Jobs[record.ClusterJob(cluster)].clusters[cluster]
	return open
}

// IDOf returns the ID of a job by its name, empty if it was not accepted yet.
func (c *Checker) IDOf(name string) string {
	if s := c.byName[name]; s != nil {
		return s.ID
	}
	return ""
}

// Committed records a transaction and checks its changes.
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
		case part == record.PartBlocks:
			c.blockRecord(w)
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
	for _, k := range c.gone { // settled with its cluster's record, unless this transaction emits its release
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
	c.checkSettled()
	c.checkReserved()
}

func (c *Checker) touch(s *Job) {
	if !slices.Contains(c.touched, s) {
		c.touched = append(c.touched, s)
	}
}

// decode reads a record as written, or the zero value if it was deleted. Its contents are shared with the brokers.
func decode[T any](c *Checker, w *store.Write) (v T) {
	if w.Op != store.Put {
		return v
	}
	shared, err := recordcache.Shared[T](c.decoded, w.Key, w.Body)
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
	c.checkRemoval(s, kind, w)
	if w.Op == store.Delete && kind != "cluster" {
		return
	}
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

// freedType identifies the event bodies that emitted parses.
var freedType = []byte(`"` + events.TypeCapacityFreed + `"`)

var brokenType = []byte(`"` + events.TypeGangBroken + `"`)

// withoutTime returns an envelope without its time.
func withoutTime(body []byte) string {
	before, rest, _ := bytes.Cut(body, []byte(`"time":"`))
	_, after, _ := bytes.Cut(rest, []byte(`"`))
	return string(before) + string(after)
}

// emitted records an event, and the attempt that it settles.
func (c *Checker) emitted(e *store.Event) {
	c.pending[e.ID] = true
	body := withoutTime(e.Body)
	if first, again := c.bodies[e.ID]; again && first != body {
		c.Violatef(InvEvent, "event %s is emitted with different contents: %s and %s", e.ID, first, body)
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
		c.Violatef(InvLedger, "attempt %v is freed twice, by events %s and %s", k, first, e.ID)
	}
	s.freed[k] = e.ID
	c.freed[e.ID] = k
}

// settle records that schedule has freed an attempt's capacity.
func (c *Checker) settle(k attemptKey) {
	s := c.state(k.job)
	a := s.attempt(k)
	if a.settled {
		c.Violatef(InvLedger, "attempt %v is settled twice", k)
	}
	a.settled = true
	c.month.settled = append(c.month.settled, k)
	if s.isWorker(k.task) {
		c.workers.settled = append(c.workers.settled, k)
	}
	c.touch(s)
}

// promises reports whether a job's deadline must be met.
func (c *Checker) promises(s *Job) bool {
	j := s.user.Spec
	if !c.OnTime || record.IsPlaced(j) || j.HasWorkers() || onServices(j) || j.Deadline == 0 || j.Budget > 0 ||
		j.Queue != "" || j.Deadline < planner.Guarantee(j) {
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
