package native

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/dag"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// link is the position in the file of the request for an edge, or of an input.
type link struct {
	pos      fault.Position
	index    int32 // in after or inputs
	isInput  bool
	explicit bool // the file has the amount of data: it is not the size of the outputs
}

// nativeAfter is an entry of after: the task to wait for, and the outputs to read.
type nativeAfter struct {
	task    string
	taskAt  *yaml.Node
	data    dag.GiB
	sized   bool // the file has data
	outputs []string
	each    bool // member to member
}

// nativeInput is an entry of inputs: existing data, or an output of another task. The nodes are those of its fields;
// otherAt is any field of existing data except the URI.
type nativeInput struct {
	dag.Input
	from, output                     string
	each                             bool
	uriAt, otherAt, fromAt, outputAt *yaml.Node
	eachAt                           *yaml.Node
}

// readOutput is an output of a task, by index, that an input of the current task reads.
type readOutput struct {
	from   int
	output string
}

func (r *reader) forAfter() yamlfile.Fields[*nativeAfter] {
	y := &r.Reader
	return yamlfile.Fields[*nativeAfter]{
		"task": func(a *nativeAfter, n *yaml.Node) (err error) {
			a.taskAt = n
			a.task, err = r.Text(n)
			return err
		},
		"each": func(a *nativeAfter, n *yaml.Node) (err error) {
			a.each, err = r.Boolean(n)
			return err
		},
		"data": func(a *nativeAfter, n *yaml.Node) error {
			a.sized = true
			return yamlfile.TextField(y, func(a *nativeAfter) *dag.GiB { return &a.data }, dag.ParseSize)(a, n)
		},
		"outputs": func(a *nativeAfter, n *yaml.Node) error {
			a.outputs = []string{} // an empty list means none of them
			seen := make(map[string]bool)
			return r.List(n, func(i int, n *yaml.Node) error {
				s, err := r.Text(n)
				switch {
				case err != nil:
					return err
				case seen[s]:
					return r.Fault(n, "output "+fault.Quote(s)+" is named twice", "remove one")
				case i == jobtext.MaxFiles:
					return fault.OverLimit(fmt.Sprintf("more than %d outputs", jobtext.MaxFiles), "")
				}
				seen[s] = true
				a.outputs = append(a.outputs, s)
				return nil
			})
		},
	}
}

func (r *reader) readAfter(i int, n *yaml.Node) error {
	var a nativeAfter
	if n.Kind == yaml.ScalarNode {
		a.taskAt = n
		s, err := r.Text(n)
		if err != nil {
			return err
		}
		a.task = s
	} else if err := yamlfile.ReadFields(&r.Reader, n, r.afterFields, &a); err != nil {
		return err
	}
	if a.taskAt == nil {
		return fault.Within("task", r.Fault(n, "is missing", "add the task to wait for"))
	}
	return r.addEdge(a.task, a.taskAt, dag.Edge{Data: a.data, Outputs: a.outputs, Each: a.each},
		link{index: int32(i), explicit: a.sized}) //nolint:gosec // at most MaxFileBytes
}

func (r *reader) forInput() yamlfile.Fields[*nativeInput] {
	y := &r.Reader
	type read = func(*nativeInput, *yaml.Node) error
	// noting returns a function that records the node of a field and then reads it.
	noting := func(where func(*nativeInput) **yaml.Node, then read) read {
		return func(in *nativeInput, n *yaml.Node) error {
			*where(in) = n
			return then(in, n)
		}
	}
	other := func(in *nativeInput) **yaml.Node { return &in.otherAt }
	return yamlfile.Fields[*nativeInput]{
		"uri": noting(func(in *nativeInput) **yaml.Node { return &in.uriAt },
			yamlfile.TextField(y, func(in *nativeInput) *string { return &in.URI },
				yamlfile.Checked(jobtext.CheckPlainURI))),
		"path": noting(
			other,
			yamlfile.TextField(
				y,
				func(in *nativeInput) *string { return &in.Path },
				yamlfile.Checked(jobtext.CheckMountPath),
			),
		),
		"size": noting(
			other,
			yamlfile.TextField(y, func(in *nativeInput) *dag.GiB { return &in.Size }, dag.ParseSize),
		),
		"mount": noting(
			other,
			yamlfile.TextField(y, func(in *nativeInput) *dag.Mount { return &in.Mount }, dag.ParseMount),
		),
		"bucket": noting(
			other,
			yamlfile.TextField(
				y,
				func(in *nativeInput) *dag.Bucket { return &in.Bucket },
				func(s string) (dag.Bucket, error) { return dag.Bucket(s), dag.Bucket(s).Check() },
			),
		),
		"source": noting(
			other,
			yamlfile.TextField(
				y,
				func(in *nativeInput) *string { return &in.Source },
				yamlfile.Checked(jobtext.CheckPlainURI),
			),
		),
		"each": noting(
			func(in *nativeInput) **yaml.Node { return &in.eachAt },
			func(in *nativeInput, n *yaml.Node) (err error) {
				in.each, err = r.Boolean(n)
				return err
			},
		),
		"from": noting(
			func(in *nativeInput) **yaml.Node { return &in.fromAt },
			yamlfile.TextField(
				y,
				func(in *nativeInput) *string { return &in.from },
				yamlfile.Checked(fault.CheckString),
			),
		),
		"output": noting(
			func(in *nativeInput) **yaml.Node { return &in.outputAt },
			yamlfile.TextField(
				y,
				func(in *nativeInput) *string { return &in.output },
				yamlfile.Checked(fault.CheckString),
			),
		),
	}
}

func (r *reader) readInput(t *dag.Task, i int, n *yaml.Node) error {
	var in nativeInput
	if n.Kind == yaml.ScalarNode {
		in.uriAt = n
		if err := r.inputFields["uri"](&in, n); err != nil {
			return err
		}
	} else if err := yamlfile.ReadFields(&r.Reader, n, r.inputFields, &in); err != nil {
		return err
	}
	exists, made := in.uriAt != nil || in.otherAt != nil, in.fromAt != nil || in.outputAt != nil || in.eachAt != nil
	switch {
	case exists && made:
		return r.Fault(
			n,
			"mixes existing data with the output of a task",
			"write {uri, path, size, mount} or {from, output}",
		)
	case made && in.fromAt == nil:
		return fault.Within("from", r.Fault(n, "is missing", "add the task that has the output"))
	case made:
		e := dag.Edge{Each: in.each}
		if in.outputAt != nil {
			e.Outputs = []string{in.output}
		}
		index := int32(i) //nolint:gosec // at most MaxFileBytes
		return r.addEdge(in.from, in.fromAt, e, link{index: index, isInput: true})
	case in.uriAt == nil:
		return fault.Within(
			"uri",
			r.Fault(n, "is missing", "write uri for existing data, or from for the output of a task"),
		)
	case len(t.Inputs) == jobtext.MaxFiles:
		return fault.OverLimit(fmt.Sprintf("more than %d inputs", jobtext.MaxFiles), "")
	}
	if err := in.CheckMount(); err != nil {
		return fault.At(yamlfile.PositionOf(n), err)
	}
	t.Inputs = append(t.Inputs, in.Input)
	index := int32(i) //nolint:gosec // a file has a limit
	r.inputs = append(r.inputs, link{pos: yamlfile.PositionOf(n), index: index})
	return nil
}

// addEdge adds an edge to the current task from the task with the name at node n.
func (r *reader) addEdge(from string, n *yaml.Node, e dag.Edge, l link) error {
	parent, ok := r.index[from]
	if roles := r.gang[from]; !ok && roles != nil {
		if a := r.parts[roles[0]].array; a != nil {
			return r.addArrayEdges(a, roles, n, e, l)
		}
		return r.addEdges(roles, n, e, l)
	}
	if !ok && r.unread[from] {
		return nil // its own fault is the one to report
	}
	if !ok {
		known := slices.AppendSeq(slices.Collect(maps.Keys(r.index)), maps.Keys(r.gang))
		hint := fault.DidYouMean(from, slices.Sorted(slices.Values(known)))
		if hint == "" {
			hint = "tasks are named by their keys under tasks"
		}
		return r.Fault(n, "there is no task "+fault.Quote(from), hint)
	}
	if e.Each {
		return r.Fault(n, "each needs an array, but "+fault.Quote(from)+" is not an array", "remove each")
	}
	return r.addEdgeFrom(parent, n, e, l)
}

// addEdgeFrom is addEdge from a task by its index.
func (r *reader) addEdgeFrom(parent int, n *yaml.Node, e dag.Edge, l link) error {
	e.From, e.To = parent, r.current
	l.pos = yamlfile.PositionOf(n)
	if l.isInput && e.Outputs != nil {
		t := readOutput{parent, e.Outputs[0]}
		if r.taken[t] {
			return r.Fault(n, "output "+fault.Quote(t.output)+" is read twice", "remove one")
		}
		r.taken[t] = true
	}
	if k := int(r.edgeOf[parent]); k < len(r.job.Edges) && r.job.Edges[k].From == parent &&
		r.job.Edges[k].To == r.current {
		return r.joinEdge(k, e, l, n)
	}
	if len(r.job.Edges) == jobtext.MaxEdges {
		return fault.At(l.pos, fault.OverLimit(fmt.Sprintf("more than %d dependencies", jobtext.MaxEdges), ""))
	}
	r.edgeOf[parent] = int32(len(r.job.Edges)) //nolint:gosec // at most dag.MaxEdges
	r.job.Edges = append(r.job.Edges, e)
	r.links = append(r.links, l)
	return nil
}

// addEdges adds edges from all roles of a gang, or only from those that have the named output.
func (r *reader) addEdges(roles []int, n *yaml.Node, e dag.Edge, l link) error {
	if len(e.Outputs) > 0 {
		having := slices.DeleteFunc(slices.Clone(roles), func(i int) bool {
			return !slices.Contains(r.parts[i].outputs, e.Outputs[0])
		})
		if len(having) > 0 { // if no role has the output, the check of the edges returns the error
			roles = having
		}
	}
	for _, i := range roles {
		if err := r.addEdge(r.parts[i].name, n, e, l); err != nil {
			return err
		}
	}
	return nil
}

// joinEdge merges e, requested by l at n, into edge k between the same two tasks. An entry of after only states that
// one task waits for the other, inputs state what it reads, and several inputs may read several outputs.
func (r *reader) joinEdge(k int, e dag.Edge, l link, n *yaml.Node) error {
	have, had := &r.job.Edges[k], &r.links[k]
	switch {
	case l.isInput && had.isInput && e.Outputs != nil && have.Outputs != nil:
		have.Outputs = append(have.Outputs, e.Outputs...)
		return nil
	case had.isInput && onlyOrders(l, e):
		return nil
	case l.isInput && onlyOrders(*had, *have):
		*have, *had = e, l
		return nil
	}
	return r.Fault(
		n,
		"task "+fault.Quote(r.job.Tasks[e.From].Name)+" is already named in after or inputs",
		"name the task only in after, or only in inputs",
	)
}

// onlyOrders reports whether the edge comes from an entry of after that has only the name of a task.
func onlyOrders(l link, e dag.Edge) bool { return !l.isInput && !l.explicit && e.Outputs == nil }
