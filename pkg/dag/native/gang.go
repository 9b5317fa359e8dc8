package native

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// If the gang of a task is a mapping of roles, the file has one task for all roles. It is read as one task for each
// role, named TASK.ROLE, in a gang with the name of the task. The other fields of the task apply to each role that
// does not have them itself.

// taskPart is one of the job's tasks: a whole task of the file, one of its roles, or one replica.
type taskPart struct {
	name  string // of the resulting task
	path  string // the path in the file, below tasks
	entry yamlfile.Entry
	// For a role: the task that has it, the role's own name and reactions, and fields of the gang.
	task   *yamlfile.Entry
	role   string
	on     []dag.Reaction
	within *yaml.Node // within of the whole gang
	rules  *yaml.Node // placement of the whole gang
	// span is the number of machines at the start and at most; joins is set if the part is an additional machine.
	span  span
	joins bool
	// service is set if the part is a replica of a service. of is the name of the service's task if it has several
	// replicas.
	service bool
	of      string
	// array is set if the part is a member of an array.
	array *dag.Array
	// outputs are the names of its outputs, as far as they are known before it is read.
	outputs []string
}

// roleMark separates the name of a task from that of a role.
const roleMark = "."

// partsOf returns the parts of an entry of tasks: one, or one for each role of its gang and one for each machine that
// may join a role.
func (r *reader) partsOf(e yamlfile.Entry) ([]taskPart, error) {
	gang, err := r.rolesOf(e)
	if err != nil || gang == nil {
		return []taskPart{{name: e.Key, path: e.Key, entry: e}}, err
	}
	var on []dag.Reaction
	var roles, near, rules, enoughAt *yaml.Node
	enough := 0
	err = yamlfile.ReadFields(&r.Reader, gang, yamlfile.Fields[*taskPart]{
		"on": func(_ *taskPart, n *yaml.Node) (err error) {
			on, err = r.readOn(n)
			return err
		},
		"within": func(_ *taskPart, n *yaml.Node) error {
			near = n
			return nil
		},
		"placement": func(_ *taskPart, n *yaml.Node) error {
			rules = n
			return nil
		},
		"roles": func(_ *taskPart, n *yaml.Node) error {
			roles = n
			return nil
		},
		"minAvailable": func(_ *taskPart, n *yaml.Node) error {
			s, err := r.Text(n)
			if err == nil {
				enoughAt = n
				enough, err = jobtext.ParseInt(s, 1, dag.MaxGang*jobtext.MaxNodes)
			}
			return err
		},
	}, &taskPart{})
	if err != nil {
		return nil, fault.Within("gang", err)
	}
	if roles == nil {
		return nil, fault.Within("gang", fault.Within("roles", r.Fault(gang, "is missing",
			"a gang has at least one role")))
	}
	entries, err := r.Mapping(roles)
	if err == nil && len(entries) == 0 {
		err = r.Fault(roles, "is empty", "a gang has at least one role")
	}
	var spans []span
	if err == nil {
		spans, err = r.spansOf(e.Key, entries)
	}
	if err != nil {
		return nil, fault.Within("gang", fault.Within("roles", err))
	}
	if enough > 0 {
		if problem := setStartMachines(spans, enough); problem != "" {
			return nil, fault.Within("gang", fault.Within("minAvailable", r.Fault(enoughAt, problem, "")))
		}
	}
	var out []taskPart
	for i, role := range entries {
		name, machines := e.Key+roleMark+role.Key, spans[i]
		p := taskPart{
			name: name, path: e.Key + ".gang.roles." + role.Key, entry: role, task: &e, role: role.Key, on: on,
			within: near, rules: rules,
			outputs: r.outputNames(role.Node), span: machines,
		}
		out = append(out, p)
		for n := machines.min; n < machines.max; n++ { // each additional machine is a separate task
			p.name, p.joins = name+roleMark+strconv.Itoa(n), true
			out = append(out, p)
		}
	}
	return out, nil
}

// spansOf returns the number of machines of the roles of a task's gang.
func (r *reader) spansOf(task string, roles []yamlfile.Entry) ([]span, error) {
	spans := make([]span, len(roles))
	for i, role := range roles {
		for _, name := range []string{role.Key, task + roleMark + role.Key} {
			if err := jobtext.CheckName(name); err != nil {
				return nil, fault.WithinKey(role.Key, fault.At(yamlfile.PositionOf(role.Name), err))
			}
		}
		var err error
		if spans[i], err = r.spanOf(role); err != nil {
			return nil, fault.WithinKey(role.Key, err)
		}
	}
	return spans, nil
}

// setStartMachines sets how many machines each role starts with, so that the gang starts with enough in total. If the
// minimums of the roles are too few, roles with a larger maximum start with more, the first role first. If they are too
// many, roles with a fixed number start with fewer, the last role first, but with at least one each. It returns a
// description of the fault, or "".
func setStartMachines(spans []span, enough int) (problem string) {
	least, most := 0, 0
	for i, s := range spans {
		if s.max == 0 {
			spans[i].min, spans[i].max = s.fixed, s.fixed
		}
		least, most = least+spans[i].min, most+spans[i].max
	}
	if enough > most {
		return fmt.Sprintf("is %d, but all roles together have %d machines", enough, most)
	}
	for i := range spans {
		more := min(max(enough-least, 0), spans[i].max-spans[i].min)
		spans[i].min, least = spans[i].min+more, least+more
	}
	for i := len(spans) - 1; i >= 0; i-- {
		if spans[i].fixed > 0 {
			fewer := min(max(least-enough, 0), spans[i].min-1)
			spans[i].min, least = spans[i].min-fewer, least-fewer
		}
	}
	for _, s := range spans {
		if s.max-s.min > jobtext.MaxJoining {
			return fmt.Sprintf("allows %d machines to join a role later, more than %d", s.max-s.min, jobtext.MaxJoining)
		}
	}
	return ""
}

// rolesOf returns the mapping in the field gang of a task, or nil if the field is a name or missing.
func (r *reader) rolesOf(e yamlfile.Entry) (*yaml.Node, error) {
	if e.Node.Kind != yaml.MappingNode {
		return nil, nil // the reader of the task reports it better
	}
	fields, err := r.Mapping(e.Node)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(fields, func(f yamlfile.Entry) bool { return f.Key == "gang" })
	if i < 0 || fields[i].Node.Kind != yaml.MappingNode {
		return nil, nil
	}
	return fields[i].Node, nil
}

// span is the number of machines that a role starts with, and its maximum. Both are zero if the role has neither; it
// then has fixed machines.
type span struct{ min, max, fixed int }

// spanOf reads the number of machines of a role: replicas with an optional minAvailable, or min and max.
func (r *reader) spanOf(role yamlfile.Entry) (s span, err error) {
	if role.Node.Kind != yaml.MappingNode {
		return s, nil // the reader of the role reports it better
	}
	fields, err := r.Mapping(role.Node)
	if err != nil {
		return s, nil // the same
	}
	said, nodes := map[string]int{}, map[string]*yaml.Node{}
	for _, f := range fields {
		switch f.Key {
		case "replicas", "min", "max", "minAvailable":
			if _, twice := said[f.Key]; twice {
				continue
			}
			nodes[f.Key] = f.Node
			text, err := r.Text(f.Node)
			if err != nil {
				return s, fault.WithinKey(f.Key, err)
			}
			if said[f.Key], err = jobtext.ParseInt(text, 1, jobtext.MaxNodes); err != nil {
				return s, fault.WithinKey(f.Key, fault.At(yamlfile.PositionOf(f.Node), err))
			}
		}
	}
	replicas, least, most, enough := said["replicas"], said["min"], said["max"], said["minAvailable"]
	at := func(problem, hint string) error { return r.Fault(role.Node, problem, hint) }
	switch {
	case (least > 0 || most > 0) && (replicas > 0 || enough > 0):
		return s, at("has replicas and min or max", "write replicas for a fixed number, or min and max")
	case enough > 0 && replicas == 0:
		return s, at("has minAvailable and no replicas", "add the number of machines: replicas")
	case least > 0 && most == 0:
		return s, at("has min and no max", "add the maximum number of machines: max")
	case enough > 0:
		s = span{min: enough, max: replicas}
	case most > 0:
		s = span{min: max(least, 1), max: most}
	default:
		s.fixed = max(replicas, 1)
	}
	switch {
	case s.max < s.min:
		return s, r.crossed(nodes, s)
	case s.max-s.min > jobtext.MaxJoining:
		return s, fault.At(yamlfile.PositionOf(role.Node), fault.OverLimit(fmt.Sprintf(
			"may have %d machines more than it starts with, more than %d", s.max-s.min, jobtext.MaxJoining), ""))
	}
	return s, nil
}

// crossed returns the error for a role whose minimum number of machines is above its maximum.
func (r *reader) crossed(fields map[string]*yaml.Node, s span) error {
	least, most := "min", "max"
	if fields[least] == nil {
		least, most = "minAvailable", "replicas"
	}
	problem := fmt.Sprintf("%s %d is more than %s %d", least, s.min, most, s.max)
	hint := fmt.Sprintf("write %s: %d and %s: %d", least, s.max, most, s.min)
	return fault.WithinKey(least, r.Fault(fields[least], problem, hint))
}

// outputNames returns the names of a role's outputs. It ignores errors, which are reported when the role is read.
func (r *reader) outputNames(n *yaml.Node) (names []string) {
	fields, err := r.Mapping(n)
	if err != nil {
		return nil
	}
	for _, f := range fields {
		if f.Key != "outputs" {
			continue
		}
		_ = r.List(f.Node, func(_ int, n *yaml.Node) error {
			of, err := r.Mapping(n)
			for _, o := range of {
				if o.Key == "name" {
					names = append(names, o.Node.Value)
				}
			}
			return err
		})
	}
	return names
}

// forRole returns the fields of a role: those of a task, except those that must be the same for the whole gang.
func (r *reader) forRole() yamlfile.Fields[*dag.Task] {
	known := r.forTask()
	for _, field := range append(arrayFields(), "gang", "joins", "role", "framework", "within", "after", "inputs",
		"secrets", "nodes", "service", "share", "spark") {
		delete(known, field)
	}
	known["replicas"] = r.forDefaults()["nodes"]
	for _, field := range []string{"min", "max", "minAvailable"} {
		known[field] = func(*dag.Task, *yaml.Node) error { return nil } // already read by spanOf
	}
	return known
}

// readRole reads a role: first the fields of its task, then its own.
func (r *reader) readRole(t *dag.Task, p taskPart) error {
	fields := r.taskFields
	roles := make(yamlfile.Fields[*dag.Task], len(fields))
	for name, read := range fields {
		roles[name] = read
	}
	roles["gang"] = func(*dag.Task, *yaml.Node) error { return nil } // already read by partsOf
	delete(roles, "role")
	delete(roles, "joins")
	delete(roles, "nodes")
	delete(roles, "on")
	delete(roles, "within")
	delete(roles, "service")
	delete(roles, "spark")
	if err := fault.WithinKey(p.task.Key, yamlfile.ReadFields(&r.Reader, p.task.Node, roles, t)); err != nil {
		return err
	}
	if p.within != nil {
		if err := r.taskFields["within"](t, p.within); err != nil {
			return fault.WithinKey(p.task.Key, fault.Within("gang", fault.Within("within", err)))
		}
	}
	all := t.Env
	t.Gang, t.Role, t.On, t.Env = p.task.Key, p.role, nil, nil
	err := yamlfile.ReadFields(&r.Reader, p.entry.Node, r.roleFields, t)
	t.Env = dag.MergeEnv(all, t.Env)
	if p.span.max > 0 {
		t.Nodes = p.span.min
	}
	if p.joins {
		t.Nodes, t.Gang, t.Joins, t.Outputs = 1, "", p.task.Key, nil
	}
	t.On = grouped(append(t.On, p.on...)) // the role's own reactions come first
	if err == nil {
		err = notBoth(t)
	}
	return fault.WithinKey(p.task.Key, fault.Within("gang", fault.Within("roles", fault.WithinKey(p.role, err))))
}

// readOn reads reactions: a mapping from events to an action, to a mapping of the action with its limits, or to a
// list of those.
func (r *reader) readOn(n *yaml.Node) (on []dag.Reaction, err error) {
	entries, err := r.Mapping(n)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		event := dag.Event(e.Key)
		if err := event.Check(); err != nil {
			return nil, fault.WithinKey(e.Key, fault.At(yamlfile.PositionOf(e.Name), err))
		}
		one := func(n *yaml.Node) error {
			reaction, err := r.readReaction(event, n)
			on = append(on, reaction)
			return err
		}
		if e.Node.Kind == yaml.SequenceNode {
			err = r.List(e.Node, func(_ int, n *yaml.Node) error { return one(n) })
		} else {
			err = fault.At(yamlfile.PositionOf(e.Node), one(e.Node))
		}
		if err != nil {
			return nil, fault.WithinKey(e.Key, err)
		}
	}
	if len(on) > jobtext.MaxReactions {
		return nil, fault.OverLimit(fmt.Sprintf("%d reactions, more than %d", len(on), jobtext.MaxReactions), "")
	}
	return grouped(on), nil
}

// grouped sorts reactions by their event, with a stable order.
func grouped(on []dag.Reaction) []dag.Reaction {
	slices.SortStableFunc(on, func(a, b dag.Reaction) int { return cmp.Compare(a.Event, b.Event) })
	return on
}

func (r *reader) readReaction(event dag.Event, n *yaml.Node) (dag.Reaction, error) {
	reaction := dag.Reaction{Event: event}
	y := &r.Reader
	if n.Kind == yaml.ScalarNode {
		s, err := r.Text(n)
		if err != nil {
			return reaction, err
		}
		if reaction.Action = dag.Action(s); reaction.Action.Check() != nil {
			return reaction, reaction.Action.Check()
		}
		return reaction, reaction.Check()
	}
	err := yamlfile.ReadFields(y, n, yamlfile.Fields[*dag.Reaction]{
		"action": yamlfile.TextField(y, func(r *dag.Reaction) *dag.Action { return &r.Action }, word[dag.Action]),
		"limit": yamlfile.TextField(y, func(r *dag.Reaction) *int { return &r.Limit }, func(s string) (int, error) {
			return jobtext.ParseInt(s, 1, jobtext.MaxRetries)
		}),
		"exitCodes": func(to *dag.Reaction, n *yaml.Node) error {
			to.ExitCodes = []int{}
			return r.List(n, func(_ int, n *yaml.Node) error {
				s, err := r.Text(n)
				if err != nil {
					return err
				}
				code, err := jobtext.ParseInt(s, 1, 255)
				to.ExitCodes = append(to.ExitCodes, code)
				return err
			})
		},
	}, &reaction)
	switch {
	case err != nil:
		return reaction, err
	case reaction.Action == "":
		return reaction, fault.Within("action", r.Fault(n, "is missing", "add the action"))
	}
	return reaction, reaction.Check()
}
