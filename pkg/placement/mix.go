package placement

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// mixMost bounds what filling machines one by one may cost, in amounts that are compared. Beyond it, as where every app
// asks for something else, machines are filled app by app alone.
const mixMost = 20_000_000

// mixing fills machines one after the other, each with what suits what is left of it: of the demands that fit, the one
// after which the machine has least left, each point counted by how much of it all that waits needs together (the norm
// of Panigrahy et al., Heuristics for Vector Bin Packing, 2011, §4). What is scarce is used up and of the rest no more
// than has to be: machines look like the average of what waits.
//
// Apps that ask for the same are one kind, so that a machine costs the kinds and not the apps: what the paper's
// isomorphism limiting does for the instances of an app. Within a kind the app with most instances is first that must
// keep them apart, as it needs the most machines.
type mixing struct {
	n     *Network
	waits int // instances
	kinds []kind
	of    []int32   // the kind of each app
	place []int32   // of each app in its kind's apps
	need  []float64 // what all that waits needs, in parts of the largest machine
	scale []float64 // one part of the largest machine

	open []int32   // kinds that may fit a machine, while it is filled
	next []int     // of each kind: apps before this one are on the machine's blacklist
	free []float64 // what is left of the machine, in parts
}

// kind is the apps that ask for the same.
type kind struct {
	demand []int64
	parts  []float64 // the same in parts of the largest machine
	left   int       // instances that wait
	apps   []int32   // by rank, the highest first
	last   []int32   // by rank: the last app that has it
}

// mixing looks at what waits. It is nil where that is nothing, or of too many kinds.
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
			if at[string(key)] = k; (len(x.kinds)+1)*n.dims*x.waits > mixMost {
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

// rank is how early an app comes in its kind: by how many of it wait, and last where they may be together.
func (x *mixing) rank(app int32) int {
	waits := len(x.n.waiting[app])
	if x.n.limits.Self[app] == NoLimit {
		return min(waits, 1)
	}
	return waits
}

// take puts one of an app on a machine and moves the app to where it is in its kind now: behind the last of its rank.
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

// best finds the kind after which the machine has least left, −1 where none fits.
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
			continue // nor will it after more is taken
		}
		kept = append(kept, i)
		gain := 0.0 // of the squares: free² − (free − parts)²
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

// allowed finds the first app of a kind that waits and is not on the machine's blacklist, −1 where there is none. As a
// machine is filled its blacklist only grows.
func (x *mixing) allowed(kind, m int32) int32 {
	k := &x.kinds[kind]
	for ; x.next[kind] < len(k.apps); x.next[kind]++ {
		app := k.apps[x.next[kind]]
		if len(x.n.waiting[app]) == 0 {
			break // nor do those behind it
		}
		if x.n.allows(m, app) {
			return app
		}
	}
	return -1
}

// mix fills machines one after the other, in the order of their numbers, and says whether all that waits has a place.
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

// used is how many machines hold anything.
func (n *Network) used() (machines int) {
	for _, on := range n.on {
		if len(on) > 0 {
			machines++
		}
	}
	return machines
}
