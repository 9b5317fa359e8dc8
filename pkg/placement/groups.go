package placement

import (
	"cmp"
	"fmt"
	"slices"
)

// Level is the kind of place over which a group is spread or in which it is packed. For single machines use a [Rule].
type Level uint8

// The levels.
const (
	ByRack Level = iota // the same Rack of the same Cluster
	ByCluster
)

// String returns the name of the level.
func (l Level) String() string {
	if l == ByCluster {
		return "cluster"
	}
	return "rack"
}

// Group is a rule about places larger than a machine: each rack or cluster holds at most Max instances of its apps.
// If Max is 0, all instances must be in the same rack or cluster.
type Group struct {
	Apps []int32
	By   Level
	Max  int32
}

// Packs reports whether all instances of the group must be in one place.
func (g *Group) Packs() bool { return g.Max == 0 }

// validateGroups checks that groups and barred machines are well formed.
func (p *Problem) validateGroups() error {
	for i, g := range p.Groups {
		if g.By > ByCluster || g.Max < 0 {
			return fmt.Errorf("groups[%d]: level %d does not exist, or the maximum %d is below 0", i, g.By, g.Max)
		}
		for k, a := range g.Apps {
			if a < 0 || int(a) >= len(p.Apps) || slices.Index(g.Apps, a) != k {
				return fmt.Errorf("groups[%d].apps[%d]: app %d is listed twice or does not exist "+
					"(there are %d, numbered from 0)",
					i, k, a, len(p.Apps))
			}
		}
	}
	for i, a := range p.Apps {
		for _, m := range a.Barred {
			if m < 0 || int(m) >= len(p.Machines) {
				return fmt.Errorf("apps[%d] (%s): barred from machine %d, which does not exist "+
					"(there are %d, numbered from 0)",
					i, a.Name, m, len(p.Machines))
			}
		}
	}
	return nil
}

// places counts the instances of each group by place. It is nil if the problem has no groups or barred machines.
type places struct {
	groups   []Group
	groupsOf [][]int32            // groups of each app
	at       [2][]int32           // place of each machine, by level
	in       [2][][]int32         // machines of each place, by level
	count    [][]int32            // by group and place
	total    []int32              // by group
	target   []int32              // by group: the place in which to pack it, or none
	barred   []map[int32]struct{} // of each app
}

// none is the target of a group that may be anywhere.
const none int32 = -1

func newPlaces(p *Problem) *places {
	bars := slices.ContainsFunc(p.Apps, func(a App) bool { return len(a.Barred) > 0 })
	if len(p.Groups) == 0 && !bars {
		return nil
	}
	x := &places{groups: p.Groups, groupsOf: make([][]int32, len(p.Apps)), total: make([]int32, len(p.Groups)),
		barred: make([]map[int32]struct{}, len(p.Apps))}
	for i, a := range p.Apps {
		x.barred[i] = make(map[int32]struct{}, len(a.Barred))
		for _, m := range a.Barred {
			x.barred[i][m] = struct{}{}
		}
	}
	known := [2]map[[2]int]int32{{}, {}}
	for m, machine := range p.Machines {
		for level, key := range [2][2]int{{machine.Cluster, machine.Rack}, {machine.Cluster, -1}} {
			at, is := known[level][key]
			if !is {
				at = int32(len(known[level])) //nolint:gosec // machines in memory
				known[level][key] = at
				x.in[level] = append(x.in[level], nil)
			}
			x.at[level] = append(x.at[level], at)
			x.in[level][at] = append(x.in[level][at], int32(m)) //nolint:gosec // machines in memory
		}
	}
	for g := range p.Groups {
		for _, a := range p.Groups[g].Apps {
			x.groupsOf[a] = append(x.groupsOf[a], int32(g)) //nolint:gosec // few
		}
		x.count = append(x.count, make([]int32, len(known[p.Groups[g].By])))
		x.target = append(x.target, none)
	}
	return x
}

// allows reports whether barred machines and groups allow one more instance of an app on a machine.
func (x *places) allows(m, app int32) bool {
	if _, is := x.barred[app][m]; is {
		return false
	}
	for _, g := range x.groupsOf[app] {
		here := x.at[x.groups[g].By][m]
		switch n := x.count[g][here]; {
		case x.target[g] != none && x.target[g] != here:
			return false
		case x.groups[g].Packs() && n != x.total[g], !x.groups[g].Packs() && n >= x.groups[g].Max:
			return false
		}
	}
	return true
}

// add changes the count of an app on a machine by n, which may be negative.
func (x *places) add(m, app, n int32) {
	for _, g := range x.groupsOf[app] {
		x.count[g][x.at[x.groups[g].By][m]] += n
		x.total[g] += n
	}
}

// packing places the waiting instances. For each group that must be packed and has no place yet, it first chooses a
// place to try (see aim). If the group does not fit there after all, it removes the instances that it placed and tries
// the next place, until no untried place has enough room. Then it places as much of the group as fits into one place.
func (n *Network) packing() {
	searches := make([]search, len(n.places.groups))
	n.aim(searches)
	for {
		n.fill()
		n.augment()
		again := false
		for g := range n.places.groups {
			again = n.retryPlace(g, &searches[g]) || again
		}
		if !again {
			break
		}
		n.aim(searches)
	}
	for g := range n.places.target {
		n.places.target[g] = none
	}
	if n.waits() > 0 { // a part of a group may still fit somewhere
		n.requeue()
		n.fill()
		n.augment()
	}
}

// search records the places that were tried for a packed group. If none is left, a last attempt places only a part of
// the group.
type search struct {
	tried []bool
	left  int // places not yet tried
	last  bool
}

// aim chooses a place to try for each packed group without a place. Among the places that were not tried and could hold
// the whole group, it takes the one that lacks the least room now; if several lack the same, the smallest of them. If
// every place was tried, it takes the one that lacks the least, for a part of the group.
func (n *Network) aim(searches []search) {
	x := n.places
	for g := range x.groups {
		if !x.groups[g].Packs() || x.total[g] > 0 || x.target[g] != none || len(x.count[g]) == 0 {
			continue
		}
		s := &searches[g]
		if s.tried == nil {
			*s = n.search(g)
		}
		s.last = s.left == 0
		type option struct{ at, room, lacks int32 }
		var options []option
		for at, machines := range x.in[x.groups[g].By] {
			if s.tried[at] && !s.last {
				continue
			}
			o := option{at: int32(at)} //nolint:gosec // machines in memory
			for _, app := range x.groups[g].Apps {
				room := n.roomOn(machines, app, n.room)
				o.lacks += max(0, int32(len(n.waiting[app]))-room) //nolint:gosec // in memory
				o.room += room
			}
			options = append(options, o)
		}
		best := slices.MinFunc(options, func(a, b option) int {
			return cmp.Or(cmp.Compare(a.lacks, b.lacks), cmp.Compare(a.room, b.room), cmp.Compare(a.at, b.at))
		})
		x.target[g] = best.at
		if !s.last {
			s.tried[best.at] = true
			s.left--
		}
	}
}

// search starts the search of a place for a group. Places that could not hold the group even if they were empty count
// as tried.
func (n *Network) search(g int) search {
	x := n.places
	s := search{tried: make([]bool, len(x.count[g]))}
	for at, machines := range x.in[x.groups[g].By] {
		s.tried[at] = slices.ContainsFunc(x.groups[g].Apps, func(app int32) bool {
			return n.roomOn(machines, app, n.emptied) < int32(len(n.waiting[app])) //nolint:gosec // in memory
		})
		if !s.tried[at] {
			s.left++
		}
	}
	return s
}

// roomOn returns how many instances of an app fit on the machines. Each machine counts at most the number that waits.
func (n *Network) roomOn(machines []int32, app int32, of func(m, app int32) int32) (room int32) {
	for _, m := range machines {
		room += min(of(m, app), int32(len(n.waiting[app]))) //nolint:gosec // in memory
	}
	return room
}

// room returns how many more instances of an app fit on a machine now.
func (n *Network) room(m, app int32) int32 {
	if !n.fits(m, app) {
		return 0
	}
	return n.most(n.limits.Self[app]-n.held[m].Get(app), app, n.freeOf(m))
}

// emptied returns how many instances of an app would fit on a machine if it were empty.
func (n *Network) emptied(m, app int32) int32 {
	if _, is := n.places.barred[app][m]; is {
		return 0
	}
	return n.most(n.limits.Self[app], app, n.p.Shapes[n.p.Machines[m].Shape].Capacity)
}

// most returns how many instances of an app fit into a capacity, at most limit.
func (n *Network) most(limit, app int32, capacity []int64) int32 {
	for d, x := range n.p.Apps[app].Demand {
		if x > 0 {
			limit = int32(min(int64(limit), capacity[d]/x)) //nolint:gosec // at most the old limit
		}
	}
	return limit
}

// retryPlace removes the placed instances of a packed group that does not fit into its target, so that the next place
// can be tried. It returns false if the group is complete or no place is left to try.
func (n *Network) retryPlace(g int, s *search) bool {
	x := n.places
	waits := func(a int32) bool { return len(n.waiting[a]) > 0 }
	if x.target[g] == none || s.last || !slices.ContainsFunc(x.groups[g].Apps, waits) {
		return false
	}
	for i, m := range n.at {
		if app := n.p.Instances[i].App; m != Unplaced && slices.Contains(x.groups[g].Apps, app) {
			n.take(int32(i)) //nolint:gosec // rows in memory
		}
	}
	x.target[g] = none
	n.requeue()
	return true
}
