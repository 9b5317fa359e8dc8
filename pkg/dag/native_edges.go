package dag

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// link is where a native file asks for an edge.
type link struct {
	pos      position
	index    int32 // in after or inputs
	isInput  bool
	explicit bool // Data is as written, not the size of the outputs
}

// nativeAfter is an entry of after: which task to wait for, and what to read of it.
type nativeAfter struct {
	task    string
	taskAt  *yaml.Node
	data    GiB
	sized   bool // data was given
	outputs []string
}

// nativeInput is an entry of inputs: data that exists, or an output of another task. The nodes are
// where its fields stand; otherAt is any field of existing data but the URI.
type nativeInput struct {
	Input
	from, output                     string
	uriAt, otherAt, fromAt, outputAt *yaml.Node
}

// taken is an output of a task, by index, that an input of the current task takes.
type taken struct {
	from   int
	output string
}

func (r *nativeReader) forAfter() fields[*nativeAfter] {
	y := &r.yamlReader
	return fields[*nativeAfter]{
		"task": func(a *nativeAfter, n *yaml.Node) (err error) {
			a.taskAt = n
			a.task, err = r.text(n)
			return err
		},
		"data": func(a *nativeAfter, n *yaml.Node) error {
			a.sized = true
			return textField(y, func(a *nativeAfter) *GiB { return &a.data }, parseSize)(a, n)
		},
		"outputs": func(a *nativeAfter, n *yaml.Node) error {
			a.outputs = []string{} // an empty list is none of them
			seen := make(map[string]bool)
			return r.list(n, func(i int, n *yaml.Node) error {
				s, err := r.text(n)
				switch {
				case err != nil:
					return err
				case seen[s]:
					return r.fault(n, "output "+quote(s)+" is named twice", "remove one")
				case i == MaxFiles:
					return overLimit(fmt.Sprintf("more than %d outputs", MaxFiles), "")
				}
				seen[s] = true
				a.outputs = append(a.outputs, s)
				return nil
			})
		},
	}
}

func (r *nativeReader) readAfter(i int, n *yaml.Node) error {
	var a nativeAfter
	if n.Kind == yaml.ScalarNode {
		a.taskAt = n
		s, err := r.text(n)
		if err != nil {
			return err
		}
		a.task = s
	} else if err := readFields(&r.yamlReader, n, r.afterFields, &a); err != nil {
		return err
	}
	if a.taskAt == nil {
		return within("task", r.fault(n, "is missing", "say which task to wait for"))
	}
	return r.addEdge(a.task, a.taskAt, Edge{Data: a.data, Outputs: a.outputs},
		link{index: int32(i), explicit: a.sized}) //nolint:gosec // at most MaxFileBytes
}

func (r *nativeReader) forInput() fields[*nativeInput] {
	y := &r.yamlReader
	type read = func(*nativeInput, *yaml.Node) error
	// noting remembers where a field stands.
	noting := func(where func(*nativeInput) **yaml.Node, then read) read {
		return func(in *nativeInput, n *yaml.Node) error {
			*where(in) = n
			return then(in, n)
		}
	}
	other := func(in *nativeInput) **yaml.Node { return &in.otherAt }
	return fields[*nativeInput]{
		"uri": noting(func(in *nativeInput) **yaml.Node { return &in.uriAt },
			textField(y, func(in *nativeInput) *string { return &in.URI }, checked(checkURI))),
		"path": noting(other, textField(y, func(in *nativeInput) *string { return &in.Path }, checked(checkMountPath))),
		"size": noting(other, textField(y, func(in *nativeInput) *GiB { return &in.Size }, parseSize)),
		"mount": noting(other, func(in *nativeInput, n *yaml.Node) (err error) {
			in.Mount, err = r.boolean(n)
			return err
		}),
		"from": noting(func(in *nativeInput) **yaml.Node { return &in.fromAt },
			textField(y, func(in *nativeInput) *string { return &in.from }, checked(checkString))),
		"output": noting(func(in *nativeInput) **yaml.Node { return &in.outputAt },
			textField(y, func(in *nativeInput) *string { return &in.output }, checked(checkString))),
	}
}

func (r *nativeReader) readInput(t *Task, i int, n *yaml.Node) error {
	var in nativeInput
	if n.Kind == yaml.ScalarNode {
		in.uriAt = n
		if err := r.inputFields["uri"](&in, n); err != nil {
			return err
		}
	} else if err := readFields(&r.yamlReader, n, r.inputFields, &in); err != nil {
		return err
	}
	exists, made := in.uriAt != nil || in.otherAt != nil, in.fromAt != nil || in.outputAt != nil
	switch {
	case exists && made:
		return r.fault(n, "mixes data that exists with the output of a task", "write {uri, path, size, mount} or {from, output}")
	case made && in.fromAt == nil:
		return within("from", r.fault(n, "is missing", "say which task's output it is"))
	case made:
		e := Edge{}
		if in.outputAt != nil {
			e.Outputs = []string{in.output}
		}
		return r.addEdge(in.from, in.fromAt, e, link{index: int32(i), isInput: true}) //nolint:gosec // at most MaxFileBytes
	case in.uriAt == nil:
		return within("uri", r.fault(n, "is missing", "write uri for data that exists, or from for the output of a task"))
	case len(t.Inputs) == MaxFiles:
		return overLimit(fmt.Sprintf("more than %d inputs", MaxFiles), "")
	}
	t.Inputs = append(t.Inputs, in.Input)
	return nil
}

// addEdge adds an edge to the current task from the one named at node n.
func (r *nativeReader) addEdge(from string, n *yaml.Node, e Edge, l link) error {
	parent, ok := r.index[from]
	if !ok {
		hint := didYouMean(from, sortedKeys(r.index))
		if hint == "" {
			hint = "tasks are named by their keys under tasks"
		}
		return r.fault(n, "there is no task "+quote(from), hint)
	}
	e.From, e.To = parent, r.current
	l.pos = positionOf(n)
	if l.isInput && e.Outputs != nil {
		t := taken{parent, e.Outputs[0]}
		if r.taken[t] {
			return r.fault(n, "output "+quote(t.output)+" is taken twice", "remove one")
		}
		r.taken[t] = true
	}
	if k := int(r.edgeOf[parent]); k < len(r.job.Edges) && r.job.Edges[k].From == parent && r.job.Edges[k].To == r.current {
		return r.joinEdge(k, e, l, n)
	}
	if len(r.job.Edges) == MaxEdges {
		return at(l.pos, overLimit(fmt.Sprintf("more than %d dependencies", MaxEdges), ""))
	}
	r.edgeOf[parent] = int32(len(r.job.Edges)) //nolint:gosec // at most MaxEdges
	r.job.Edges = append(r.job.Edges, e)
	r.links = append(r.links, l)
	return nil
}

// joinEdge joins e, asked for by l at n, to edge k between the same two tasks: after says that one
// waits for the other, inputs what it reads, and several inputs may take several outputs.
func (r *nativeReader) joinEdge(k int, e Edge, l link, n *yaml.Node) error {
	have, had := &r.job.Edges[k], &r.links[k]
	switch {
	case l.isInput && had.isInput && e.Outputs != nil && have.Outputs != nil:
		have.Outputs = append(have.Outputs, e.Outputs...)
		return nil
	case had.isInput && bare(l, e):
		return nil
	case l.isInput && bare(*had, *have):
		*have, *had = e, l
		return nil
	}
	return r.fault(n, "task "+quote(r.job.Tasks[e.From].Name)+" is waited for already", "say what is read of it in one place")
}

// bare says whether an edge was asked for in after with nothing but the name of a task.
func bare(l link, e Edge) bool { return !l.isInput && !l.explicit && e.Outputs == nil }
