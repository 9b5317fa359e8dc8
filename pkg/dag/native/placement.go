package native

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// A placement rule of a task applies to its own machines; one of a gang, to those of all its roles; and one of the
// job, to those of the tasks that it names, or of all tasks. The model has only rules of tasks and of the job.

// rulePosition is the position in the file of a rule of the job.
type rulePosition struct {
	pos  fault.Position
	path string
}

// readLabels reads a mapping of labels. Their values are always text, whatever type YAML gives them.
func (r *reader) readLabels(n *yaml.Node) (map[string]string, error) {
	entries, err := r.Mapping(n)
	if err != nil {
		return nil, err
	}
	labels := make(map[string]string, len(entries))
	for _, e := range entries {
		if err := jobtext.CheckLabel(e.Key); err != nil {
			return nil, fault.WithinKey(e.Key, fault.At(yamlfile.PositionOf(e.Name), err))
		}
		if labels[e.Key], err = r.Text(e.Node); err == nil {
			err = fault.At(yamlfile.PositionOf(e.Node), jobtext.CheckLabel(labels[e.Key]))
		}
		if err != nil {
			return nil, fault.WithinKey(e.Key, err)
		}
	}
	if len(labels) > jobtext.MaxLabels {
		return nil, fault.At(yamlfile.PositionOf(n), jobtext.CheckLabels(labels))
	}
	if len(labels) == 0 {
		return nil, nil
	}
	return labels, nil
}

// readPlacement reads one rule, or a list of them. of is the name of the field with which a rule may name tasks;
// empty if it may not.
func (r *reader) readPlacement(n *yaml.Node, of string) (rules []dag.Placement, err error) {
	y := &r.Reader
	level := func(at func(*dag.Placement) *dag.Level) func(*dag.Placement, *yaml.Node) error {
		return yamlfile.TextField(y, at, word[dag.Level])
	}
	known := yamlfile.Fields[*dag.Placement]{
		"spread": level(func(p *dag.Placement) *dag.Level { return &p.Spread }),
		"pack":   level(func(p *dag.Placement) *dag.Level { return &p.Pack }),
		"by":     level(func(p *dag.Placement) *dag.Level { return &p.By }),
		"max": yamlfile.TextField(y, func(p *dag.Placement) *int { return &p.Max }, func(s string) (int, error) {
			return jobtext.ParseInt(s, 1, jobtext.MaxNodes)
		}),
		"apart": func(p *dag.Placement, n *yaml.Node) (err error) {
			p.Apart, err = r.readLabels(n)
			return err
		},
	}
	if of != "" {
		known[of] = func(p *dag.Placement, n *yaml.Node) error {
			return r.List(n, func(_ int, n *yaml.Node) error {
				name, err := r.Text(n)
				p.Of = append(p.Of, name)
				return err
			})
		}
	}
	one := func(n *yaml.Node) error {
		var p dag.Placement
		err := yamlfile.ReadFields(y, n, known, &p)
		if err == nil {
			err = fault.At(yamlfile.PositionOf(n), p.Check())
		}
		rules = append(rules, p)
		return err
	}
	if n.Kind != yaml.SequenceNode {
		return rules, one(n)
	}
	return rules, r.List(n, func(_ int, n *yaml.Node) error { return one(n) })
}

// finishPlacement reads the rules of gangs, services and the job. It runs when all tasks are known, because the rules
// refer to them.
func (r *reader) finishPlacement() error {
	for i, p := range r.parts {
		if p.rules == nil || i > 0 && r.parts[i-1].rules == p.rules {
			continue // read the rules of each gang or service once
		}
		read, path := r.gangPlacement, jobtext.TaskPath(p.whole())+".gang"
		if p.of != "" {
			read, path = r.servicePlacement, jobtext.TaskPath(p.of)
		}
		members := r.named(p.whole())
		if err := read(p, members); err != nil {
			return fault.Within(path, fault.Within("placement", err))
		}
		if err := r.checkEach(members, p.rules); err != nil {
			return err
		}
	}
	if r.rules != nil {
		if err := r.jobPlacement(); err != nil {
			return err
		}
	}
	if n, err := r.job.CheckPlacement(); err != nil {
		return fault.At(r.ruled[n].pos, fault.Within(r.ruled[n].path, err))
	}
	return nil
}

// named returns the tasks that a name in the file refers to: one task, all roles of its gang and the tasks that join
// it, or all replicas of its service.
func (r *reader) named(name string) []int {
	if r.members == nil {
		r.members = make(map[string][]int, len(r.parts))
		for i, p := range r.parts {
			r.members[p.name] = append(r.members[p.name], i)
			if whole := p.whole(); whole != "" && whole != p.name {
				r.members[whole] = append(r.members[whole], i)
			}
		}
	}
	return r.members[name]
}

// gangPlacement applies the rules of a gang to all its machines. A rule that packs the gang into a zone or region
// sets its within; one that packs it into a rack also sets within to the zone, because a rack is in one zone.
func (r *reader) gangPlacement(p taskPart, members []int) error {
	rules, err := r.readPlacement(p.rules, "")
	if err != nil {
		return err
	}
	for _, rule := range rules {
		if within := rule.Plan(); within != "" {
			if p.within != nil && r.job.Tasks[members[0]].Within != within {
				return r.Fault(p.rules, "packs by "+string(rule.Pack)+", but within is different",
					"keep one of the two")
			}
			for _, i := range members {
				r.job.Tasks[i].Within = within
			}
			if rule.Pack.Plannable() {
				continue
			}
		}
		r.add(rule, members, rulePosition{yamlfile.PositionOf(p.rules),
			jobtext.TaskPath(p.task.Key) + ".gang.placement"})
	}
	return nil
}

// add adds a rule to the job, or to each of the tasks if it is a rule with Apart or for one task.
func (r *reader) add(rule dag.Placement, of []int, at rulePosition) {
	rule.Of = nil
	if len(rule.Apart) > 0 || len(of) == 1 {
		for _, i := range of {
			r.job.Tasks[i].Placement = append(r.job.Tasks[i].Placement, rule)
		}
		return
	}
	for _, i := range of {
		rule.Of = append(rule.Of, r.job.Tasks[i].Name)
	}
	r.job.Placement, r.ruled = append(r.job.Placement, rule), append(r.ruled, at)
}

// checkEach checks tasks that got additional rules. Errors have the position of those rules.
func (r *reader) checkEach(of []int, rules *yaml.Node) error {
	for _, i := range of {
		if err := r.job.Tasks[i].CheckPlacement(); err != nil {
			return fault.At(yamlfile.PositionOf(rules), fault.Within(jobtext.TaskPath(r.job.Tasks[i].Name), err))
		}
	}
	return nil
}

// jobPlacement reads the rules of the job.
func (r *reader) jobPlacement() error {
	rules, err := r.readPlacement(r.rules, "of")
	if err != nil {
		return fault.Within("placement", err)
	}
	nodes := []*yaml.Node{r.rules}
	if r.rules.Kind == yaml.SequenceNode {
		nodes = r.rules.Content
	}
	for n, rule := range rules {
		at := rulePosition{yamlfile.PositionOf(nodes[n]), "placement" + fault.Index(n)}
		var of []int
		for k, name := range rule.Of {
			tasks := r.named(name)
			if tasks == nil {
				known := slices.AppendSeq(slices.Collect(maps.Keys(r.index)), maps.Keys(r.gang))
				hint := fault.DidYouMean(name, slices.Sorted(slices.Values(known)))
				return fault.Within("placement"+fault.Index(n)+".of"+fault.Index(k),
					r.Fault(nodes[n], "no task is called "+fault.Quote(name), hint))
			}
			of = append(of, tasks...)
		}
		if rule.Of == nil {
			for i := range r.parts {
				of = append(of, i)
			}
		}
		slices.Sort(of)
		of = slices.Compact(of)
		r.add(rule, of, at)
		if err := r.checkEach(of, nodes[n]); err != nil {
			return err
		}
	}
	return nil
}
