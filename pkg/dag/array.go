package dag

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// Array is a task of the file that runs once for each of its members. The members are tasks of the job, next to each
// other, named NAME[INDEX]. They differ only in their environment (MemberEnv) and in the addresses of their data.
type Array struct {
	Name  string `json:"name"`
	First int    `json:"first"` // the first member's index in Job.Tasks
	Size  int    `json:"size"`
	// From is the index of the first member in the array, and Step the distance between two; 0 is 1.
	From int `json:"from,omitempty"`
	Step int `json:"step,omitempty"`
	// Values has the value of each member; nil if they have none. Matrix has several values for each member instead:
	// its members are the combinations, and the last axis changes first.
	Values []string `json:"values,omitempty"`
	Matrix []Axis   `json:"matrix,omitempty"`
	// MaxParallel is the maximum number of members that run at the same time; 0 is no limit.
	MaxParallel int `json:"maxParallel,omitempty"`
	// AllowFailures is the number of members that may fail for good while the array still counts as succeeded.
	AllowFailures int `json:"allowFailures,omitempty"`
	// InputURIs and OutputURIs are the addresses of the members' inputs and outputs, with placeholders.
	// An address without placeholders is left empty. If none has any, the list is nil.
	InputURIs  []string `json:"inputURIs,omitempty"`
	OutputURIs []string `json:"outputURIs,omitempty"`
}

// Axis is one name of a matrix with its values.
type Axis struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// OnFailure is the reaction of a job when one of its tasks has failed for good.
type OnFailure string

// StopJob, the default, ends the job. ContinueJob still runs the tasks that do not depend on a failed task, and then
// fails the job.
const (
	StopJob     OnFailure = "stop"
	ContinueJob OnFailure = "continue"
)

// Check returns an error if f is not one of the choices.
func (f OnFailure) Check() error { return fault.CheckWord("choice", f, StopJob, ContinueJob) }

// Environment variables that members of arrays have. matrixVariable is followed by the name of an axis in capitals.
const (
	indexVariable  = "TRADEWIND_ARRAY_INDEX"
	sizeVariable   = "TRADEWIND_ARRAY_SIZE"
	valueVariable  = "TRADEWIND_ARRAY_VALUE"
	matrixVariable = "TRADEWIND_MATRIX_"
)

// Index returns the index of a member by its position in the array, from 0.
func (a *Array) Index(member int) int { return a.From + member*max(a.Step, 1) }

// Member returns the name of a member by its position in the array, from 0.
func (a *Array) Member(member int) string { return memberName(a.Name, a.Index(member)) }

// memberName returns the name of the member of an array with an index: a[17].
func memberName(array string, index int) string { return array + "[" + strconv.Itoa(index) + "]" }

// Span returns the name of the array with the indexes of its members: a[0-99], or a[1-100:3].
func (a *Array) Span() string {
	step := ""
	if a.Step > 1 && a.Size > 1 {
		step = ":" + strconv.Itoa(a.Step)
	}
	if a.Size == 1 {
		return a.Member(0)
	}
	return fmt.Sprintf("%s[%d-%d%s]", a.Name, a.Index(0), a.Index(a.Size-1), step)
}

// SameIndexes reports whether two arrays have members with the same indexes.
func (a *Array) SameIndexes(b *Array) bool {
	return a.Size == b.Size && a.From == b.From && (a.Size == 1 || max(a.Step, 1) == max(b.Step, 1))
}

// values returns the values of a member by the names that placeholders use, in a fixed order.
func (a *Array) values(member int) (named []Axis) {
	one := func(name, value string) { named = append(named, Axis{name, []string{value}}) }
	one("index", strconv.Itoa(a.Index(member)))
	if a.Values != nil {
		one("value", a.Values[member])
	}
	rest := member
	for i := len(a.Matrix) - 1; i >= 0; i-- {
		x := &a.Matrix[i]
		one(matrixPlaceholder+x.Name, x.Values[rest%len(x.Values)])
		rest /= len(x.Values)
	}
	return named
}

// matrixPlaceholder begins the placeholder of an axis: {matrix.lr}.
const matrixPlaceholder = "matrix."

// Env returns the environment variables of a member, by its position in the array.
func (a *Array) Env(member int) map[string]string {
	env := map[string]string{sizeVariable: strconv.Itoa(a.Size)}
	for _, v := range a.values(member) {
		axis, ofMatrix := strings.CutPrefix(v.Name, matrixPlaceholder)
		switch {
		case ofMatrix:
			env[matrixVariable+strings.ToUpper(axis)] = v.Values[0]
		case v.Name == "value":
			env[valueVariable] = v.Values[0]
		default:
			env[indexVariable] = v.Values[0]
		}
	}
	return env
}

// ArrayOf returns the array that a task is a member of, and its position in it, or nil.
func (j *Job) ArrayOf(task int) (a *Array, member int) {
	i, exact := slices.BinarySearchFunc(j.Arrays, task,
		func(a Array, task int) int { return cmp.Compare(a.First, task) })
	if !exact {
		i--
	}
	if i < 0 || task >= j.Arrays[i].First+j.Arrays[i].Size {
		return nil, 0
	}
	return &j.Arrays[i], task - j.Arrays[i].First
}

// MemberEnv returns the environment variables that a task has as a member of an array; nil if it is none.
func (j *Job) MemberEnv(task int) map[string]string {
	if a, member := j.ArrayOf(task); a != nil {
		return a.Env(member)
	}
	return nil
}

// Expand sets the addresses of the members' inputs and outputs from InputURIs and OutputURIs: it replaces the
// placeholders {index}, {value} and {matrix.NAME}. The members must not share their inputs and outputs.
func (a *Array) Expand(members []Task) {
	if a.InputURIs == nil && a.OutputURIs == nil {
		return
	}
	for k := range members {
		t, with := &members[k], a.replacer(k)
		for i, uri := range a.InputURIs {
			if uri != "" {
				t.Inputs[i].URI = with.Replace(uri)
			}
		}
		for i, uri := range a.OutputURIs {
			if uri != "" {
				t.Outputs[i].URI = with.Replace(uri)
			}
		}
	}
}

// Template returns the inputs and outputs of an array, given its first member, with their placeholders.
func (a *Array) Template(first *Task) (inputs []Input, outputs []Output) {
	inputs, outputs = slices.Clone(first.Inputs), slices.Clone(first.Outputs)
	for i, uri := range a.InputURIs {
		if uri != "" {
			inputs[i].URI = uri
		}
	}
	for i, uri := range a.OutputURIs {
		if uri != "" {
			outputs[i].URI = uri
		}
	}
	return inputs, outputs
}

func (a *Array) replacer(member int) *strings.Replacer {
	var pairs []string
	for _, v := range a.values(member) {
		pairs = append(pairs, "{"+v.Name+"}", v.Values[0])
	}
	return strings.NewReplacer(pairs...)
}

// HasPlaceholder reports whether an address has a placeholder. It returns an error for one that the array does not
// have, and for one in a local path: local files are uploaded once for the whole array.
func (a *Array) HasPlaceholder(uri string) (has bool, err error) {
	var known []string
	for _, v := range a.values(0) {
		known = append(known, "{"+v.Name+"}")
	}
	slices.Sort(known)
	remote := strings.Contains(uri, "://")
	for rest := uri; ; {
		_, after, some := strings.Cut(rest, "{")
		name, more, closed := strings.Cut(after, "}")
		if !some || !closed {
			return has, nil
		}
		rest = more
		switch is := slices.Contains(known, "{"+name+"}"); {
		case !is && remote:
			return false, fault.New(fault.Quote("{"+name+"}")+" is not a value of a member",
				"it has "+strings.Join(known, ", "))
		case is && !remote:
			return false, fault.New("a local path cannot differ between members",
				"name the folder, and use $"+indexVariable+" in run")
		case is:
			has = true
		}
	}
}

// CheckOutputs returns the first output that two members of an array would write to the same address, with the fault.
// The output is -1 if there is none.
func (a *Array) CheckOutputs(members []Task) (output int, err error) {
	for i := range members[0].Outputs {
		if members[0].Outputs[i].URI == "" {
			continue
		}
		seen := make(map[string]int, len(members))
		for k := range members {
			uri := strings.TrimRight(members[k].Outputs[i].URI, "/")
			if first, twice := seen[uri]; twice {
				return i, fault.New(
					fmt.Sprintf("members %s and %s would both write to %s", members[first].Name, members[k].Name, uri),
					"put {index} into it, as in s3://bucket/results/{index}/")
			}
			seen[uri] = k
		}
	}
	return -1, nil
}

// validateArrays checks the arrays against the tasks.
func (j *Job) validateArrays() error {
	next := 0
	for i := range j.Arrays {
		a := &j.Arrays[i]
		if err := a.validate(next, len(j.Tasks)); err != nil {
			return fault.Within("arrays"+fault.Index(i), err)
		}
		next = a.First + a.Size
		members := j.Tasks[a.First:next]
		for k := range members {
			t := &members[k]
			switch {
			case t.Name != a.Member(k):
				return j.AtTask(a.First+k, fault.New("is member "+strconv.Itoa(k)+" of array "+fault.Quote(a.Name)+
					" and not named "+a.Member(k), ""))
			case t.Gang != "" || t.Joins != "" || t.Service != nil:
				return j.AtTask(a.First+k, fault.Within("array",
					fault.New("cannot be combined with a gang or a service", "use nodes for several machines")))
			case len(t.Outputs) != len(members[0].Outputs) || len(t.Inputs) != len(members[0].Inputs):
				return j.AtTask(a.First+k, fault.New("has other inputs or outputs than the first member", ""))
			}
		}
		if err := a.validateTemplates(&members[0]); err != nil {
			return j.AtTask(a.First, err)
		}
		if output, err := a.CheckOutputs(members); err != nil {
			return j.AtTask(a.First, fault.Within("outputs"+fault.Index(output), err))
		}
	}
	return nil
}

// validateTemplates returns an error for a placeholder that a member does not have, or that was not replaced.
func (a *Array) validateTemplates(first *Task) error {
	if a.InputURIs != nil && len(a.InputURIs) != len(first.Inputs) ||
		a.OutputURIs != nil && len(a.OutputURIs) != len(first.Outputs) {
		return fault.New("has other inputs or outputs than its array", "")
	}
	check := func(field, uri string, i int, replaced bool) error {
		has, err := a.HasPlaceholder(uri)
		if err == nil && has != replaced {
			err = fault.New("has a placeholder that was not replaced", "")
		}
		return fault.Within(field+fault.Index(i), fault.Within("uri", err))
	}
	inputs, outputs := a.Template(first)
	for i := range inputs {
		if err := check("inputs", inputs[i].URI, i, a.InputURIs != nil && a.InputURIs[i] != ""); err != nil {
			return err
		}
	}
	for i := range outputs {
		if err := check("outputs", outputs[i].URI, i, a.OutputURIs != nil && a.OutputURIs[i] != ""); err != nil {
			return err
		}
	}
	return nil
}

func (a *Array) validate(from, tasks int) error {
	if err := jobtext.CheckName(a.Name); err != nil {
		return fault.Within("name", err)
	}
	if a.First < from || a.Size < 1 || a.Size > tasks-a.First {
		return fault.New(fmt.Sprintf("has tasks %d to %d of %d", a.First, a.First+a.Size-1, tasks), "")
	}
	if a.From < 0 || a.Step < 0 || max(a.From, a.Step, a.Index(a.Size-1)) > jobtext.MaxArrayIndex {
		return fault.New(fmt.Sprintf("has an index below 0 or above %d", jobtext.MaxArrayIndex), "")
	}
	if len(a.Member(a.Size-1)) > jobtext.MaxNameBytes {
		return fault.Within("name", fault.New(fmt.Sprintf("is too long: %s has more than %d characters",
			fault.Quote(a.Member(a.Size-1)), jobtext.MaxNameBytes), ""))
	}
	if err := a.validateValues(); err != nil {
		return err
	}
	return cmp.Or(
		fault.Within("maxParallel", jobtext.CheckCount(a.MaxParallel, 0, jobtext.MaxTasks)),
		fault.Within("allowFailures", jobtext.CheckCount(a.AllowFailures, 0, a.Size)),
	)
}

func (a *Array) validateValues() error {
	if a.Values != nil && (len(a.Values) != a.Size || a.Matrix != nil || a.From != 0 || a.Step != 0) {
		return fault.Within("values", fault.New(fmt.Sprintf("has %d values for %d members", len(a.Values), a.Size), ""))
	}
	for i := range a.Values {
		if err := jobtext.CheckValue(a.Values[i]); err != nil {
			return fault.Within("values"+fault.Index(i), err)
		}
	}
	if a.Matrix == nil {
		return nil
	}
	if size, err := MatrixSize(a.Matrix); err != nil || size != a.Size || a.From != 0 || a.Step != 0 {
		return fault.Within("matrix", cmp.Or(err,
			fault.New(fmt.Sprintf("has %d combinations for %d members", size, a.Size), "")))
	}
	return nil
}

// MatrixSize returns the number of combinations of a matrix. It returns an error if a name or value is invalid, or if
// there are more than MaxTasks.
func MatrixSize(axes []Axis) (size int, err error) {
	size = 1
	seen := map[string]string{}
	for i := range axes {
		x := &axes[i]
		upper := strings.ToUpper(x.Name)
		if err := jobtext.CheckEnvName(x.Name); err != nil {
			return 0, fault.WithinKey(x.Name, err)
		}
		if other, twice := seen[upper]; twice {
			return 0, fault.WithinKey(x.Name, fault.New(
				"has the same variable, "+matrixVariable+upper+", as "+fault.Quote(other), "rename one"))
		}
		seen[upper] = x.Name
		if len(x.Values) == 0 {
			return 0, fault.WithinKey(x.Name, fault.New("has no values", "write at least one"))
		}
		for k := range x.Values {
			if err := jobtext.CheckValue(x.Values[k]); err != nil {
				return 0, fault.WithinKey(x.Name, fault.Within(fault.Index(k), err))
			}
		}
		if size > jobtext.MaxTasks/len(x.Values) {
			return 0, fault.OverLimit(fmt.Sprintf("has more than %d combinations", jobtext.MaxTasks), "")
		}
		size *= len(x.Values)
	}
	if len(axes) == 0 {
		return 0, fault.New("is empty", "as in {lr: [0.1, 0.01], seed: [1, 2, 3]}")
	}
	return size, nil
}

// checkOnFailure returns an error if the job should continue after a failure but its other tasks
// could not.
func (j *Job) checkOnFailure() error {
	if j.OnFailure == "" {
		return nil
	}
	if err := j.OnFailure.Check(); err != nil || j.OnFailure == StopJob {
		return err
	}
	return j.CheckContinues()
}

// CheckContinues returns an error if the job has a gang or a service: they end the job if one of their tasks fails.
func (j *Job) CheckContinues() error {
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.Gang != "" || t.Joins != "" || t.Service != nil {
			return fault.New("a job with a gang or a service cannot continue after a failure: task "+
				fault.Quote(t.Name), "leave it out, or write the gang as a separate job")
		}
	}
	return nil
}

// checkMembers returns an error if an edge is marked All or Each, but its tasks are not members of
// matching arrays.
func (j *Job) checkMembers(e *Edge) error {
	if !e.All && !e.Each {
		return nil
	}
	from, k := j.ArrayOf(e.From)
	to, m := j.ArrayOf(e.To)
	switch {
	case from == nil, e.All && e.Each, e.Each && (to == nil || k != m || !from.SameIndexes(to)):
		return fault.New("task "+fault.Quote(j.Tasks[e.From].Name)+" is not a member of a matching array", "")
	}
	return nil
}
