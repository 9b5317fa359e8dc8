package dag

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// Origin has the positions of a job's parts in its file, for errors found after reading: a cycle, or a request that
// no cloud can fulfil.
type Origin struct {
	File  string
	Tasks []fault.Position // of each task
	// Paths are the field paths of the tasks in the file; nil if they are tasks.NAME.
	Paths []string
	// Marks are the positions of files (with the alternative FilesOfTask) and of the fields of resources, by task and
	// alternative.
	Marks []Mark
}

// Mark is the position of an alternative of a task, or of a field of it.
type Mark struct {
	Task, Alternative int32
	Pos               fault.Position
	Field             string // a field of resources in the native format, or empty for the whole alternative
	Path              string // below the task, as the file spells it
}

// FilesOfTask is the alternative in the Mark of a workdir or an input. The Field of such a Mark is "workdir", or the
// InputField of the input's index.
const FilesOfTask = -1

// InputField returns the field name of input i of a task.
func InputField(i int) string { return "inputs" + fault.Index(i) }

// ErrorAt returns an error about a task (an index) of j. If the job was read from a file, the error
// has the file, line and field of the cause; otherwise it has only the field. alternative is an
// index of the task's Resources, and field the name of one of its fields in the native format
// ("accelerators", "cpus", "instanceType"); empty is the whole alternative. If alternative is
// FilesOfTask, field is one of the task itself: "workdir" or an InputField, or empty for the task.
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
	e.Field = fault.Join(jobtext.TaskPath(j.Tasks[task].Name), below)
	o := j.origin
	if o == nil || task >= len(o.Tasks) {
		return e
	}
	e.File = o.File
	pos := o.Tasks[task]
	path := jobtext.TaskPath(j.Tasks[task].Name)
	if o.Paths != nil {
		path = o.Paths[task]
	}
	if j.Format == WfFormat || j.Format == DAX {
		below = "" // these formats do not have such fields
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

// ErrorAtResources returns an error about the resources of a task: at their place in the file, or at the task if the
// file does not name any.
func (j *Job) ErrorAtResources(task int, reason, hint string) *Error {
	if o := j.origin; o != nil {
		if _, named := o.find(task, 0, ""); named {
			return j.ErrorAt(task, 0, "", reason, hint)
		}
	}
	return j.ErrorAt(task, -1, "", reason, hint)
}

// alternativeField matches the path of a task's resources, of one alternative or of a field of one, as it is in errors
// of ErrorAt and in files of the native format.
var alternativeField = jobtext.Lazy(`^resources(?:\.anyOf)?(?:\[(\d+)\])?(?:\.(.+))?$`)

// Locate returns the error of ErrorAt for a field path of the native format. It is for errors about
// the native text that Marshal wrote from this job, because users do not know the lines of that
// text.
func (j *Job) Locate(field, reason, hint string) *Error {
	for i := range j.Tasks {
		name := j.Tasks[i].Name
		if a, member := j.ArrayOf(i); a != nil && member == 0 {
			name = a.Name // the native job has the array once
		}
		below, ok := strings.CutPrefix(field, jobtext.TaskPath(name))
		if !ok || below != "" && below[0] != '.' {
			continue // another task, whose name has this name as a prefix
		}
		below = strings.TrimPrefix(below, ".")
		parts := alternativeField().FindStringSubmatch(below)
		if parts == nil {
			return j.ErrorAt(i, FilesOfTask, below, reason, hint)
		}
		alternative, _ := strconv.Atoi(parts[1]) // no index is the first
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

// Warn adds a warning with a position in the job's file. Above MaxWarnings it adds none.
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
