package session

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Placement rules hold between tasks that have machines at the same time. A plan follows them as far as it has the
// data. A session enforces them: an admission records the location of the task in the same transaction, in the
// records from which it has read the locations of the other tasks. So if two sessions admit conflicting tasks, one of
// them decides again. If the planned location of a task would violate a rule, the task is replanned if the conflict
// is newer than the plan. Otherwise it waits.

// locationItems is the maximum number of location records that an admission writes: one for its job, four for labels.
const locationItems = 5

// clash is the placement rule that a task's planned location violates.
type clash struct {
	text  string
	since time.Time // when the newest conflicting task came
}

// clashReplan is the time for which a task waits for conflicting tasks to leave before it is replanned. By then,
// another location may be free.
const clashReplan = 15 * time.Minute

// verdict is the decision on a task whose planned location conflicts.
func (c *clash) verdict(plan *record.Plan, now time.Time) verdict {
	if c.since.After(plan.At) || now.Sub(plan.At) > clashReplan {
		return verdictReplan
	}
	return verdictSkip
}

// isRuled reports whether a placement rule applies to the task.
func (a *admission) isRuled() bool {
	return a.ruled && record.IsRuled(&a.spec.Tasks[a.waiting.Task], a.groups, a.waiting.Task)
}

// spots returns the locations of the task's machines: in its pool, or as planned.
func (a *admission) spots() []record.Spot {
	if a.pool != nil {
		return a.pool.spots
	}
	return []record.Spot{record.SpotOf(a.plan.Of(a.waiting.Task).Offer, a.nodes)}
}

// clashPlanned returns the rule that the task's planned location violates, or nil.
func (s *Session) clashPlanned(a *admission) (*clash, error) {
	if !a.isRuled() || a.plan == nil || a.plan.Of(a.waiting.Task) == nil || a.task.State != record.TaskQueued {
		return nil, nil
	}
	return s.clashOf(a, a.spots(), nil)
}

// clashOf returns the rule that the task would violate at the given spots, or nil. It considers the recorded
// locations of all tasks and, in addition, those in more.
func (s *Session) clashOf(a *admission, spots []record.Spot, more []record.Placed) (*clash, error) {
	t := &a.spec.Tasks[a.waiting.Task]
	keys := record.LabelStandsKeys(t)
	others, clusters, err := recordcache.Others(s.u, a.job.ID, keys)
	if err != nil {
		return nil, err
	}
	for _, key := range append(keys, record.StandsKey(a.job.ID)) {
		if s.u.Size(key) > record.MaxStandsBytes {
			return &clash{text: "too many tasks have labels or placement rules"}, nil
		}
	}
	own := func(p record.Placed) bool { return p.Job == a.job.ID && p.Task == a.waiting.Task }
	var there []record.Placed
	var ids []string
	for i, p := range others {
		if !own(p) { // an earlier attempt of the same task, which has finished or nearly finished
			there, ids = append(there, p), append(ids, clusters[i])
		}
	}
	for _, p := range more {
		there, ids = append(there, p), append(ids, "")
	}
	mine := record.LocationOf(t, spots, s.u.Now)
	for {
		found := record.Clashes(a.groups, a.job.ID, a.waiting.Task, mine, there)
		if len(found) == 0 {
			return nil, nil
		}
		gone, err := s.released(ids, found)
		if err != nil {
			return nil, err
		}
		if len(gone) == 0 {
			c := &clash{text: found[0].Explain(a.spec, a.job.ID, there)}
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

// released returns the indexes of the conflicting tasks that have released their machines, in ascending order.
func (s *Session) released(ids []string, clashes []record.Clash) (gone []int, err error) {
	var asked []int
	var clusters []string
	for _, c := range clashes {
		for _, i := range c.With {
			if ids[i] != "" && !slices.Contains(asked, i) {
				asked, clusters = append(asked, i), append(clusters, ids[i])
			}
		}
	}
	standing, err := recordcache.Occupying(s.u, clusters)
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

// clashWithin finds members of a gang whose planned locations conflict with each other, and records the clash. The
// plan found no better locations when it was made.
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
		// They have the same plan, so none of them is newer than it. Their time is zero.
		placed = append(placed, record.Placed{Job: a.job.ID, Task: a.waiting.Task,
			Location: record.LocationOf(&a.spec.Tasks[a.waiting.Task], a.spots(), time.Time{})})
	}
	return nil
}

// fitsRules reports whether tasks may be admitted together at their locations, given each other and the tasks that
// were admitted since they were examined. Tasks that must not use their pool leave it, and machines are bought for
// them as planned.
func (s *Session) fitsRules(bound []*admission) (bool, error) {
	fits, err := s.fitBeside(bound)
	if err != nil || fits {
		return fits, err
	}
	// A task whose machine is bought may conflict with another task's pool, for example if both must be in one
	// region. Their planned locations do not conflict.
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

// fitBeside reports whether tasks may be admitted where they are placed, one after the other. A task leaves its pool
// if it must not be there but may be at its planned location.
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
			Location: record.LocationOf(&a.spec.Tasks[a.waiting.Task], a.spots(), s.u.Now)})
	}
	return true, nil
}

// recordLocation records the location of an admitted task, for the placement rules that apply to it. The attempt must
// have its number.
func (s *Session) recordLocation(d *record.Decision, a *admission) error {
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
		known, _, err := recordcache.Get[record.Locations](s.u, key)
		if err != nil {
			return err
		}
		if err := s.forget(&known, a); err != nil {
			return err
		}
		if known.At == nil {
			known.At = map[string]record.Location{}
		}
		known.At[id] = record.LocationOf(t, a.spots(), s.u.Now)
		d.Put(key, known)
	}
	return nil
}

// When a location is recorded, old locations are removed: those of earlier attempts of the same task at once, and
// some of those older than standsLong, if their clusters have finished.
const (
	standsLong = time.Hour
	standsOld  = 8
)

func (s *Session) forget(known *record.Locations, a *admission) error {
	placed, ids := known.PlacedAt()
	var old []string
	for i, p := range placed {
		own := p.Job == a.job.ID && p.Task == a.waiting.Task
		switch {
		case own && a.task.Service == "":
			delete(known.At, ids[i])
		case own, s.u.Now.Sub(p.Since) > standsLong && len(old) < standsOld:
			old = append(old, ids[i]) // the earlier attempt of a service's replica may still run
		}
	}
	standing, err := recordcache.Occupying(s.u, old)
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
