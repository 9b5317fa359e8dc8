// Package wfformat reads WfCommons WfFormat 1.3 to 1.5, a JSON format for recorded workflow executions
// (https://wfcommons.org/format).
package wfformat

import (
	"context"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/recorded"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// reader reads WfFormat. Its versions have different structures: from 1.5 on, the work (specification) and its
// measurements (execution) are separate, tasks refer to files in a common list, and references are IDs; before that,
// a task has all its data, and references are names. The members of the versions do not conflict, so one set of
// functions reads all versions.
type reader struct {
	*jsonReader
	importer *recorded.Importer
	version  string
	hasTasks bool

	task   wfTask // that is being read
	record wfRecord
	size   wfSize

	taskMembers, recordMembers, fileMembers, sizeMembers members

	records map[string]wfRecord // by task ID
}

// wfTask is a task of the file.
type wfTask struct {
	id, name string
	pos      fault.Position
	refs     []recorded.Dependency
	files    []wfUse
	measured wfRecord // before 1.5
}

// wfUse is a reference from a task to a file.
type wfUse struct {
	name, link string
	size       float64 // in bytes; only in 1.3 and 1.4
	pos        fault.Position
}

// wfSize is a file in the list of the specification.
type wfSize struct {
	id    string
	bytes float64
}

// wfRecord has the measurements of a task.
type wfRecord struct {
	id                     string
	seconds, cores, memory float64 // memory in bytes
	timed                  bool
}

// Parse is ParseContext with a context that never ends.
func Parse(name string, data []byte) (*dag.Job, error) {
	return ParseContext(context.Background(), name, data)
}

// ParseContext reads a recorded execution in WfCommons WfFormat 1.3, 1.4 or 1.5. data is the unpacked text. The tasks
// become stand-ins, because the recorded commands can only run in their original environment. It stops when the
// context ends.
func ParseContext(ctx context.Context, name string, data []byte) (*dag.Job, error) {
	r := &reader{jsonReader: newJSONReader(ctx, data), records: map[string]wfRecord{}}
	r.importer = recorded.NewImporter(name, dag.WfFormat, func(task string, d recorded.Dependency) string {
		if d.Child {
			return task + ".children" + fault.Index(int(d.Index))
		}
		return task + ".parents" + fault.Index(int(d.Index))
	})
	return dag.CheckJob(name, r.importer.Job, r.read())
}

func (r *reader) read() error {
	r.taskMembers, r.recordMembers = r.forTask(), r.forRecord(&r.record)
	r.fileMembers, r.sizeMembers = r.forFile(), r.forSize()
	job := r.importer.Job
	err := r.object(members{
		"name": func() error {
			s, err := r.text()
			job.Name = jobtext.ToName(s, job.Name)
			return err
		},
		"description": func() (err error) {
			job.Description, err = r.text()
			if len(job.Description) > jobtext.MaxTextBytes {
				job.Description = strings.ToValidUTF8(job.Description[:jobtext.MaxTextBytes], "")
			}
			return err
		},
		"schemaVersion": r.readVersion,
		"workflow":      r.readWorkflow,
	})
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return err
	}
	switch {
	case r.version == "":
		return fault.At(
			fault.Position{Line: 1, Column: 1},
			fault.Within("schemaVersion", fault.New("is missing",
				"a WfFormat file has 1.3, 1.4 or 1.5; other JSON files need apiVersion")),
		)
	case !r.hasTasks || len(job.Tasks) == 0:
		return fault.At(fault.Position{Line: 1, Column: 1}, fault.Within("workflow", fault.New("has no tasks", "")))
	}
	if err := r.addMeasurements(); err != nil {
		return err
	}
	return r.importer.Finish()
}

func (r *reader) readVersion() (err error) {
	if r.version, err = r.text(); err != nil {
		return err
	}
	switch r.version {
	case "1.3", "1.4", "1.5":
		return nil
	}
	return r.fault(
		"WfFormat "+fault.Quote(r.version)+" is not supported",
		"1.3, 1.4 and 1.5 are; wfcommons-migrate-instance converts older files",
	)
}

func (r *reader) readWorkflow() error {
	return r.object(members{
		"tasks": r.readTasks,
		"specification": func() error {
			return r.object(members{
				"tasks": r.readTasks,
				"files": func() error { return r.array(func(int) error { return r.readSize() }) },
			})
		},
		"execution": func() error {
			return r.object(
				members{"tasks": func() error { return r.array(func(int) error { return r.readRecord() }) }},
			)
		},
	})
}

func (r *reader) readTasks() error {
	if r.hasTasks {
		return r.fault(
			"there are tasks in workflow and in workflow.specification",
			"one of them belongs to another version",
		)
	}
	r.hasTasks = true
	return r.array(func(int) error { return r.readTask() })
}

func (r *reader) readTask() error {
	r.task = wfTask{refs: r.task.refs[:0], files: r.task.files[:0]}
	path := r.field()
	if err := r.object(r.taskMembers); err != nil {
		return err
	}
	t := &r.task
	if t.id == "" {
		if t.id, t.name = t.name, ""; t.id == "" {
			return r.fault("has neither id nor name", "")
		}
	}
	i, err := r.importer.AddTask(t.id, t.name, t.pos, path)
	if err != nil {
		return fault.Within(path, err)
	}
	for _, d := range t.refs {
		d.Task = int32(i) //nolint:gosec // below dag.MaxTasks
		if err := r.importer.AddDependency(d); err != nil {
			return fault.Within(path, err)
		}
	}
	for _, f := range t.files {
		if err := r.useFile(i, f); err != nil {
			return fault.Within(path, fault.At(f.pos, err))
		}
	}
	if t.measured.timed {
		r.records[t.id] = t.measured
	}
	return nil
}

func (r *reader) useFile(task int, f wfUse) error {
	written := false
	switch strings.ToLower(f.link) {
	case "output":
		written = true
	case "input":
	default:
		return fault.New(
			"link "+fault.Quote(f.link)+" of file "+fault.Quote(f.name)+" is neither input nor output",
			"",
		)
	}
	size, err := recorded.Size(f.size)
	if err != nil {
		return err
	}
	if err := r.importer.Flows.Use(task, f.name, written); err != nil {
		return err
	}
	r.importer.Flows.SetSize(f.name, size)
	return nil
}

func (r *reader) forTask() members {
	t := &r.task
	known := r.forRecord(&t.measured)
	// Each member sets the position of its task, so the position is known after the first member.
	text := func(to *string) func() error {
		return func() (err error) {
			*to, err = r.text()
			t.pos = r.position()
			return err
		}
	}
	known["id"] = text(&t.id)
	known["name"] = text(&t.name)
	refs := func(child bool) func() error {
		return func() error {
			return r.array(func(i int) error {
				s, err := r.text()
				index := int32(i) //nolint:gosec // at most MaxFileBytes
				t.refs = append(t.refs, recorded.Dependency{Ref: s, Index: index, Child: child, Pos: r.position()})
				return err
			})
		}
	}
	known["parents"], known["children"] = refs(false), refs(true)
	uses := func(link string) func() error {
		return func() error {
			return r.array(func(int) error {
				s, err := r.text()
				t.files = append(t.files, wfUse{name: s, link: link, pos: r.position()})
				return err
			})
		}
	}
	known["inputFiles"], known["outputFiles"] = uses("input"), uses("output")
	known["files"] = func() error {
		return r.array(func(int) error {
			t.files = append(t.files, wfUse{})
			err := r.object(r.fileMembers)
			t.files[len(t.files)-1].pos = r.position()
			return err
		})
	}
	return known
}

// forFile returns the members of a file of a task before 1.5.
func (r *reader) forFile() members {
	last := func() *wfUse { return &r.task.files[len(r.task.files)-1] }
	size := func() (err error) {
		last().size, err = r.number()
		return err
	}
	return members{
		"name":        func() (err error) { last().name, err = r.text(); return err },
		"link":        func() (err error) { last().link, err = r.text(); return err },
		"size":        size, // in bytes too, whatever the schema of 1.3 says
		"sizeInBytes": size,
	}
}

// forSize returns the members of a file of the specification.
func (r *reader) forSize() members {
	return members{
		"id":          func() (err error) { r.size.id, err = r.text(); return err },
		"sizeInBytes": func() (err error) { r.size.bytes, err = r.number(); return err },
	}
}

func (r *reader) readSize() error {
	r.size = wfSize{}
	if err := r.object(r.sizeMembers); err != nil {
		return err
	}
	if r.size.id == "" {
		return r.fault("has no id", "")
	}
	size, err := recorded.Size(r.size.bytes)
	if err == nil {
		err = jobtext.CheckText(r.size.id)
	}
	if err != nil {
		return err
	}
	r.importer.Flows.SetSize(r.size.id, size)
	return nil
}

// forRecord returns the members of measurements.
func (r *reader) forRecord(to *wfRecord) members {
	number := func(v *float64, factor, most float64) func() error {
		return func() error {
			n, err := r.number()
			if *v = n * factor; err == nil && *v > most {
				err = r.fault("is more than any machine has", "")
			}
			return err
		}
	}
	const maxBytes = jobtext.MaxMemoryGiB * (1 << 30)
	seconds := func() (err error) {
		to.seconds, err = r.number()
		to.timed = true
		if err == nil && to.seconds > dag.MaxDuration.Seconds() {
			err = r.fault(
				jobtext.FormatNumber(to.seconds)+" seconds are more than "+dag.FormatDuration(dag.MaxDuration),
				"",
			)
		}
		return err
	}
	return members{
		"id":      func() (err error) { to.id, err = r.text(); return err },
		"runtime": seconds, "runtimeInSeconds": seconds,
		"cores": number(&to.cores, 1, jobtext.MaxCPUs), "coreCount": number(&to.cores, 1, jobtext.MaxCPUs),
		"memory": number(&to.memory, 1000, maxBytes), "memoryInBytes": number(&to.memory, 1, maxBytes),
	}
}

func (r *reader) readRecord() error {
	r.record = wfRecord{}
	if err := r.object(r.recordMembers); err != nil {
		return err
	}
	if r.record.id == "" {
		return r.fault("has no id", "")
	}
	r.records[r.record.id] = r.record // if a task ran several times, the last run
	return nil
}

// addMeasurements adds the measurements to the tasks.
func (r *reader) addMeasurements() error {
	m := r.importer
	for i, id := range m.IDs {
		rec, ok := r.records[id]
		if !ok {
			continue
		}
		delete(r.records, id)
		if err := r.apply(i, rec); err != nil {
			return m.AtTask(i, err)
		}
	}
	if n := len(r.records); n > 0 {
		m.Job.Warn(
			fault.Position{},
			"workflow.execution.tasks",
			strconv.Itoa(n)+" records belong to unknown tasks",
		)
	}
	return nil
}

// apply sets the recorded time of a task, and the cores and memory that it used as its minimum resources.
func (r *reader) apply(task int, rec wfRecord) error {
	t := &r.importer.Job.Tasks[task]
	if rec.timed {
		if err := r.importer.SetRecorded(task, rec.seconds); err != nil {
			return err
		}
	}
	t.Resources[0].CPUs = dag.Range{Min: rec.cores}
	t.Resources[0].Memory = dag.Range{Min: rec.memory / (1 << 30)}
	return nil
}
