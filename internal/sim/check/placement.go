package check

import (
	"slices"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// For placement rules, when a task is admitted:
const (
	// InvPlaced: no two attempts hold machines against a placement rule: spread tasks are spread, packed tasks are
	// packed, and tasks that keep apart from a label are not near tasks with that label.
	InvPlaced = "placement rules hold"
)

// place is the location of one machine of an attempt. Unknown parts are empty.
type place struct{ region, zone, rack, machine string }

// placesOf returns the places of an attempt's machines, by its offer and the labels of pool machines.
func (c *Checker) placesOf(a apitypes.Attempt) (at []place) {
	if !a.Assigned() {
		for range a.Nodes {
			at = append(at, place{region: a.Offer.Cloud + ":" + a.Offer.Region, zone: a.Offer.Zone})
		}
		return at
	}
	pool := a.Offer.Region
	for _, host := range a.Hosts {
		p := place{region: a.Place, zone: "pool/" + pool, machine: pool + "/" + host}
		if p.region == "" {
			p.region = "pool:" + pool
		}
		labels := c.labels[pool+"/"+host]
		if labels["zone"] != "" {
			p.zone = labels["zone"]
		}
		p.rack = labels["rack"]
		at = append(at, p)
	}
	return at
}

// same reports whether two machines are in the same place at a level, and whether that is known.
func (p place) same(o place, level dag.Level) (same, known bool) {
	region, zone := p.region == o.region, p.region == o.region && p.zone == o.zone
	switch level {
	case dag.LevelRegion:
		return region, true
	case dag.LevelZone:
		return zone, true
	case dag.LevelRack:
		if !zone {
			return false, true
		}
		return p.rack == o.rack, p.rack != "" && o.rack != ""
	case dag.LevelMachine:
		if p.machine == "" || o.machine == "" {
			return false, true // cloud machines are always different ones
		}
		return p.machine == o.machine, true
	}
	return false, false
}

// checkPlaced checks an admitted attempt against all that hold machines.
func (c *Checker) checkPlaced(s *Job, a apitypes.Attempt) {
	if s.user == nil {
		return
	}
	spec := s.user.Spec
	mine := c.placesOf(a)
	c.checkGroups(s, a, mine)
	t := &spec.Tasks[a.Task]
	for _, o := range c.order {
		if o == s || o.user == nil || !record.IsPlaced(o.user.Spec) {
			continue
		}
		for _, other := range o.order {
			if other.Outcome != "" {
				continue
			}
			there := c.placesOf(other.Attempt)
			of := &o.user.Spec.Tasks[other.Task]
			for _, rule := range against(t, of) {
				c.Count("apart from another")
				if meet(mine, there, rule.Level()) {
					c.Violatef(InvPlaced, "%s is admitted to %v near %s/%s at %v, against %s", describeAttempt(s,
						a), mine,
						o.ID, of.Name, there, rule)
				}
			}
		}
	}
}

func describeAttempt(s *Job, a apitypes.Attempt) string {
	return s.ID + "/" + s.user.Spec.Tasks[a.Task].Name
}

// against returns the rules by which one of two tasks of different jobs must be kept apart from the other.
func against(a, b *dag.Task) (rules []*dag.Placement) {
	add := func(a, b *dag.Task) {
		for i := range a.Placement {
			for k, v := range a.Placement[i].Apart {
				if b.Labels[k] == v {
					rules = append(rules, &a.Placement[i])
				}
			}
		}
	}
	add(a, b)
	add(b, a)
	return rules
}

// meet reports whether machines of two attempts are known to be in the same place.
func meet(a, b []place, level dag.Level) bool {
	return slices.ContainsFunc(a, func(x place) bool {
		return slices.ContainsFunc(b, func(y place) bool {
			same, known := x.same(y, level)
			return same && known
		})
	})
}

// checkGroups checks a job's spread and pack rules with the new attempt.
func (c *Checker) checkGroups(s *Job, a apitypes.Attempt, mine []place) {
	for _, g := range s.user.Spec.Groups() {
		if !g.Has(a.Task) {
			continue
		}
		all := slices.Clone(mine)
		for _, o := range s.order {
			if o.task != a.Task && o.Outcome == "" && g.Has(o.task) {
				all = append(all, c.placesOf(o.Attempt)...)
			}
		}
		c.Count("spread or packed")
		for i, x := range all {
			if s.serves(a.Task) && i == len(mine) {
				// other attempts may include two of one task, one of which is about to end; they were checked before
				break
			}
			together := 0
			for _, y := range all {
				same, known := x.same(y, g.Level())
				if g.Pack != "" && !same && known {
					c.Violatef(InvPlaced, "%s is admitted to %v, against %s: all are at %v", describeAttempt(s, a),
						mine, g, all)
					return
				}
				if same && known {
					together++
				}
			}
			if x.machine == "" && g.Level() == dag.LevelMachine {
				together = 0
			}
			if g.Spread != "" && together > g.MaxPerPlace() {
				c.Violatef(InvPlaced, "%s is admitted to %v, against %s: %d of %v", describeAttempt(s, a), mine, g,
					together,
					all)
				return
			}
		}
	}
}
