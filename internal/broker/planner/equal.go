package planner

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// requirements are all properties of a task on which its options depend. Tasks with equal requirements have equal
// options.
type requirements struct {
	class           *class
	usual           time.Duration
	estimate        string // as JSON; empty if it is only the usual time and its speed
	speed           float64
	nodes, maxNodes int
	checkpointHours float64
	output          dag.GiB
	moved           float64 // GiB to and from its parents and children
}

// listing is the list of options of a task, or of all tasks with equal requirements. It is shared, so it must not be
// changed.
type listing struct {
	options    []option
	candidates []optimizer.Candidate
	onDemand   map[onDemandQuery]stay // results of builder.onDemand; nil if they depend on more than the query
}

// onDemandQuery has the arguments of builder.onDemand besides the task.
type onDemandQuery struct {
	as        stay
	samePlace bool
}

// requirementsOf returns the requirements of a task. It returns false if the task's options depend on more: its
// earlier runs, the places of other tasks, or reserved capacity that is given to single tasks.
func (b *builder) requirementsOf(i int, c *class, gib float64) (requirements, bool) {
	if b.in.Tasks[i] != nil || b.near[i] != "" || b.spread[i] || len(b.in.Stood) > 0 || c.reserved {
		return requirements{}, false
	}
	t := &b.in.Spec.Tasks[i]
	d := requirements{
		class: c, usual: t.Time.Default, speed: t.Time.Speed, nodes: t.Nodes, maxNodes: t.MaxNodes,
		checkpointHours: checkpointHours(t),
		output:          outputSize(t), moved: gib,
	}
	if e := &t.Time; len(e.On) > 0 || e.FLOPs > 0 || e.Serial != nil || len(e.ByNodes) > 0 {
		text, err := json.Marshal(e)
		if err != nil {
			return requirements{}, false
		}
		d.estimate = string(text)
	}
	return d, true
}

// list returns the options of a task. Tasks with equal options share one list.
func (b *builder) list(i int, c *class, gib float64) *listing {
	d, shared := b.requirementsOf(i, c, gib)
	if l := b.lists[d]; shared && l != nil {
		return l
	}
	options := b.candidates(i, c, gib)
	if c.last == nil || !slices.Equal(options, c.last.options) {
		c.last = &listing{options: options, candidates: make([]optimizer.Candidate, len(options))}
		for k := range options {
			c.last.candidates[k] = options[k].Candidate
		}
	}
	if !shared {
		return c.last
	}
	l := &listing{options: c.last.options, candidates: c.last.candidates, onDemand: map[onDemandQuery]stay{}}
	b.lists[d] = l
	return l
}
