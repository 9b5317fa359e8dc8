package dag

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// Level is the size of a place in which machines count as close.
type Level string

// The levels, from the widest. Clouds do not publish the racks of their machines; pools and Kubernetes may do so with
// labels.
const (
	LevelRegion  Level = "region"
	LevelZone    Level = "zone"
	LevelRack    Level = "rack"
	LevelMachine Level = "machine"
)

// Levels returns all levels, from the widest.
func Levels() []Level { return []Level{LevelRegion, LevelZone, LevelRack, LevelMachine} }

// Check returns an error if l is not one of the levels.
func (l Level) Check() error { return fault.CheckWord("level", l, Levels()...) }

// Plannable reports whether plans can use the level: the region and zone of a machine are known before it is bought.
func (l Level) Plannable() bool { return l == LevelRegion || l == LevelZone }

// Placement is one rule about the relative places of machines that run at the same time. It has one of Spread, Pack
// and Apart.
type Placement struct {
	// Spread allows at most Max of the machines in one region, zone or rack, or on one machine.
	Spread Level `json:"spread,omitempty"`
	Max    int   `json:"max,omitempty"` // 0 is one
	// Pack requires all of the machines in one region, zone or rack, or on one machine.
	Pack Level `json:"pack,omitempty"`
	// Apart keeps the machines away from tasks with one of these labels, of this job or another: they are never in
	// the same place of the level By; empty is LevelMachine.
	Apart map[string]string `json:"apart,omitempty"`
	By    Level             `json:"by,omitempty"`
	// Of names the tasks to which a rule of a job applies. A rule of a task applies to its own machines.
	Of []string `json:"of,omitempty"`
}

// MaxPerPlace returns the maximum number of machines in one place for a rule with Spread.
func (p *Placement) MaxPerPlace() int { return max(p.Max, 1) }

// Level returns the level of the rule.
func (p *Placement) Level() Level {
	switch {
	case p.Spread != "":
		return p.Spread
	case p.Pack != "":
		return p.Pack
	case p.By != "":
		return p.By
	}
	return LevelMachine
}

// String returns the rule as in a file: spread: zone, or apart: {app: db} by zone.
func (p *Placement) String() string {
	switch {
	case p.Spread != "" && p.Max > 1:
		return fmt.Sprintf("spread: %s, max: %d", p.Spread, p.Max)
	case p.Spread != "":
		return "spread: " + string(p.Spread)
	case p.Pack != "":
		return "pack: " + string(p.Pack)
	}
	return fmt.Sprintf("apart: {%s} by %s", jobtext.LabelsText(p.Apart), p.Level())
}

// Check returns an error if the rule is invalid, without regard to the tasks of its job.
func (p *Placement) Check() error {
	said := 0
	for _, is := range []bool{p.Spread != "", p.Pack != "", len(p.Apart) > 0} {
		if is {
			said++
		}
	}
	switch {
	case said == 0:
		return fault.New("is an empty rule", "spread: zone, pack: rack, or apart: {label: value} with by: machine")
	case said > 1:
		return fault.New("has more than one of spread, pack and apart", "write a list of rules")
	case p.By != "" && len(p.Apart) == 0:
		return fault.Within("by", fault.New("is only for apart", "spread and pack name the level themselves"))
	case p.Max != 0 && p.Spread == "":
		return fault.Within("max", fault.New("is only for spread", ""))
	case p.Max < 0 || p.Max > MaxNodes:
		return fault.Within("max", jobtext.CheckCount(p.Max, 1, MaxNodes))
	case p.Pack == LevelMachine:
		return fault.Within("pack", fault.New("the machines of a task are never the same machine",
			"pack: rack, or one task with more resources"))
	}
	if err := p.Level().Check(); err != nil {
		return err
	}
	return fault.Within("apart", jobtext.CheckLabels(p.Apart))
}

// CheckPlacement returns an error if the task's labels or rules are invalid.
func (t *Task) CheckPlacement() error {
	if err := jobtext.CheckLabels(t.Labels); err != nil {
		return fault.Within("labels", err)
	}
	if len(t.Placement) > jobtext.MaxPlacements {
		return fault.Within("placement", fault.OverLimit(
			fmt.Sprintf("%d rules, more than %d", len(t.Placement), jobtext.MaxPlacements), ""))
	}
	return eachChecked("placement", t.Placement, func(p *Placement) error {
		if err := p.Check(); err != nil {
			return err
		}
		if len(p.Of) > 0 {
			return fault.Within("of", fault.New("is only for rules of a job",
				"a rule of a task applies to its own machines"))
		}
		return tooMany(p, t.MostNodes())
	})
}

// tooMany returns an error if the rule allows fewer machines in one place than one task has: the machines of a task
// are bought together, in one place.
func tooMany(p *Placement, nodes int) error {
	if p.Spread.Plannable() && nodes > p.MaxPerPlace() {
		return fault.Within("spread", fault.New(fmt.Sprintf("the %d machines of one task are in one %s", nodes,
			p.Spread),
			"make them separate tasks, and add to the job placement: [{spread: "+string(p.Spread)+", of: [TASK, …]}]"))
	}
	return nil
}

// CheckPlacement returns the index of the first invalid rule of the job, and its fault, or -1. All tasks must be
// valid.
func (j *Job) CheckPlacement() (rule int, err error) {
	if len(j.Placement) > jobtext.MaxPlacements {
		return jobtext.MaxPlacements, fault.OverLimit(
			fmt.Sprintf("%d rules, more than %d", len(j.Placement), jobtext.MaxPlacements), "")
	}
	if len(j.Placement) == 0 {
		return -1, nil
	}
	known := make(map[string]int, len(j.Tasks))
	for i := range j.Tasks {
		known[j.Tasks[i].Name] = i
	}
	for n := range j.Placement {
		p := &j.Placement[n]
		if err := p.Check(); err != nil {
			return n, err
		}
		if len(p.Apart) > 0 {
			return n, fault.Within("apart", fault.New("is only for rules of a task", "add it to each task"))
		}
		if len(p.Of) < 2 {
			return n, fault.Within("of", fault.New("names fewer than two tasks",
				"write a rule for one task in that task"))
		}
		if len(p.Of) > jobtext.MaxPlaced {
			return n, fault.Within("of", fault.OverLimit(
				fmt.Sprintf("%d tasks, more than %d", len(p.Of), jobtext.MaxPlaced),
				"name only the tasks that need the rule"))
		}
		seen := map[string]bool{}
		for k, name := range p.Of {
			i, is := known[name]
			switch {
			case !is:
				return n, fault.Within("of"+fault.Index(k), fault.New("no task is called "+fault.Quote(name),
					fault.DidYouMean(name, slices.Sorted(maps.Keys(known)))))
			case seen[name]:
				return n, fault.Within("of"+fault.Index(k), fault.New(fault.Quote(name)+" is named twice", ""))
			}
			seen[name] = true
			if err := tooMany(p, j.Tasks[i].MostNodes()); err != nil {
				return n, err
			}
		}
	}
	return j.checkPacks()
}

// Plan returns the distance within which a plan must keep all machines of a rule with Pack; a rack is in one zone. It
// returns "" for a rule without Pack.
func (p *Placement) Plan() Within {
	switch p.Pack {
	case LevelRegion:
		return WithinRegion
	case LevelZone, LevelRack, LevelMachine:
		return WithinZone
	}
	return ""
}

// checkPacks rejects rules with different Pack levels that have a task in common, because the task cannot be in both
// places.
func (j *Job) checkPacks() (rule int, err error) {
	near := j.Together()
	for n := range j.Placement {
		p := &j.Placement[n]
		if p.Pack == "" {
			continue
		}
		for k := range j.Placement[:n] {
			if q := &j.Placement[k]; q.Pack != "" && q.Plan() != p.Plan() && haveCommon(p.Of, q.Of) {
				return n, fault.New(fmt.Sprintf("packs tasks by %s, but another rule packs them by %s", p.Pack, q.Pack),
					"name tasks in one of them, or pack all by "+string(LevelZone))
			}
		}
		of := make(map[string]bool, len(p.Of))
		for _, name := range p.Of {
			of[name] = true
		}
		for _, name := range slices.Sorted(maps.Keys(near)) {
			for _, i := range near[name] {
				t := &j.Tasks[i]
				if !of[t.Name] {
					continue
				}
				if orRegion(t.Within) != p.Plan() {
					return n, fault.New(fmt.Sprintf("packs %s by %s, but its gang is within %s", fault.Quote(t.Name),
						p.Pack,
						orRegion(t.Within)), "set within: "+string(p.Plan())+" for the gang")
				}
			}
		}
	}
	return -1, nil
}

func orRegion(w Within) Within {
	if w == "" {
		return WithinRegion
	}
	return w
}

func haveCommon(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// PlacementGroup is a rule and the tasks to which it applies, as indexes.
type PlacementGroup struct {
	*Placement
	Tasks []int
}

// Groups returns the rules with Spread or Pack: those of the job, then those of its tasks in their order. It returns
// nil if there are none.
func (j *Job) Groups() (out []PlacementGroup) {
	for n := range j.Placement {
		g := PlacementGroup{Placement: &j.Placement[n]}
		of := make(map[string]bool, len(g.Of))
		for _, name := range g.Of {
			of[name] = true
		}
		for i := range j.Tasks {
			if of[j.Tasks[i].Name] {
				g.Tasks = append(g.Tasks, i)
			}
		}
		out = append(out, g)
	}
	for i := range j.Tasks {
		for n := range j.Tasks[i].Placement {
			if p := &j.Tasks[i].Placement[n]; len(p.Apart) == 0 {
				out = append(out, PlacementGroup{Placement: p, Tasks: []int{i}})
			}
		}
	}
	return out
}

// Has reports whether the rule applies to a task, an index.
func (g *PlacementGroup) Has(task int) bool { return slices.Contains(g.Tasks, task) }

// ApartRules returns the task's rules with Apart.
func (t *Task) ApartRules() (out []*Placement) {
	for n := range t.Placement {
		if len(t.Placement[n].Apart) > 0 {
			out = append(out, &t.Placement[n])
		}
	}
	return out
}
