package dag

import (
	"cmp"
	"slices"
	"strconv"
)

// position is a place in a file, from 1; 0 is unknown. It is small because there is one for every
// task and edge.
type position struct{ line, column int32 }

// origin remembers where in its file a job said what, for errors found after reading: a cycle, or a
// wish that no cloud can fulfil.
type origin struct {
	file  string
	tasks []position // of each task
	// paths of the tasks in the file where they are not tasks.NAME; nil where they are.
	paths []string
	// marks of the fields of resources, by task and alternative.
	marks []mark
}

// mark is where an alternative of a task, or a field of it, stands.
type mark struct {
	task, alternative int32
	pos               position
	field             string // a field of the native form's resources, or empty for the alternative
	path              string // below the task, as the file spells it
}

// ErrorAt returns an error about task (an index) of j that names the file, line and field which
// asked for it, as far as they are known: a job that was not read from a file, or has been through
// JSON since, has only the field. alternative is an index of the task's Resources, and field the name
// of one of its fields in the native form ("accelerators", "cpus", "instanceType"); empty is the
// alternative as a whole, and a negative alternative the task as a whole.
func (j *Job) ErrorAt(task, alternative int, field, reason, hint string) *Error {
	e := &Error{Reason: reason, Hint: hint}
	if task < 0 || task >= len(j.Tasks) {
		return e
	}
	below := ""
	if alternative >= 0 {
		below = "resources"
		if len(j.Tasks[task].Resources) > 1 {
			below += index(alternative)
		}
		below = joinField(below, field)
	}
	e.Field = joinField(taskPath(j.Tasks[task].Name), below)
	o := j.origin
	if o == nil || task >= len(o.tasks) {
		return e
	}
	e.File = o.file
	pos := o.tasks[task]
	path := taskPath(j.Tasks[task].Name)
	if o.paths != nil {
		path = o.paths[task]
	}
	if j.Format == WfFormat || j.Format == DAX {
		below = "" // they have no fields by these names
	}
	if m, ok := o.find(task, alternative, field); ok {
		pos, below = m.pos, m.path
		if m.field == "" {
			below = joinField(below, field)
		}
	}
	e.Line, e.Column = int(pos.line), int(pos.column)
	e.Field = joinField(path, below)
	return e
}

// find returns the mark of a field, or else of its alternative.
func (o *origin) find(task, alternative int, field string) (mark, bool) {
	if alternative < 0 {
		return mark{}, false
	}
	i, _ := slices.BinarySearchFunc(o.marks, mark{task: int32(task), alternative: int32(alternative)}, compareMarks) //nolint:gosec // both are indexes of lists that are limited
	whole, ok := mark{}, false
	for ; i < len(o.marks) && int(o.marks[i].task) == task && int(o.marks[i].alternative) == alternative; i++ {
		switch o.marks[i].field {
		case field:
			return o.marks[i], true
		case "":
			whole, ok = o.marks[i], true
		}
	}
	return whole, ok
}

func compareMarks(a, b mark) int {
	return cmp.Or(cmp.Compare(a.task, b.task), cmp.Compare(a.alternative, b.alternative))
}

// taskPath is the path of a task in the native form.
func taskPath(name string) string { return joinField("tasks", keyElement(name)) }

// warn adds a warning about a place in the file, unless there are too many already.
func (j *Job) warn(file string, pos position, field, text string) {
	switch n := len(j.Warnings); {
	case n < MaxWarnings-1:
		e := Error{File: file, Line: int(pos.line), Column: int(pos.column), Field: field, Reason: text}
		j.Warnings = append(j.Warnings, e.Error())
	case n == MaxWarnings-1:
		j.Warnings = append(j.Warnings, file+": more warnings than "+strconv.Itoa(MaxWarnings)+" are not shown")
	}
}
