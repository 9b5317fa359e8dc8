package workflow

import (
	"cmp"
	"math"
	"slices"
)

// corner is a point of the time-cost curve of a unit of work: on some type it takes hours and costs usd.
type corner struct{ hours, usd float64 }

// hull sorts points and returns their lower convex hull, from the fastest to the cheapest. A unit of work that runs on
// two types in turn can have every point between two corners (as in WCSSI, equations 9 and 10).
func hull(points []corner) (corners []corner) {
	slices.SortFunc(points, func(a, b corner) int {
		return cmp.Or(cmp.Compare(a.hours, b.hours), cmp.Compare(a.usd, b.usd))
	})
	for _, p := range points {
		n := len(corners)
		if n > 0 && p.usd >= corners[n-1].usd {
			continue // a faster type costs no more
		}
		for ; n >= 2 && slope(corners[n-2], p) >= slope(corners[n-2], corners[n-1]); n-- {
			corners = corners[:n-1]
		}
		corners = append(corners, p)
	}
	return corners
}

// slope returns how much an hour less costs between two points, in USD per hour.
func slope(fast, slow corner) float64 { return (fast.usd - slow.usd) / (slow.hours - fast.hours) }

// allocate returns the durations of the tasks in hours with which the rest of a run is expected to cost the least and
// ends by the deadline. corners is the time-cost curve of a unit of work. Tasks may change their type, at no cost. If
// no durations are in time, it returns the shortest.
//
// This is the linear time-cost problem of project scheduling (Kelley, Operations Research 1961). Its dual is a flow
// of minimum cost, which is solved by augmenting the longest path (Fulkerson, Management Science 1961): the flow
// through a task is the USD that an hour less of it costs.
func (w *Workflow) allocate(run *progress, corners []corner, deadline float64) (spans []float64) {
	n := len(w.work)
	f := make(flow, 2*n+2) // node 2i is the start of task i, 2i+1 its end
	source, sink := 2*n, 2*n+1
	for i := range n {
		at, start := run.now, w.startOf(run, i)
		if run.begun[i] {
			at = run.at[i]
		}
		f.add(source, 2*i, at, math.Inf(1))
		f.add(2*i+1, sink, 0, math.Inf(1))
		for _, c := range w.graph.Children(i) {
			if !run.begun[c] {
				f.add(2*i+1, 2*int(c), 0, math.Inf(1))
			}
		}
		used := 0.0
		for c, slow := range slices.Backward(corners) {
			room := math.Inf(1) // nothing is faster than the first corner
			if c > 0 {
				room, used = slope(corners[c-1], slow)-used, slope(corners[c-1], slow)
			}
			f.add(2*i, 2*i+1, start+run.left[i]*slow.hours, room)
		}
	}
	at := f.solve(source, sink, deadline)
	for i := range n {
		start := w.startOf(run, i)
		least, most := start+run.left[i]*corners[0].hours, start+run.left[i]*corners[len(corners)-1].hours
		spans = append(spans, min(max(at[2*i+1]-at[2*i], least), most))
	}
	return spans
}

// corners returns the time-cost curve of a unit of work at the prices usd.
func (w *Workflow) corners(usd []float64) []corner {
	points := make([]corner, len(usd))
	for k := range usd {
		points[k] = corner{1 / w.speed[k], usd[k]}
	}
	return hull(points)
}

// stay shortens durations to those of one type for each task. Where starts cost time, a change of the type is seldom
// worth it, and the time is worth more to other tasks.
func (w *Workflow) stay(run *progress, corners []corner, spans []float64) {
	for i, span := range spans {
		for _, c := range corners {
			if hours := w.startOf(run, i) + run.left[i]*c.hours; hours <= span+1e-9 {
				spans[i] = hours
			}
		}
	}
}

// startOf returns the time of the start of a machine for a task: none if it has begun.
func (w *Workflow) startOf(run *progress, task int) float64 {
	if run.begun[task] {
		return 0
	}
	return w.restart
}

// latestEnds returns the latest end of each task if the tasks take spans.
func (w *Workflow) latestEnds(spans []float64, deadline float64) []float64 {
	ends := make([]float64, len(spans))
	for _, i := range slices.Backward(w.order) {
		ends[i] = deadline
		for _, c := range w.graph.Children(i) {
			ends[i] = min(ends[i], ends[c]-spans[c])
		}
	}
	return ends
}

// flow is a network: the arcs that leave each node.
type flow [][]arc

type arc struct {
	to          int
	hours, room float64 // its length, and how much more flow it takes
	back        int     // index of the opposite arc among those that leave to
}

func (f flow) add(from, to int, hours, room float64) {
	f[from] = append(f[from], arc{to, hours, room, len(f[to])})
	f[to] = append(f[to], arc{from, -hours, 0, len(f[from]) - 1})
}

// solve augments the longest path until none is longer than limit, or the longest cannot be shortened. It returns the
// time of each node: its longest distance from the source.
func (f flow) solve(source, sink int, limit float64) []float64 {
	f.add(source, sink, limit, math.Inf(1)) // tasks take all the time up to the limit
	for {
		at, last := f.longest(source)
		room := math.Inf(1)
		for v := sink; v != source; v = last[v].to {
			room = min(room, f[last[v].to][last[v].back].room)
		}
		if math.IsInf(room, 1) {
			return at
		}
		for v := sink; v != source; v = last[v].to {
			a := &f[last[v].to][last[v].back]
			a.room -= room
			f[v][a.back].room += room
		}
	}
}

// longest returns the longest distance of each node from the source over arcs with room, and where its path comes from:
// the node before it, and the index of the arc from there. No cycle of such arcs has a positive length.
func (f flow) longest(source int) (at []float64, last []arc) {
	at, last = make([]float64, len(f)), make([]arc, len(f))
	for v := range at {
		at[v] = math.Inf(-1)
	}
	at[source] = 0
	queue, queued := []int{source}, make([]bool, len(f))
	for len(queue) > 0 {
		v := queue[0]
		queue, queued[v] = queue[1:], false
		for k, a := range f[v] {
			if a.room <= 1e-12 || at[v]+a.hours <= at[a.to]+1e-9 {
				continue
			}
			at[a.to], last[a.to] = at[v]+a.hours, arc{to: v, back: k}
			if !queued[a.to] {
				queue, queued[a.to] = append(queue, a.to), true
			}
		}
	}
	return at, last
}
