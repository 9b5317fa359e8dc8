package session

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

const (
	sessionScan   = 64      // waiting tasks looked at first in a queue without quota
	sessionScanOf = 512     // and in one with: enough to be fair between many jobs
	sessionMost   = 1 << 18 // and at most, when those before them cannot go
	sessionFull   = 84      // items in the transaction after which a session goes on in a next one
	sessionAdmits = 16      // tasks that fill a transaction
)

// Decide makes one pass over the queues of the tree.
func (s *Session) Decide() error {
	if err := s.run(); err != nil {
		return err
	}
	var d record.Decision
	for _, q := range s.tree {
		if s.changed[q] {
			d.Put(record.QueueKey(q.Name), *q)
		}
	}
	if len(d.Writes) > 0 && len(s.tree) > 1 {
		d.HoldTree(s.tree)
	}
	return s.u.Apply(d)
}

// bounded says whether anything limits what a queue may have.
func (s *Session) bounded(q *record.Queue) bool {
	return slices.ContainsFunc(s.above(q), func(q *record.Queue) bool { return q.MaxRunning > 0 || q.MaxVCPU > 0 })
}

// above are a queue and those above it.
func (s *Session) above(q *record.Queue) []*record.Queue {
	var out []*record.Queue
	for ; q != nil && len(out) <= record.MaxTree; q = s.queues[q.Parent] {
		out = append(out, q)
	}
	return out
}

// most returns how many vCPUs a queue could have if nothing were in use, and which of those above it allows no more:
// its quota, less what is guaranteed to others below it.
func (s *Session) most(q *record.Queue) (of *record.Queue, vcpu float64) {
	of, vcpu = q, math.Inf(1)
	below := q
	for _, above := range s.above(q) {
		if above.MaxVCPU > 0 {
			left := above.MaxVCPU
			for _, x := range s.tree {
				if x.Parent == above.Name && x != below {
					left -= x.GuaranteedVCPU
				}
			}
			if above != q {
				left = max(left, below.GuaranteedVCPU)
			}
			if left < vcpu {
				of, vcpu = above, left
			}
		}
		below = above
	}
	return of, vcpu
}

// Session is the state of one session.
type Session struct {
	cfg        record.Config
	u          *book.Draft
	mover      record.Mover
	pools      *[]record.PoolSeen // nil: not looked at yet
	tree       []*record.Queue
	queues     map[string]*record.Queue // of the tree, by name
	blocks     []record.Block
	loaded     bool
	replanned  map[string]bool
	changed    map[*record.Queue]bool
	candidates []admission
	more       bool // than was looked at waits
	policy     *scheduler.Policy
	gangs      map[string]bool      // that were looked at since candidates were collected
	jobs       map[string]admission // what of an admission is its job's, since then
}

// Input is what a session is decided on beside records.
type Input struct {
	Config record.Config
	Policy *scheduler.Policy
	Mover  record.Mover
	Pools  *[]record.PoolSeen
}

// New begins a session over a queue and those that share a quota with it.
func New(in Input, u *book.Draft, queue string) (*Session, error) {
	tree, err := loadTree(u, in.Config, queue)
	if err != nil {
		return nil, err
	}
	s := &Session{
		cfg: in.Config, policy: in.Policy, mover: in.Mover, pools: in.Pools, u: u, tree: tree,
		queues: map[string]*record.Queue{}, replanned: map[string]bool{}, changed: map[*record.Queue]bool{},
		gangs: map[string]bool{},
	}
	for _, q := range tree {
		s.queues[q.Name] = q
	}
	return s, nil
}

// seen are the pools as they were looked at.
func (s *Session) seen() ([]record.PoolSeen, error) {
	if s.pools == nil {
		s.u.Lack.Pools = true
		return nil, book.ErrLacking
	}
	return slices.Clone(*s.pools), nil
}

// run looks at what waits, has the scheduler decide, and acts on it.
func (s *Session) run() error {
	for scale := 1; ; scale *= 4 {
		if err := s.collect(scale); err != nil || s.stop() {
			return err
		}
		if s.u.Lack.Any() {
			return book.ErrLacking
		}
		admitted, err := s.admit()
		switch {
		case err != nil:
			return err
		case s.stop(), s.more && admitted > 0:
			return s.goOn()
		case !s.more, len(s.candidates) > 0, sessionScan*scale >= sessionMost:
			return s.takeBack()
		}
	}
}

// stop says whether the transaction is full.
func (s *Session) stop() bool { return s.u.Items() >= sessionFull }

// goOn has the session go on in a next transaction.
func (s *Session) goOn() error {
	var d record.Decision
	d.Emit(events.CapacityFreed{Queue: s.tree[0].Name})
	return s.u.Apply(d)
}

// collect loads what waits in the queues of the tree that may admit anything, and sorts out what is not the scheduler's
// to decide.
func (s *Session) collect(scale int) error {
	s.candidates, s.more, s.gangs, s.jobs = s.candidates[:0], false, map[string]bool{}, map[string]admission{}
	for _, q := range s.tree {
		if q.Full() && !q.Preempt && len(s.tree) == 1 {
			continue
		}
		if err := s.collectFrom(q, scale); err != nil && !errors.Is(err, book.ErrLacking) {
			return err
		}
		if s.stop() {
			return s.goOn()
		}
	}
	return nil
}

func (s *Session) collectFrom(q *record.Queue, scale int) error {
	scan, most := sessionScan*scale, sessionAdmits
	if s.bounded(q) {
		scan, most = sessionScanOf*scale, sessionScan
	}
	waiting, err := book.List[record.Waiting](s.u, record.WaitPart(q.Name), "wait#", scan)
	if err != nil {
		return err
	}
	s.more = s.more || len(waiting) == scan
	taken := 0
	for _, w := range takeTurns(waiting) {
		if taken >= most {
			s.more = true
			return nil
		}
		passed, err := s.passes(w)
		if err == nil && passed {
			continue
		}
		var a admission
		if err == nil {
			a, err = s.facts(q, w)
		}
		if errors.Is(err, book.ErrLacking) {
			taken++
			continue
		}
		if err != nil {
			return err
		}
		if a.task.Gang != "" {
			n, err := s.collectGang(a)
			if errors.Is(err, book.ErrLacking) {
				taken++
				continue
			}
			if err != nil || s.stop() {
				return err
			}
			taken += n
			continue
		}
		v := s.judge(a)
		if v == verdictAdmit {
			s.candidates = append(s.candidates, a)
			taken++
			continue
		}
		if err := s.act(v, a); err != nil || s.stop() {
			return err
		}
	}
	return nil
}

// passes says of a waiting task that what its job lacks keeps it, so that nothing need be read of the task itself:
// however many tasks of a job wait for a plan or for its budget, those behind them are looked at.
func (s *Session) passes(w record.Waiting) (bool, error) {
	of, known := s.jobs[w.Job]
	if !known {
		if err := s.u.Preload(record.JobKey(w.Job), record.LedgerKey(w.Job)); err != nil {
			return false, err
		}
		var err error
		if of.job, _, err = book.Get[record.Job](s.u, record.JobKey(w.Job)); err != nil {
			return false, err
		}
		if of.ledger, _, err = book.Get[record.Ledger](s.u, record.LedgerKey(w.Job)); err != nil {
			return false, err
		}
		if of.job.State == record.JobRunning && of.job.BudgetUSD > 0 && !of.job.Plan.IsZero() {
			if of.plan, err = s.u.Plan(of.job); err != nil {
				return false, err
			}
		}
		s.jobs[w.Job] = of
	}
	switch {
	case of.job.State == record.JobPlanning || of.job.State == record.JobWaiting || s.replanned[w.Job]:
		return true, nil
	case of.job.State != record.JobRunning:
		return false, nil // it is over: the entry goes
	case of.job.Plan.IsZero() || of.job.Plan.Version < w.MinPlan:
		return true, nil
	}
	of.waiting = w
	return of.plan != nil && of.affordable() == verdictSkip, nil
}

// takeTurns orders waiting tasks so that, within a priority, each job comes once before any comes twice: what the
// scheduler is to be fair between has to be in its sight.
func takeTurns(waiting []record.Waiting) []record.Waiting {
	type key struct {
		priority int
		job      string
	}
	turn := make([]int, len(waiting))
	count := map[key]int{}
	order := make([]int, len(waiting))
	for i, w := range waiting {
		k := key{w.Priority, w.Job}
		turn[i], order[i] = count[k], i
		count[k]++
	}
	if len(count) <= 1 {
		return waiting
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(waiting[b].Priority, waiting[a].Priority), cmp.Compare(turn[a], turn[b]))
	})
	out := make([]record.Waiting, len(waiting))
	for i, k := range order {
		out[i] = waiting[k]
	}
	return out
}

// admit admits candidates, first those that room has been made for: what those can not have yet is kept for them. It
// returns how many.
func (s *Session) admit() (admitted int, err error) {
	claimed, others := parted(s.candidates, s.u.Now)
	admitted, err = s.admitOf(claimed, nil)
	if err != nil || s.stop() || len(others) == 0 {
		return admitted, err
	}
	if claimed, err = s.waitStill(claimed); err != nil {
		return admitted, err
	}
	n, err := s.admitOf(others, claimed)
	return admitted + n, err
}

// admitOf has the scheduler decide on some candidates, and admits those that it binds, in its order.
func (s *Session) admitOf(candidates, kept []admission) (admitted int, err error) {
	if len(candidates) == 0 {
		return 0, nil
	}
	snap, byTask := s.snapshot(candidates, kept)
	session, err := s.open(snap, "allocate")
	if err != nil {
		return 0, record.Final(err)
	}
	session.Run()
	binds := session.Close().Binds
	slices.SortFunc(binds, func(a, b scheduler.Bind) int { return cmp.Compare(a.Turn, b.Turn) })
	if err := s.toPools(binds, byTask); err != nil {
		return 0, err
	}
	for i := 0; i < len(binds); {
		if s.stop() {
			return admitted, nil
		}
		a := byTask[taskOf(binds[i])]
		if a.gang != nil {
			n := len(a.gang.members)
			done, err := s.admitGang(binds[i:min(i+n, len(binds))], byTask)
			if err != nil || !done {
				s.more = s.more || !done
				return admitted, err
			}
			i, admitted = i+n, admitted+n
			continue
		}
		i++
		if a.ledger, _, err = book.Get[record.Ledger](s.u, record.LedgerKey(a.job.ID)); err != nil {
			return admitted, err
		}
		v := a.affordable() // what was admitted before has set some aside
		if v == verdictAdmit {
			admitted++
		}
		if err := s.act(v, a); err != nil {
			return admitted, err
		}
	}
	return admitted, nil
}

// facts loads what is to be known of a waiting task.
func (s *Session) facts(q *record.Queue, w record.Waiting) (a admission, err error) {
	a.queue, a.waiting = q, w
	if err := s.u.Preload(record.JobKey(w.Job), record.LedgerKey(w.Job), record.TaskKey(w.Job, w.Task)); err != nil {
		return a, err
	}
	if a.job, _, err = book.Get[record.Job](s.u, record.JobKey(w.Job)); err != nil {
		return a, err
	}
	if a.ledger, _, err = book.Get[record.Ledger](s.u, record.LedgerKey(w.Job)); err != nil {
		return a, err
	}
	if a.task, _, err = book.Get[record.Task](s.u, record.TaskKey(w.Job, w.Task)); err != nil {
		return a, err
	}
	if a.job.State != record.JobRunning || a.job.Plan.IsZero() {
		return a, nil
	}
	spec, err := s.u.Spec(a.job)
	if err != nil {
		return a, err
	}
	a.name, a.nodes = spec.Tasks[w.Task].Name, spec.Tasks[w.Task].Nodes
	if a.plan, err = s.u.Plan(a.job); err != nil {
		return a, err
	}
	if choice := a.plan.Of(w.Task); choice != nil {
		if a.blocked, err = s.blocked(choice); err != nil {
			return a, err
		}
	}
	if a.price, err = s.priceOf(a); err != nil || a.price == nil {
		return a, err
	}
	if !s.roomFor(q, a.price.Others, a.vcpu()) {
		a.price = nil // they would have to go one after another, and By knows nothing of that
	}
	return a, nil
}

// roomFor says whether the quota of a queue has room for so many tasks at once. What queues above it have is not looked
// at: where one of them has a quota there is none for certain.
func (s *Session) roomFor(q *record.Queue, tasks int, vcpu float64) bool {
	if q != nil && s.queues[q.Parent] != nil && s.bounded(s.queues[q.Parent]) {
		return false
	}
	return q == nil || (q.MaxRunning == 0 || q.Running+tasks <= q.MaxRunning) &&
		(q.MaxVCPU == 0 || q.VCPU+float64(tasks)*vcpu <= q.MaxVCPU+1e-9)
}

func (s *Session) blocked(p *record.Planned) (bool, error) {
	if !s.loaded {
		var err error
		if s.blocks, err = book.List[record.Block](s.u, record.PartBlocks, "", 0); err != nil {
			return false, err
		}
		s.loaded = true
	}
	for _, k := range s.blocks {
		if k.Covers(p.Offer, s.u.Now) {
			return true, nil
		}
	}
	return false, nil
}
