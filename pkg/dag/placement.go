package dag

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/fault"
)

// Level is how wide a place is in which machines are near each other.
type Level string

// The levels, the widest first. Clouds do not say in which racks their machines are; pools and Kubernetes may, by
// labels.
const (
	LevelRegion  Level = "region"
	LevelZone    Level = "zone"
	LevelRack    Level = "rack"
	LevelMachine Level = "machine"
)

// Levels are all levels, the widest first.
func Levels() []Level { return []Level{LevelRegion, LevelZone, LevelRack, LevelMachine} }

// Check says what is wrong with a word that is none of them.
func (l Level) Check() error { return fault.CheckWord("level", l, Levels()...) }

// Far says whether a level is one of a plan: it is known where a machine is before it is bought.
func (l Level) Far() bool { return l == LevelRegion || l == LevelZone }

// Placement is one rule about where machines that run at the same time stand to each other: one of Spread, Pack and
// Apart.
type Placement struct {
	// Spread has at most Max of the machines in one region, zone or rack, or on one machine.
	Spread Level `json:"spread,omitempty"`
	Max    int   `json:"max,omitempty"` // 0 is one
	// Pack has all of the machines in one region, zone or rack, or on one machine.
	Pack Level `json:"pack,omitempty"`
	// Apart has none of the machines where a task with one of these labels runs, of this job or another, By as wide a
	// place as that; empty is LevelMachine.
	Apart map[string]string `json:"apart,omitempty"`
	By    Level             `json:"by,omitempty"`
	// Of names the tasks whose machines a rule of a job is about. A rule of a task is about its own.
	Of []string `json:"of,omitempty"`
}

// Most is how many machines a rule that spreads allows in one place.
func (p *Placement) Most() int { return max(p.Max, 1) }

// Level is how wide a place the rule is about.
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

// String is the rule as a file has it: spread: zone, or apart: {app: db} by zone.
func (p *Placement) String() string {
	switch {
	case p.Spread != "" && p.Max > 1:
		return fmt.Sprintf("spread: %s, max: %d", p.Spread, p.Max)
	case p.Spread != "":
		return "spread: " + string(p.Spread)
	case p.Pack != "":
		return "pack: " + string(p.Pack)
	}
	return fmt.Sprintf("apart: {%s} by %s", LabelsText(p.Apart), p.Level())
}

// LabelsText is labels as a file has them.
func LabelsText(labels map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, k+": "+labels[k])
	}
	return strings.Join(parts, ", ")
}

// Bounds of labels and rules.
const (
	MaxLabels     = 8    // of a task, and of a rule that keeps apart
	MaxPlacements = 8    // rules of a task, and of a job
	MaxPlaced     = 1000 // tasks that one rule is about
	maxLabelBytes = 63   // as Kubernetes has it
)

// LabelPattern is for the names and the values of labels.
const LabelPattern = `^[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$`

// CheckLabel says what is wrong with the name or the value of a label.
func CheckLabel(s string) error {
	ok := s != "" && len(s) <= maxLabelBytes && fault.IsAlnum(s[0]) && fault.IsAlnum(s[len(s)-1])
	for i := 0; ok && i < len(s); i++ {
		ok = fault.IsAlnum(s[i]) || strings.IndexByte("._/-", s[i]) >= 0
	}
	if ok {
		return nil
	}
	return fault.New(fault.Quote(s)+" is not a label", fmt.Sprintf(
		"letters, digits, '.', '_', '/' and '-', beginning and ending with a letter or digit, at most %d",
		maxLabelBytes))
}

// CheckLabels says what is wrong with labels.
func CheckLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return fault.OverLimit(fmt.Sprintf("%d labels, more than %d", len(labels), MaxLabels), "")
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if err := CheckLabel(k); err != nil {
			return err
		}
		if err := CheckLabel(labels[k]); err != nil {
			return fault.WithinKey(k, err)
		}
	}
	return nil
}

// Check says what is wrong with a rule by itself.
func (p *Placement) Check() error {
	said := 0
	for _, is := range []bool{p.Spread != "", p.Pack != "", len(p.Apart) > 0} {
		if is {
			said++
		}
	}
	switch {
	case said == 0:
		return fault.New("says nothing", "spread: zone, pack: rack, or apart: {label: value} with by: machine")
	case said > 1:
		return fault.New("says more than one of spread, pack and apart", "write a list of rules")
	case p.By != "" && len(p.Apart) == 0:
		return fault.Within("by", fault.New("is of apart alone", "spread and pack name the level themselves"))
	case p.Max != 0 && p.Spread == "":
		return fault.Within("max", fault.New("is of spread alone", ""))
	case p.Max < 0 || p.Max > MaxNodes:
		return fault.Within("max", checkCount(p.Max, 1, MaxNodes))
	case p.Pack == LevelMachine:
		return fault.Within("pack", fault.New("each machine of a task is another one",
			"pack: rack, or one task with more resources"))
	}
	if err := p.Level().Check(); err != nil {
		return err
	}
	return fault.Within("apart", CheckLabels(p.Apart))
}

// CheckPlacement says what is wrong with a task's labels and rules.
func (t *Task) CheckPlacement() error {
	if err := CheckLabels(t.Labels); err != nil {
		return fault.Within("labels", err)
	}
	if len(t.Placement) > MaxPlacements {
		return fault.Within("placement", fault.OverLimit(
			fmt.Sprintf("%d rules, more than %d", len(t.Placement), MaxPlacements), ""))
	}
	return eachChecked("placement", t.Placement, func(p *Placement) error {
		if err := p.Check(); err != nil {
			return err
		}
		if len(p.Of) > 0 {
			return fault.Within("of", fault.New("is of a job's rules alone",
				"a task's rules are about its own machines"))
		}
		return tooMany(p, t.Nodes)
	})
}

// tooMany refuses that more machines of one task are spread than may be in one place: they are bought together, at one
// offer.
func tooMany(p *Placement, nodes int) error {
	if p.Spread.Far() && nodes > p.Most() {
		return fault.Within("spread", fault.New(fmt.Sprintf("the %d machines of one task are in one %s", nodes,
			p.Spread),
			"make tasks of them, and say at the job placement: [{spread: "+string(p.Spread)+", of: [TASK, …]}]"))
	}
	return nil
}

// CheckPlacement says what is wrong with the rules of a job that are about several of its tasks, and of which rule; it
// is negative if nothing is. All tasks have to be valid.
func (j *Job) CheckPlacement() (rule int, err error) {
	if len(j.Placement) > MaxPlacements {
		return MaxPlacements, fault.OverLimit(
			fmt.Sprintf("%d rules, more than %d", len(j.Placement), MaxPlacements), "")
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
			return n, fault.Within("apart", fault.New("is of tasks", "say it at each of them"))
		}
		if len(p.Of) < 2 {
			return n, fault.Within("of", fault.New("names less than two tasks",
				"a rule about one task stands at the task"))
		}
		if len(p.Of) > MaxPlaced {
			return n, fault.Within("of", fault.OverLimit(
				fmt.Sprintf("%d tasks, more than %d", len(p.Of), MaxPlaced), "name those that it matters for"))
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
			if err := tooMany(p, j.Tasks[i].Nodes); err != nil {
				return n, err
			}
		}
	}
	return j.checkPacks()
}

// Plan is how wide a place a plan has all machines in for a rule that packs them: a rack is in one zone. It is empty
// where the rule packs nothing.
func (p *Placement) Plan() Within {
	switch p.Pack {
	case LevelRegion:
		return WithinRegion
	case LevelZone, LevelRack, LevelMachine:
		return WithinZone
	}
	return ""
}

// checkPacks refuses packs that overlap in part: what they share would be in both places.
func (j *Job) checkPacks() (rule int, err error) {
	near := j.Together()
	for n := range j.Placement {
		p := &j.Placement[n]
		if p.Pack == "" {
			continue
		}
		for k := range j.Placement[:n] {
			if q := &j.Placement[k]; q.Pack != "" && q.Plan() != p.Plan() && share(p.Of, q.Of) {
				return n, fault.New(fmt.Sprintf("packs by %s what another rule packs by %s", p.Pack, q.Pack),
					"name tasks in one of them, or pack all by "+string(LevelZone))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(near)) {
			for _, i := range near[name] {
				t := &j.Tasks[i]
				if !slices.Contains(p.Of, t.Name) {
					continue
				}
				if orRegion(t.Within) != p.Plan() {
					return n, fault.New(fmt.Sprintf("packs %s by %s, whose gang is within %s", fault.Quote(t.Name),
						p.Pack,
						orRegion(t.Within)), "say within: "+string(p.Plan())+" of the gang")
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

func share(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// PlacementGroup is a rule of a job with the tasks that it is about, as indexes.
type PlacementGroup struct {
	*Placement
	Tasks []int
}

// Groups are the rules that spread or pack machines: of the job, then of single tasks in their order. They are nil for
// a job without such rules.
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

// Has says whether a task, an index, is one of those that the rule is about.
func (g *PlacementGroup) Has(task int) bool { return slices.Contains(g.Tasks, task) }

// Aparts are the rules by which a task keeps apart from others.
func (t *Task) Aparts() (out []*Placement) {
	for n := range t.Placement {
		if len(t.Placement[n].Apart) > 0 {
			out = append(out, &t.Placement[n])
		}
	}
	return out
}
