package session

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

const (
	sessionScan   = 64      // number of waiting tasks that are read first in a queue without a quota
	sessionScanOf = 512     // the same with a quota: enough to be fair between many jobs
	sessionMost   = 1 << 18 // maximum, if the first tasks cannot be admitted
	sessionFull   = 84      // number of items after which a session continues in another transaction
	sessionAdmits = 16      // number of tasks that fill a transaction
)

// Decide makes one pass over the queues of the tree.
func (s *Session) Decide() error {
	if err := s.run(); err != nil {
		return err
	}
	if err := s.askForWorkers(); err != nil {
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
	if s.gate.changed {
		d.Put(record.GateKey(), s.gate.Gate)
	}
	return s.u.Apply(d)
}

// Input is the input of a session in addition to records.
type Input struct {
	Config config.Config
	Policy *scheduler.Policy
	Mover  config.Mover
	Pools  *[]record.PoolSeen // nil: not loaded yet
	Fresh  []string           // names of the pools that were loaded for this session
}

// Session is the state of one session.
type Session struct {
	Input
	u          *recordcache.Draft
	tree       []*apitypes.Queue
	queues     map[string]*apitypes.Queue // of the tree, by name
	monthly    bool                       // one of them has a monthly budget
	blocks     []apitypes.Block           // nil: not loaded yet
	jobs       map[string]*side
	replanned  map[string]bool
	changed    map[*apitypes.Queue]bool
	candidates []*admission
	gangs      map[string]bool // gangs that were examined since candidates were collected
	more       bool            // more tasks wait than were examined
	gate       gate
}

// New starts a session over a queue and those that share a quota with it.
func New(in Input, u *recordcache.Draft, queue string) (*Session, error) {
	var lacks error
	if !in.Config.Limit.None() { // loaded before the queues: a change in between changes the gate, too
		_, _, lacks = recordcache.Get[record.Gate](u, record.GateKey())
	}
	tree, err := Tree(u, in.Config, queue)
	return &Session{
		Input: in, u: u, tree: tree, queues: byName(tree), monthly: record.Monthly(tree),
		jobs: map[string]*side{}, replanned: map[string]bool{},
		changed: map[*apitypes.Queue]bool{}, gangs: map[string]bool{},
	}, cmp.Or(lacks, err)
}

// seen returns the pools that were loaded. If they were not, it fails with recordcache.ErrMissing.
func (s *Session) seen() ([]record.PoolSeen, error) {
	if s.Pools == nil {
		s.u.Missing.Pools = true
		return nil, recordcache.ErrMissing
	}
	return slices.Clone(*s.Pools), nil
}

// run collects waiting tasks, lets the scheduler decide, and applies the decisions.
func (s *Session) run() error {
	for scale := 1; ; scale *= 4 {
		if err := s.collect(scale); err != nil || s.full() {
			return err
		}
		admitted, err := s.admit()
		switch {
		case err != nil:
			return err
		case s.full(), s.more && admitted > 0:
			return s.continueLater()
		case !s.more, len(s.candidates) > 0, sessionScan*scale >= sessionMost:
			if _, err := s.backfill(); err != nil || s.full() {
				return err
			}
			return s.reclaim()
		}
	}
}

// full reports whether the transaction is full.
func (s *Session) full() bool { return s.u.Items() >= sessionFull }

// continueLater makes the session continue in another transaction.
func (s *Session) continueLater() error {
	var d record.Decision
	d.Emit(events.CapacityFreed{Queue: s.tree[0].Name})
	return s.u.Apply(d)
}

// lacking returns nil for ErrMissing. The draft has already noted the missing record, so a loop can continue with its
// next element.
func lacking(err error) error {
	if errors.Is(err, recordcache.ErrMissing) {
		return nil
	}
	return err
}

// collect loads the waiting tasks of all queues in the tree that may admit something. It makes the decisions for
// which the scheduler is not needed.
func (s *Session) collect(scale int) error {
	s.candidates, s.more = s.candidates[:0], false
	clear(s.gangs)
	for _, q := range s.tree {
		if q.Full() && q.Workers == 0 && !q.Preempt && len(s.tree) == 1 { // tasks on workers need no quota
			continue
		}
		if err := lacking(s.collectFrom(q, scale)); err != nil {
			return err
		}
		if s.full() {
			return s.continueLater()
		}
	}
	if s.u.Missing.Any() {
		return recordcache.ErrMissing
	}
	return nil
}

func (s *Session) collectFrom(q *apitypes.Queue, scale int) error {
	scan, most := sessionScan*scale, sessionAdmits
	if s.bounded(q) {
		scan, most = sessionScanOf*scale, sessionScan
	}
	waiting, err := recordcache.List[apitypes.Waiting](s.u, record.WaitPart(q.Name), "wait#", scan)
	if err != nil {
		return err
	}
	s.more = s.more || len(waiting) == scan
	taken := 0
	waiting = takeTurns(waiting, s.u.Now.Add(-s.patience()))
	sorted := map[turn]bool{}
	for i := range waiting {
		s.longestFirst(waiting[i:], sorted)
		w := waiting[i]
		if taken >= most {
			s.more = true
			return nil
		}
		n, err := s.consider(q, w)
		switch {
		case errors.Is(err, recordcache.ErrMissing):
			n = 1
		case err != nil || s.full():
			return err
		}
		taken += n
	}
	return nil
}

// consider makes a waiting task and its gang candidates if they could be admitted. Otherwise it applies the verdict.
// It returns the number of new candidates.
func (s *Session) consider(q *apitypes.Queue, w apitypes.Waiting) (taken int, err error) {
	if passed, err := s.passes(w); err != nil || passed {
		return 0, err
	}
	a, err := s.facts(q, w)
	if err != nil {
		return 0, err
	}
	t := &together{members: []*admission{a}}
	if a.gang() != "" {
		if s.gangs[a.claim()] {
			return 0, nil
		}
		s.gangs[a.claim()] = true
		if t, err = s.gangOf(a); err != nil {
			return 0, err
		}
	}
	a.with = t
	switch v, of := s.judgeAll(t); v {
	case verdictAdmit:
		s.candidates = append(s.candidates, t.members...)
		return len(t.members), nil
	case verdictDrop:
		for _, m := range t.members {
			if s.judge(m) == verdictDrop {
				if err := s.act(verdictDrop, m); err != nil || s.full() {
					return 0, err
				}
			}
		}
		return 0, nil
	default:
		return 0, s.act(v, of)
	}
}

// takeTurns orders waiting tasks of equal priority. Tasks that have waited since before late come first. Then the
// jobs take turns, so that the scheduler sees tasks of every job to which it must be fair.
func takeTurns(waiting []apitypes.Waiting, late time.Time) []apitypes.Waiting {
	type turned struct {
		apitypes.Waiting
		class, turn int
	}
	order, count := make([]turned, len(waiting)), map[string]int{}
	for i, w := range waiting {
		order[i] = turned{w, max(w.Since.Compare(late), 0), count[w.Job]}
		count[w.Job]++
	}
	slices.SortStableFunc(order, func(a, b turned) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.class, b.class), cmp.Compare(a.turn, b.turn))
	})
	for i := range order {
		waiting[i] = order[i].Waiting
	}
	return waiting
}

// admit admits candidates, first those for which room was made. If these cannot get their capacity yet, it is kept
// for them. It returns the number of admitted tasks.
func (s *Session) admit() (admitted int, err error) {
	claimed, others := splitClaimed(s.candidates, s.u.Now)
	admitted, err = s.admitOf(claimed, nil)
	if err != nil || s.full() || len(others) == 0 {
		return admitted, err
	}
	n, err := s.admitOf(others, notAdmitted(claimed))
	return admitted + n, err
}

// notAdmitted are the candidates that have not been admitted.
func notAdmitted(candidates []*admission) (left []*admission) {
	for _, a := range candidates {
		if a.task.State == record.TaskQueued {
			left = append(left, a)
		}
	}
	return left
}

// splitShared separates the candidates that run on workers of their jobs. The scheduler does not decide on them: they
// take nothing from their queue, so no other task has to wait for them, and they wait for no other task.
func splitShared(candidates []*admission) (shared, others []*admission) {
	for _, a := range candidates {
		if a.shares() {
			shared = append(shared, a)
		} else {
			others = append(others, a)
		}
	}
	return shared, others
}

// admitOf lets the scheduler decide on candidates, and admits those that it binds, in the scheduler's order.
func (s *Session) admitOf(candidates, kept []*admission) (admitted int, err error) {
	if len(candidates) == 0 {
		return 0, nil
	}
	bound, candidates := splitShared(candidates)
	if len(candidates) > 0 {
		snap, byTask := s.snapshot(candidates, kept)
		session, err := s.open(snap, allocate)
		if err != nil {
			return 0, record.Final(err)
		}
		session.Run()
		binds := session.Close().Binds
		slices.SortFunc(binds, func(a, b scheduler.Bind) int { return cmp.Compare(a.Turn, b.Turn) })
		for _, bind := range binds {
			bound = append(bound, byTask[taskOf(bind)])
		}
	}
	if bound, err = s.toPools(bound); err != nil {
		return 0, err
	}
	for len(bound) > 0 && !s.full() {
		t := bound[0].with
		n := min(len(t.members), len(bound))
		of, full, err := s.admitAll(t, bound[:n])
		admitted += of
		if err != nil || full {
			s.more = s.more || full
			return admitted, err
		}
		bound = bound[n:]
	}
	return admitted, nil
}
