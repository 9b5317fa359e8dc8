package placement

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// maxMixing limits the cost of filling machines one by one, in compared amounts. Above it, for example if every app has
// a different demand, machines are filled only app by app.
const maxMixing = 20_000_000

// mixing fills machines one after another. Each step places the demand after which the machine has the least room
// left, where each point is weighted by how much of it all waiting instances need together (the norm of Panigrahy et
// al., Heuristics for Vector Bin Packing, 2011, §4). So scarce resources are used up, and each machine resembles the
// average of the waiting demands.
//
// Apps with the same demand form one kind, so that the cost of a machine depends on the number of kinds, not apps.
// This is the paper's isomorphism limiting, which it applies to the instances of an app. Within a kind, apps that
// limit their instances on a machine come first, those with the most waiting instances before others, because they
// need the most machines.
type mixing struct {
	n     *Network
	waits int // instances
	kinds []kind
	of    []int32   // kind of each app
	place []int32   // index of each app in its kind's apps
	need  []float64 // total demand of the waiting instances, in parts of the largest machine
	scale []float64 // factors that convert to parts of the largest machine

	open []int32   // kinds that may still fit the machine being filled
	next []int     // for each kind: apps before this one are on the machine's blacklist
	free []float64 // free capacity of the machine, in parts
}

// kind is a set of apps with the same demand.
type kind struct {
	demand []int64
	parts  []float64 // the same in parts of the largest machine
	left   int       // waiting instances
	apps   []int32   // by rank, the highest first
	last   []int32   // by rank: the last app with that rank
}

// mixing prepares the waiting instances. It returns nil if there are too many kinds.
func (n *Network) mixing() *mixing {
	x := &mixing{n: n, of: make([]int32, len(n.p.Apps)), place: make([]int32, len(n.p.Apps)),
		need: make([]float64, n.dims), free: make([]float64, n.dims), scale: n.typical(), waits: n.waits()}
	at := map[string]int32{}
	var key []byte
	for a := range n.p.Apps {
		if len(n.waiting[a]) == 0 {
			continue
		}
		key = key[:0]
		for _, v := range n.p.Apps[a].Demand {
			key = binary.LittleEndian.AppendUint64(key, uint64(v)) //nolint:gosec // a key
		}
		k, known := at[string(key)]
		if !known {
			k = int32(len(x.kinds)) //nolint:gosec // at most as many as apps
			if at[string(key)] = k; (len(x.kinds)+1)*n.dims*x.waits > maxMixing {
				return nil
			}
			x.kinds = append(x.kinds, x.kindOf(int32(a))) //nolint:gosec // apps in memory
		}
		x.add(k, int32(a)) //nolint:gosec // apps in memory
	}
	for k := range x.kinds {
		x.sort(&x.kinds[k])
	}
	x.next = make([]int, len(x.kinds))
	return x
}

func (x *mixing) kindOf(app int32) kind {
	k := kind{demand: x.n.p.Apps[app].Demand, parts: make([]float64, x.n.dims)}
	for d, v := range k.demand {
		k.parts[d] = float64(v) * x.scale[d]
	}
	return k
}

func (x *mixing) add(kind, app int32) {
	k, waits := &x.kinds[kind], len(x.n.waiting[app])
	x.of[app] = kind
	k.apps = append(k.apps, app)
	k.left += waits
	for d, v := range k.parts {
		x.need[d] += v * float64(waits)
	}
}

func (x *mixing) sort(k *kind) {
	slices.SortStableFunc(k.apps, func(a, b int32) int { return cmp.Compare(x.rank(b), x.rank(a)) })
	k.last = make([]int32, x.rank(k.apps[0])+1)
	for i, a := range k.apps {
		x.place[a] = int32(i)        //nolint:gosec // apps in memory
		k.last[x.rank(a)] = int32(i) //nolint:gosec // apps in memory
	}
}

// rank returns an app's rank in its kind: the number of its waiting instances, or at most 1 if its instances may
// share machines.
func (x *mixing) rank(app int32) int {
	waits := len(x.n.waiting[app])
	if x.n.limits.Self[app] == NoLimit {
		return min(waits, 1)
	}
	return waits
}

// take places one instance of an app on a machine and moves the app to its new position in its kind: behind the last
// app of its new rank.
func (x *mixing) take(app, m int32) {
	n, k := x.n, &x.kinds[x.of[app]]
	before := x.rank(app)
	n.put(n.waiting[app][0], m)
	n.waiting[app] = n.waiting[app][1:]
	k.left--
	x.waits--
	for d, v := range k.parts {
		x.need[d] -= v
	}
	if x.rank(app) == before {
		return
	}
	at, end := x.place[app], k.last[before]
	other := k.apps[end]
	k.apps[at], k.apps[end] = other, app
	x.place[other], x.place[app] = at, end
	k.last[before]--
	k.last[before-1] = max(k.last[before-1], end)
}

// fill fills a machine.
func (x *mixing) fill(m int32) {
	clear(x.next)
	x.open = x.open[:0]
	for k := range x.kinds {
		if x.kinds[k].left > 0 {
			x.open = append(x.open, int32(k)) //nolint:gosec // few
		}
	}
	for k := x.best(m); k >= 0; k = x.best(m) {
		if app := x.allowed(k, m); app >= 0 {
			x.take(app, m)
			continue
		}
		x.open = slices.DeleteFunc(x.open, func(o int32) bool { return o == k })
	}
}

// best returns the kind after which the machine has the least room left, or −1 if none fits.
func (x *mixing) best(m int32) int32 {
	left := x.n.freeOf(m)
	for d, v := range left {
		x.free[d] = float64(v) * x.scale[d]
	}
	best, most := int32(-1), 0.0
	kept := x.open[:0]
	for _, i := range x.open {
		k := &x.kinds[i]
		if k.left == 0 || !within(k.demand, left) {
			continue // it will not fit later either
		}
		kept = append(kept, i)
		gain := 0.0 // reduction of the squares: free² − (free − parts)²
		for d, v := range k.parts {
			gain += x.need[d] * v * (2*x.free[d] - v)
		}
		if best < 0 || gain > most {
			best, most = i, gain
		}
	}
	x.open = kept
	return best
}

// allowed returns the first app of a kind that waits and is not on the machine's blacklist, or −1. While a machine is
// filled, its blacklist only grows.
func (x *mixing) allowed(kind, m int32) int32 {
	k := &x.kinds[kind]
	for ; x.next[kind] < len(k.apps); x.next[kind]++ {
		app := k.apps[x.next[kind]]
		if len(x.n.waiting[app]) == 0 {
			break // the apps behind it do not wait either
		}
		if x.n.allows(m, app) {
			return app
		}
	}
	return -1
}

// mix fills machines one after another, in the order of their numbers. It reports whether all waiting instances are
// placed.
func (n *Network) mix() bool {
	x := n.mixing()
	if x == nil {
		return false
	}
	for m := 0; m < len(n.on) && x.waits > 0; m++ {
		x.fill(int32(m)) //nolint:gosec // machines in memory
	}
	return x.waits == 0
}

// used returns the number of machines with instances.
func (n *Network) used() (machines int) {
	for _, on := range n.on {
		if len(on) > 0 {
			machines++
		}
	}
	return machines
}
