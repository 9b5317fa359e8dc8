package placement

import (
	"cmp"
	"fmt"
	"slices"
)

// Level is how wide a place is that a group is spread over or packed in. A single machine is what a [Rule] is about.
type Level uint8

// The levels.
const (
	ByRack Level = iota // the same Rack of the same Cluster
	ByCluster
)

// String names what machines have in common.
func (l Level) String() string {
	if l == ByCluster {
		return "cluster"
	}
	return "rack"
}

// Group is a rule about places wider than a machine: of the instances of its apps at most Most are in one rack or
// cluster, or, with Most 0, all are in the same one.
type Group struct {
	Apps []int32
	By   Level
	Most int32
}

// Packs says whether a group is to be in one place.
func (g *Group) Packs() bool { return g.Most == 0 }

// validateGroups says whether groups are well formed.
func (p *Problem) validateGroups() error {
	for i, g := range p.Groups {
		if g.By > ByCluster || g.Most < 0 {
			return fmt.Errorf("groups[%d]: level %d, at most %d", i, g.By, g.Most)
		}
		for k, a := range g.Apps {
			if a < 0 || int(a) >= len(p.Apps) || slices.Index(g.Apps, a) != k {
				return fmt.Errorf("groups[%d].apps[%d]: app %d of %d, or named twice", i, k, a, len(p.Apps))
			}
		}
	}
	for i, a := range p.Apps {
		for _, m := range a.Barred {
			if m < 0 || int(m) >= len(p.Machines) {
				return fmt.Errorf("apps[%d] (%s): barred from machine %d of %d", i, a.Name, m, len(p.Machines))
			}
		}
	}
	return nil
}

// places are the groups of a network with how many of each are where. It is nil of a problem that has none.
type places struct {
	groups []Group
	of     [][]int32            // groups of each app
	at     [2][]int32           // place of each machine, by level
	count  [][]int32            // by group and place
	total  []int32              // by group
	target []int32              // by group: the one place where it is to be packed, or none
	barred []map[int32]struct{} // of each app
}

// none is a group's target where it may be anywhere.
const none int32 = -1

func newPlaces(p *Problem) *places {
	bars := slices.ContainsFunc(p.Apps, func(a App) bool { return len(a.Barred) > 0 })
	if len(p.Groups) == 0 && !bars {
		return nil
	}
	x := &places{groups: p.Groups, of: make([][]int32, len(p.Apps)), total: make([]int32, len(p.Groups)),
		barred: make([]map[int32]struct{}, len(p.Apps))}
	for i, a := range p.Apps {
		x.barred[i] = make(map[int32]struct{}, len(a.Barred))
		for _, m := range a.Barred {
			x.barred[i][m] = struct{}{}
		}
	}
	known := [2]map[[2]int]int32{{}, {}}
	for _, m := range p.Machines {
		for level, key := range [2][2]int{{m.Cluster, m.Rack}, {m.Cluster, -1}} {
			at, is := known[level][key]
			if !is {
				at = int32(len(known[level])) //nolint:gosec // machines in memory
				known[level][key] = at
			}
			x.at[level] = append(x.at[level], at)
		}
	}
	for g := range p.Groups {
		for _, a := range p.Groups[g].Apps {
			x.of[a] = append(x.of[a], int32(g)) //nolint:gosec // few
		}
		x.count = append(x.count, make([]int32, len(known[p.Groups[g].By])))
		x.target = append(x.target, none)
	}
	return x
}

// allow says whether one more of an app may be on a machine.
func (x *places) allow(m, app int32) bool {
	if _, is := x.barred[app][m]; is {
		return false
	}
	for _, g := range x.of[app] {
		here := x.at[x.groups[g].By][m]
		switch n := x.count[g][here]; {
		case x.target[g] != none && x.target[g] != here:
			return false
		case x.groups[g].Packs() && n != x.total[g], !x.groups[g].Packs() && n >= x.groups[g].Most:
			return false
		}
	}
	return true
}

// add counts an instance of an app on a machine, or takes it back.
func (x *places) add(m, app, n int32) {
	for _, g := range x.of[app] {
		x.count[g][x.at[x.groups[g].By][m]] += n
		x.total[g] += n
	}
}

// packing places what waits with each group that is packed and has no place yet in the one place where all of it fits
// by the count and which has least room beyond. Where that turns out not to be enough, others are tried, as long as
// there are any; what is placed of the group then comes back.
func (n *Network) packing() {
	tried := make([]map[int32]bool, len(n.places.groups))
	n.aim(tried)
	for {
		n.fill()
		n.augment()
		again := false
		for g := range n.places.groups {
			again = n.retreat(g, tried) || again
		}
		if !again {
			break
		}
		n.aim(tried)
	}
	for g := range n.places.target {
		n.places.target[g] = none
	}
	if n.waits() > 0 { // a part of a group may still have a place
		n.requeue()
		n.fill()
		n.augment()
	}
}

// aim gives each group that is packed and has no place a place to try.
func (n *Network) aim(tried []map[int32]bool) {
	x := n.places
	for g := range x.groups {
		if !x.groups[g].Packs() || x.total[g] > 0 || x.target[g] != none {
			continue
		}
		if tried[g] == nil {
			tried[g] = map[int32]bool{}
		}
		type option struct{ at, room, lacks int32 }
		var options []option
		for at := range x.count[g] {
			o := option{at: int32(at)} //nolint:gosec // machines in memory
			for _, app := range x.groups[g].Apps {
				room := n.roomIn(x.at[x.groups[g].By], o.at, app)
				o.lacks += max(0, int32(len(n.waiting[app]))-room) //nolint:gosec // in memory
				o.room += room
			}
			if !tried[g][o.at] {
				options = append(options, o)
			}
		}
		if len(options) == 0 {
			continue // anywhere: a part of it may still have a place
		}
		best := slices.MinFunc(options, func(a, b option) int {
			return cmp.Or(cmp.Compare(a.lacks, b.lacks), cmp.Compare(a.room, b.room), cmp.Compare(a.at, b.at))
		})
		x.target[g] = best.at
		tried[g][best.at] = true
	}
}

// roomIn is how many more of an app the machines of a place have room for, each for itself.
func (n *Network) roomIn(at []int32, place, app int32) (room int32) {
	for m := range n.on {
		if at[m] != place || !n.fits(int32(m), app) { //nolint:gosec // machines in memory
			continue
		}
		most := n.limits.Self[app] - n.held[m].Get(app)
		for d, x := range n.p.Apps[app].Demand {
			if x > 0 {
				most = int32(min(int64(most), n.freeOf(int32(m))[d]/x)) //nolint:gosec // at most what it was
			}
		}
		room += min(most, int32(len(n.waiting[app]))) //nolint:gosec // in memory
	}
	return room
}

// retreat has a group that is packed where it does not fit whole try another place, if there is one that was not tried:
// what is placed of it waits again. It says so.
func (n *Network) retreat(g int, tried []map[int32]bool) bool {
	x := n.places
	if x.target[g] == none {
		return false
	}
	waits := slices.ContainsFunc(x.groups[g].Apps, func(a int32) bool { return len(n.waiting[a]) > 0 })
	if !waits || len(tried[g]) == len(x.count[g]) {
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
