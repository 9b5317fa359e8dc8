package native

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// The file has an array once. It is read as one task for each member: the fields of the first member are read, and the
// others are copies of it.

// arrayFields are the fields of a task that only an array has.
func arrayFields() []string { return []string{"array", "matrix", "maxParallel", "allowFailures"} }

// arrayOf returns the array of an entry of tasks, without its position among the tasks, or nil for other tasks. room is
// the number of tasks that the job may still have.
func (r *reader) arrayOf(e yamlfile.Entry, room int) (*dag.Array, error) {
	fields := map[string]*yaml.Node{}
	for _, key := range append(arrayFields(), "service", "gang", "joins") {
		n, err := r.fieldOf(e.Node, key)
		if err != nil {
			return nil, err
		}
		if n != nil {
			fields[key] = n
		}
	}
	if fields["array"] == nil && fields["matrix"] == nil {
		return nil, nil
	}
	for _, other := range []string{"service", "gang", "joins"} {
		if n := fields[other]; n != nil {
			return nil, fault.Within(other, r.Fault(n, "cannot be combined with array or matrix",
				"use nodes for several machines of a member"))
		}
	}
	a := &dag.Array{Name: e.Key}
	key, err := "array", error(nil)
	switch {
	case fields["array"] != nil && fields["matrix"] != nil:
		return nil, fault.Within("matrix", r.Fault(fields["matrix"], "cannot be combined with array", "remove one"))
	case fields["array"] != nil:
		err = r.readIndexes(a, fields["array"])
	default:
		key, err = "matrix", r.readMatrix(a, fields["matrix"])
	}
	at := yamlfile.PositionOf(fields[key])
	if err == nil && a.Size > room {
		err = fault.OverLimit(fmt.Sprintf("%d members are more than the %d tasks that the job may still have", a.Size,
			room), "")
	}
	if err == nil {
		err = jobtext.CheckName(strings.ReplaceAll(strings.TrimSuffix(a.Member(a.Size-1), "]"), "[", "."))
	}
	if err != nil {
		return nil, fault.Within(key, fault.At(at, err))
	}
	return a, r.readArrayLimits(a, fields)
}

// readIndexes reads N, {from, to, step} or {values}. It allocates nothing of the array's size.
func (r *reader) readIndexes(a *dag.Array, n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		s, err := r.Text(n)
		if err == nil {
			a.Size, err = count(s)
		}
		return err
	}
	number := func(to *int, least int) func(*dag.Array, *yaml.Node) error {
		return yamlfile.TextField(&r.Reader, func(*dag.Array) *int { return to }, func(s string) (int, error) {
			return jobtext.ParseInt(s, least, jobtext.MaxArrayIndex)
		})
	}
	to, ranged := -1, false
	err := yamlfile.ReadFields(&r.Reader, n, yamlfile.Fields[*dag.Array]{
		"from": func(a *dag.Array, n *yaml.Node) error { ranged = true; return number(&a.From, 0)(a, n) },
		"to":   func(a *dag.Array, n *yaml.Node) error { ranged = true; return number(&to, 0)(a, n) },
		"step": func(a *dag.Array, n *yaml.Node) error { ranged = true; return number(&a.Step, 1)(a, n) },
		"values": func(a *dag.Array, n *yaml.Node) (err error) {
			a.Values, err = r.readValues(n)
			return err
		},
	}, a)
	switch {
	case err != nil:
		return err
	case a.Values != nil && ranged:
		return r.Fault(n, "has values and a range", "write {values: […]} or {from, to, step}")
	case a.Values != nil:
		a.Size = len(a.Values)
		return nil
	case to < 0:
		return fault.Within("to", r.Fault(n, "is missing", "add the last index: {from: 1, to: 100}"))
	case to < a.From:
		return fault.Within("to", r.Fault(n, fmt.Sprintf("%d is less than from, %d", to, a.From), ""))
	}
	if a.Step == 1 {
		a.Step = 0
	}
	if a.Size = (to-a.From)/max(a.Step, 1) + 1; a.Size > jobtext.MaxTasks {
		return tooMany(a.Size)
	}
	return nil
}

func count(s string) (int, error) {
	if n, _ := jobtext.ParseInt(s, 0, math.MaxInt32); n > jobtext.MaxTasks {
		return 0, tooMany(n)
	}
	return jobtext.ParseInt(s, 1, jobtext.MaxTasks)
}

func tooMany(n int) error {
	return fault.OverLimit(fmt.Sprintf("%d members, more than %d", n, jobtext.MaxTasks), "")
}

// readValues reads a list of values, each any scalar.
func (r *reader) readValues(n *yaml.Node) (values []string, err error) {
	if n.Kind == yaml.SequenceNode && len(n.Content) > jobtext.MaxTasks {
		return nil, tooMany(len(n.Content))
	}
	err = r.List(n, func(_ int, n *yaml.Node) error {
		s, err := r.Text(n)
		if err == nil {
			err = fault.At(yamlfile.PositionOf(n), jobtext.CheckValue(s))
		}
		values = append(values, s)
		return err
	})
	if err == nil && len(values) == 0 {
		err = r.Fault(n, "is empty", "write at least one value")
	}
	return values, err
}

func (r *reader) readMatrix(a *dag.Array, n *yaml.Node) error {
	err := r.Each(n, func(e yamlfile.Entry) error {
		if err := jobtext.CheckEnvName(e.Key); err != nil {
			return fault.At(yamlfile.PositionOf(e.Name), err)
		}
		values, err := r.readValues(e.Node)
		a.Matrix = append(a.Matrix, dag.Axis{Name: e.Key, Values: values})
		return err
	})
	if err == nil {
		a.Size, err = dag.MatrixSize(a.Matrix)
	}
	return err
}

// readArrayLimits reads maxParallel and allowFailures.
func (r *reader) readArrayLimits(a *dag.Array, fields map[string]*yaml.Node) error {
	for key, read := range map[string]func(string) error{
		"maxParallel": func(s string) (err error) {
			a.MaxParallel, err = jobtext.ParseInt(s, 1, jobtext.MaxTasks)
			return err
		},
		"allowFailures": func(s string) (err error) {
			a.AllowFailures, err = allowed(s, a.Size)
			return err
		},
	} {
		n := fields[key]
		if n == nil {
			continue
		}
		s, err := r.Text(n)
		if err == nil {
			err = fault.At(yamlfile.PositionOf(n), read(s))
		}
		if err != nil {
			return fault.Within(key, err)
		}
	}
	return nil
}

// allowed reads a number of members, or a share of them as 5%, which is rounded down.
func allowed(s string, size int) (int, error) {
	percent, share := strings.CutSuffix(strings.TrimSpace(s), "%")
	if !share {
		return jobtext.ParseInt(s, 0, size)
	}
	v, err := jobtext.ParseNumber(percent)
	if err != nil || !(v >= 0 && v <= 100) {
		return 0, fault.New(fault.Quote(s)+" is not a share of the members", "as in 5%, from 0% to 100%")
	}
	return int(math.Floor(float64(size)*v/100 + 1e-9)), nil
}

// membersOf returns the parts of an array.
func membersOf(e yamlfile.Entry, a *dag.Array) []taskPart {
	parts := make([]taskPart, a.Size)
	for k := range parts {
		parts[k] = taskPart{name: a.Member(k), path: e.Key, entry: e, array: a}
	}
	return parts
}

// onlyArrays refuses a field of arrays in another task.
func (r *reader) onlyArrays(_ *dag.Task, n *yaml.Node) error {
	if r.parts[r.current].array == nil {
		return r.Fault(n, "only an array has it", "add array: N")
	}
	return nil // already read by arrayOf
}

// copyMembers makes the other members of an array as copies of the first, which was just read. edges and marks are
// the indexes of the first member's first edge and first mark.
func (r *reader) copyMembers(first, edges, marks int) error {
	a, j := r.parts[first].array, r.job
	a.First = first
	if err := r.checkEachAndOne(a, edges); err != nil {
		return err
	}
	links := len(j.Edges) - edges
	if links > 0 && a.Size > 1 && links > (jobtext.MaxEdges-edges)/a.Size {
		return fault.At(r.links[edges].pos, fault.Within("after", fault.OverLimit(
			fmt.Sprintf("%d members that each wait for %d tasks have more than %d dependencies", a.Size, links,
				jobtext.MaxEdges), "put a task between the two arrays, or use each: true")))
	}
	for k := 1; k < a.Size; k++ {
		t := copied(j.Tasks[first])
		t.Name, t.Inputs, t.Outputs = a.Member(k), slices.Clone(t.Inputs), slices.Clone(t.Outputs)
		t.Secrets = slices.Clone(t.Secrets)
		j.Tasks[first+k] = t
		for i := range links {
			e, l := j.Edges[edges+i], r.links[edges+i]
			if e.To += k; e.Each {
				e.From += k
			}
			j.Edges, r.links = append(j.Edges, e), append(r.links, l)
		}
		for _, m := range r.origin.Marks[marks : marks+r.marked] {
			m.Task += int32(k) //nolint:gosec // below dag.MaxTasks
			r.origin.Marks = append(r.origin.Marks, m)
		}
	}
	j.Arrays = append(j.Arrays, *a)
	return r.expand(&j.Arrays[len(j.Arrays)-1])
}

// checkEachAndOne refuses an array whose members wait for the members of another at the same position and also for a
// single member of it.
func (r *reader) checkEachAndOne(a *dag.Array, edges int) error {
	for i := edges; i < len(r.job.Edges); i++ {
		e := &r.job.Edges[i]
		of := r.parts[e.From].array
		if of == nil || e.Each || e.All {
			continue
		}
		for k := edges; k < len(r.job.Edges); k++ {
			if other := &r.job.Edges[k]; other.Each && r.parts[other.From].array == of {
				field := "after"
				if r.links[i].isInput {
					field = "inputs"
				}
				return fault.At(r.links[i].pos, fault.Within(field+fault.Index(int(r.links[i].index)), fault.New(
					"the members of "+fault.Quote(a.Name)+" already wait for those of "+fault.Quote(of.Name)+
						" with each", "remove one")))
			}
		}
	}
	return nil
}

// expand replaces the placeholders in the inputs and outputs of an array's members, and refuses outputs that two
// members would write to the same address.
func (r *reader) expand(a *dag.Array) error {
	members := r.job.Tasks[a.First : a.First+a.Size]
	t := &members[0]
	put := func(list *[]string, n, i int, uri string) error {
		has, err := a.HasPlaceholder(uri)
		if has && *list == nil {
			*list = make([]string, n)
		}
		if has {
			(*list)[i] = uri
		}
		return err
	}
	for i := range t.Inputs {
		if err := put(&a.InputURIs, len(t.Inputs), i, t.Inputs[i].URI); err != nil {
			return fault.At(r.inputs[i].pos, fault.Within("inputs"+fault.Index(int(r.inputs[i].index)), err))
		}
	}
	for i := range t.Outputs {
		if err := put(&a.OutputURIs, len(t.Outputs), i, t.Outputs[i].URI); err != nil {
			return fault.At(r.outputs[i], fault.Within("outputs"+fault.Index(i), fault.Within("uri", err)))
		}
	}
	a.Expand(members)
	if i, err := a.CheckOutputs(members); err != nil {
		return fault.At(r.outputs[i], fault.Within("outputs"+fault.Index(i), fault.Within("uri", err)))
	}
	return nil
}

// addArrayEdges adds edges to the current task from an array: from all its members, or from the member at the same
// position.
func (r *reader) addArrayEdges(a *dag.Array, members []int, n *yaml.Node, e dag.Edge, l link) error {
	if !e.Each {
		if len(members) > jobtext.MaxEdges-len(r.job.Edges) {
			return fault.At(yamlfile.PositionOf(n), fault.OverLimit(
				fmt.Sprintf("more than %d dependencies", jobtext.MaxEdges), ""))
		}
		e.All = true
		for _, i := range members {
			if err := r.addEdgeFrom(i, n, e, l); err != nil {
				return err
			}
		}
		return nil
	}
	to := r.parts[r.current].array
	switch {
	case to == nil:
		return r.Fault(n, "each needs an array, but "+fault.Quote(r.parts[r.current].name)+" is not an array",
			"without each it waits for all members")
	case !to.SameIndexes(a):
		return r.Fault(n,
			fmt.Sprintf("each needs the same indexes in both arrays, but they have %s and %s", a.Span(), to.Span()),
			"without each it waits for all members")
	}
	return r.addEdgeFrom(members[0], n, e, l)
}
