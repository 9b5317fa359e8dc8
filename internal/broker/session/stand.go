package session

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Rules of placement hold between what stands at the same time. A plan keeps to them as far as it knows; a session sees
// to it that they hold. It notes where it has admitted a task to in the same transaction, in records that it has read
// what stands there from, so that of two sessions that admit one each one decides anew. A task that would be against a
// rule where it is planned is planned anew if the plan could not know of what is in the way, and waits else.

// standItems is how many records of standings an admission writes at most, with its gang: those of labels are four.
const standItems = 5

// clash is what keeps a task from where it is planned.
type clash struct {
	text  string
	since time.Time // when what is in the way last came
}

// clashReplan is after how long a task that waits for others to go is planned anew: there may be another place by then.
const clashReplan = 15 * time.Minute

// verdict is what becomes of a task whose place is taken.
func (c *clash) verdict(plan *record.Plan, now time.Time) verdict {
	if c.since.After(plan.At) || now.Sub(plan.At) > clashReplan {
		return verdictReplan
	}
	return verdictSkip
}

// isRuled says whether rules of placement know of a task.
func (a *admission) isRuled() bool {
	return a.ruled && record.IsRuled(&a.spec.Tasks[a.waiting.Task], a.groups, a.waiting.Task)
}

// spots are where a task's machines would stand: in the pool that it is placed in, or where it is planned.
func (a *admission) spots() []record.Spot {
	if a.pool != nil {
		return a.pool.spots
	}
	return []record.Spot{record.SpotOf(a.plan.Of(a.waiting.Task).Offer, a.nodes)}
}

// clashPlanned is what keeps a task from where it is planned; nil where nothing does.
func (s *Session) clashPlanned(a *admission) (*clash, error) {
	if !a.isRuled() || a.plan == nil || a.plan.Of(a.waiting.Task) == nil || a.task.State != record.TaskQueued {
		return nil, nil
	}
	return s.clashOf(a, a.spots(), nil)
}

// clashOf is what keeps a task from some spots, beside those that stand somewhere and more that are about to.
func (s *Session) clashOf(a *admission, spots []record.Spot, more []record.Placed) (*clash, error) {
	t := &a.spec.Tasks[a.waiting.Task]
	keys := record.LabelStandsKeys(t)
	others, clusters, err := recordcache.Others(s.u, a.job.ID, keys)
	if err != nil {
		return nil, err
	}
	for _, key := range append(keys, record.StandsKey(a.job.ID)) {
		if s.u.Size(key) > record.MaxStandsBytes {
			return &clash{text: "more tasks have labels, or rules of placement, than can be known at once"}, nil
		}
	}
	own := func(p record.Placed) bool { return p.Job == a.job.ID && p.Task == a.waiting.Task }
	var there []record.Placed
	var ids []string
	for i, p := range others {
		if !own(p) { // an earlier attempt of its own is over, or all but
			there, ids = append(there, p), append(ids, clusters[i])
		}
	}
	for _, p := range more {
		there, ids = append(there, p), append(ids, "")
	}
	mine := record.StandOf(t, spots, s.u.Now)
	for {
		found := record.Clashes(a.groups, a.job.ID, a.waiting.Task, mine, there)
		if len(found) == 0 {
			return nil, nil
		}
		gone, err := s.gone(ids, found)
		if err != nil {
			return nil, err
		}
		if len(gone) == 0 {
			c := &clash{text: found[0].Tell(a.spec, a.job.ID, there)}
			for _, f := range found {
				for _, i := range f.With {
					if there[i].Since.After(c.since) {
						c.since = there[i].Since
					}
				}
			}
			return c, nil
		}
		for _, i := range slices.Backward(gone) {
			there, ids = slices.Delete(there, i, i+1), slices.Delete(ids, i, i+1)
		}
	}
}

// gone are those that stand in the way no longer, in order.
func (s *Session) gone(ids []string, clashes []record.Clash) (gone []int, err error) {
	var asked []int
	var clusters []string
	for _, c := range clashes {
		for _, i := range c.With {
			if ids[i] != "" && !slices.Contains(asked, i) {
				asked, clusters = append(asked, i), append(clusters, ids[i])
			}
		}
	}
	standing, err := recordcache.Standing(s.u, clusters)
	if err != nil {
		return nil, err
	}
	for k, i := range asked {
		if !standing[k] {
			gone = append(gone, i)
		}
	}
	slices.Sort(gone)
	return gone, nil
}

// clashWithin notes of tasks that go together which would be in each other's way where they are planned: the plan could
// do no better then.
func (s *Session) clashWithin(t *together) error {
	var placed []record.Placed
	for _, a := range t.members {
		if !a.isRuled() || a.plan == nil || a.plan.Of(a.waiting.Task) == nil {
			continue
		}
		if a.clash == nil {
			c, err := s.clashOf(a, a.spots(), placed)
			if err != nil {
				return err
			}
			a.clash = c
		}
		// They came with the plan itself: nothing has come since that it did not know.
		placed = append(placed, record.Placed{Job: a.job.ID, Task: a.waiting.Task,
			Stand: record.StandOf(&a.spec.Tasks[a.waiting.Task], a.spots(), time.Time{})})
	}
	return nil
}

// standsFree says whether tasks that go together may be admitted to where they are placed, beside each other and what
// was admitted since they were looked at. Those that may not be in pools are bought as planned.
func (s *Session) standsFree(bound []*admission) (bool, error) {
	fits, err := s.fitBeside(bound)
	if err != nil || fits {
		return fits, err
	}
	// One that is bought may be in the way of another's pool, as where they are to be in one region. They were planned
	// beside each other.
	inPools := false
	for _, a := range bound {
		if a.pool != nil && a.isRuled() {
			a.pool, inPools = nil, true
		}
	}
	if !inPools {
		return false, nil
	}
	return s.fitBeside(bound)
}

// fitBeside says whether tasks may be admitted to where they are placed, one after the other. One that may not be in
// its pool, but where it is planned, leaves the pool.
func (s *Session) fitBeside(bound []*admission) (bool, error) {
	var placed []record.Placed
	for _, a := range bound {
		if !a.isRuled() {
			continue
		}
		c, err := s.clashOf(a, a.spots(), placed)
		if err == nil && c != nil && a.pool != nil {
			a.pool = nil
			c, err = s.clashOf(a, a.spots(), placed)
		}
		if err != nil || c != nil {
			return false, err
		}
		placed = append(placed, record.Placed{Job: a.job.ID, Task: a.waiting.Task,
			Stand: record.StandOf(&a.spec.Tasks[a.waiting.Task], a.spots(), s.u.Now)})
	}
	return true, nil
}

// stand notes where a task is admitted to, for rules that know of it. Called once its attempt has its number.
func (s *Session) stand(d *record.Decision, a *admission) error {
	if !a.isRuled() {
		return nil
	}
	t := &a.spec.Tasks[a.waiting.Task]
	id := record.ClusterID(a.job.ID, a.waiting.Task, a.task.Attempt)
	keys := record.LabelStandsKeys(t)
	grouped := func(g dag.PlacementGroup) bool { return g.Has(a.waiting.Task) }
	if slices.ContainsFunc(a.groups, grouped) {
		keys = append(keys, record.StandsKey(a.job.ID))
	}
	for _, key := range keys {
		known, _, err := recordcache.Get[record.Standings](s.u, key)
		if err != nil {
			return err
		}
		if err := s.forget(&known, a); err != nil {
			return err
		}
		if known.At == nil {
			known.At = map[string]record.Stand{}
		}
		known.At[id] = record.StandOf(t, a.spots(), s.u.Now)
		d.Put(key, known)
	}
	return nil
}

// Standings are cleared of who is gone as others come: of earlier attempts of the same task at once, and of some that
// came long ago where they are over.
const (
	standsLong = time.Hour
	standsOld  = 8
)

func (s *Session) forget(known *record.Standings, a *admission) error {
	placed, ids := known.PlacedAt()
	var old []string
	for i, p := range placed {
		own := p.Job == a.job.ID && p.Task == a.waiting.Task
		switch {
		case own && a.task.Service == "":
			delete(known.At, ids[i])
		case own, s.u.Now.Sub(p.Since) > standsLong && len(old) < standsOld:
			old = append(old, ids[i]) // of a replica of a service the one before may still run
		}
	}
	standing, err := recordcache.Standing(s.u, old)
	if err != nil {
		return err
	}
	for i, id := range old {
		if !standing[i] {
			delete(known.At, id)
		}
	}
	return nil
}
