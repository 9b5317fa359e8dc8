package dag

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/fault"
)

// Origin remembers where in its file a job said what, for errors found after reading: a cycle, or a
// wish that no cloud can fulfil.
type Origin struct {
	File  string
	Tasks []fault.Position // of each task
	// Paths of the tasks in the file where they are not tasks.NAME; nil where they are.
	Paths []string
	// Marks of files (whose alternative is OfFiles) and of the fields of resources, by task and alternative.
	Marks []Mark
}

// Mark is where an alternative of a task, or a field of it, stands.
type Mark struct {
	Task, Alternative int32
	Pos               fault.Position
	Field             string // a field of the native form's resources, or empty for the alternative
	Path              string // below the task, as the file spells it
}

// OfFiles stands for an alternative in the Mark of a workdir, whose Field is "workdir", and of an input, whose Field is
// InputField of its index.
const OfFiles = -1

// InputField is the field that is an input of a task.
func InputField(i int) string { return "inputs" + fault.Index(i) }

// ErrorAt returns an error about task (an index) of j that names the file, line and field which
// asked for it, as far as they are known: a job that was not read from a file, or has been through
// JSON since, has only the field. alternative is an index of the task's Resources, and field the name
// of one of its fields in the native form ("accelerators", "cpus", "instanceType"); empty is the
// alternative as a whole. OfFiles is a field of the task itself: "workdir" or an InputField, or empty for the task.
func (j *Job) ErrorAt(task, alternative int, field, reason, hint string) *Error {
	e := &Error{Reason: reason, Hint: hint}
	if task < 0 || task >= len(j.Tasks) {
		return e
	}
	below := ""
	if alternative >= 0 {
		below = "resources"
		if len(j.Tasks[task].Resources) > 1 {
			below += fault.Index(alternative)
		}
		below = fault.Join(below, field)
	} else {
		below = field
	}
	e.Field = fault.Join(TaskPath(j.Tasks[task].Name), below)
	o := j.origin
	if o == nil || task >= len(o.Tasks) {
		return e
	}
	e.File = o.File
	pos := o.Tasks[task]
	path := TaskPath(j.Tasks[task].Name)
	if o.Paths != nil {
		path = o.Paths[task]
	}
	if j.Format == WfFormat || j.Format == DAX {
		below = "" // they have no fields by these names
	}
	if m, ok := o.find(task, alternative, field); ok {
		pos, below = m.Pos, m.Path
		if m.Field == "" {
			below = fault.Join(below, field)
		}
	}
	e.Line, e.Column = int(pos.Line), int(pos.Column)
	e.Field = fault.Join(path, below)
	return e
}

// alternativeField is a field of a task's resources, as ErrorAt and files in the native form spell it.
var alternativeField = regexp.MustCompile(`^resources(?:\.anyOf)?(?:\[(\d+)\])?(?:\.(.+))?$`)

// Locate is ErrorAt for a field as the native form spells it. It is for errors about a job that was written anew from
// this one: the lines they name are of no file that anybody has.
func (j *Job) Locate(field, reason, hint string) *Error {
	for i := range j.Tasks {
		below, ok := strings.CutPrefix(field, TaskPath(j.Tasks[i].Name))
		if !ok || below != "" && below[0] != '.' {
			continue // of a task whose name begins so
		}
		below = strings.TrimPrefix(below, ".")
		parts := alternativeField.FindStringSubmatch(below)
		if parts == nil {
			return j.ErrorAt(i, OfFiles, below, reason, hint)
		}
		alternative, _ := strconv.Atoi(parts[1]) // none is the first
		return j.ErrorAt(i, alternative, parts[2], reason, hint)
	}
	e := &Error{Field: field, Reason: reason, Hint: hint}
	if j.origin != nil {
		e.File = j.origin.File
	}
	return e
}

// find returns the Mark of a field, or else of its alternative.
func (o *Origin) find(task, alternative int, field string) (Mark, bool) {
	at := Mark{Task: int32(task), Alternative: int32(alternative)} //nolint:gosec // indexes of lists that are limited
	i, _ := slices.BinarySearchFunc(o.Marks, at, compareMarks)
	whole, ok := Mark{}, false
	for ; i < len(o.Marks) && int(o.Marks[i].Task) == task && int(o.Marks[i].Alternative) == alternative; i++ {
		switch o.Marks[i].Field {
		case field:
			return o.Marks[i], true
		case "":
			whole, ok = o.Marks[i], true
		}
	}
	return whole, ok
}

func compareMarks(a, b Mark) int {
	return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Alternative, b.Alternative))
}

// TaskPath is the path of a task in the native form.
func TaskPath(name string) string { return fault.Join("tasks", fault.KeyElement(name)) }

// Warn adds a warning about a place in the job's file, unless there are too many already.
func (j *Job) Warn(pos fault.Position, field, text string) {
	file := ""
	if j.origin != nil {
		file = j.origin.File
	}
	switch n := len(j.Warnings); {
	case n < MaxWarnings-1:
		e := Error{File: file, Line: int(pos.Line), Column: int(pos.Column), Field: field, Reason: text}
		j.Warnings = append(j.Warnings, e.Error())
	case n == MaxWarnings-1:
		j.Warnings = append(j.Warnings, file+": more warnings than "+strconv.Itoa(MaxWarnings)+" are not shown")
	}
}
