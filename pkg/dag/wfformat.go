package dag

import (
	"strconv"
	"strings"
)

// wfReader reads WfFormat, whose versions lay the same things out differently: from 1.5 on, what is to
// be done (specification) and what was measured (execution) stand apart, tasks name files that are
// listed once, and references are ids; before that, a task says all of itself, and references are
// names. Members of the other versions do not clash, so that one set of them reads all.
type wfReader struct {
	*jsonReader
	importer *importer
	version  string
	hasTasks bool

	task   wfTask // being read
	record wfRecord
	size   wfSize

	taskMembers, recordMembers, fileMembers, sizeMembers members

	records map[string]wfRecord // by task's id
}

// wfTask is a task as the file has it.
type wfTask struct {
	id, name string
	pos      position
	refs     []dependency
	files    []wfUse
	measured wfRecord // before 1.5
}

// wfUse is a file of a task.
type wfUse struct {
	name, link string
	size       float64 // in bytes; of 1.3 and 1.4
	pos        position
}

// wfSize is a file of the specification.
type wfSize struct {
	id    string
	bytes float64
}

// wfRecord is what was measured of a task.
type wfRecord struct {
	id                     string
	seconds, cores, memory float64 // memory in bytes
	timed                  bool
}

func parseWfFormat(name string, data []byte) (*Job, error) {
	r := &wfReader{jsonReader: newJSONReader(data), records: map[string]wfRecord{}}
	r.importer = newImporter(name, WfFormat, func(task string, d dependency) string {
		if d.child {
			return task + ".children" + index(int(d.index))
		}
		return task + ".parents" + index(int(d.index))
	})
	r.taskMembers, r.recordMembers = r.forTask(), r.forRecord(&r.record)
	r.fileMembers, r.sizeMembers = r.forFile(), r.forSize()
	job := r.importer.job
	err := r.object(members{
		"name": func() error {
			s, err := r.text()
			job.Name = toName(s, job.Name)
			return err
		},
		"description": func() (err error) {
			job.Description, err = r.text()
			if len(job.Description) > MaxTextBytes {
				job.Description = strings.ToValidUTF8(job.Description[:MaxTextBytes], "")
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
		return nil, err
	}
	switch {
	case r.version == "":
		return nil, at(position{1, 1}, within("schemaVersion", fault("is missing", "a WfFormat file says 1.3, 1.4 or 1.5")))
	case !r.hasTasks || len(job.Tasks) == 0:
		return nil, at(position{1, 1}, within("workflow", fault("has no tasks", "")))
	}
	if err := r.join(); err != nil {
		return nil, err
	}
	return r.importer.finish()
}

func (r *wfReader) readVersion() (err error) {
	if r.version, err = r.text(); err != nil {
		return err
	}
	switch r.version {
	case "1.3", "1.4", "1.5":
		return nil
	}
	return r.fault("WfFormat "+quote(r.version)+" is not read", "1.3, 1.4 and 1.5 are; wfcommons-migrate-instance turns older into newer")
}

func (r *wfReader) readWorkflow() error {
	return r.object(members{
		"tasks": r.readTasks,
		"specification": func() error {
			return r.object(members{
				"tasks": r.readTasks,
				"files": func() error { return r.array(func(int) error { return r.readSize() }) },
			})
		},
		"execution": func() error {
			return r.object(members{"tasks": func() error { return r.array(func(int) error { return r.readRecord() }) }})
		},
	})
}

func (r *wfReader) readTasks() error {
	if r.hasTasks {
		return r.fault("there are tasks in workflow and in workflow.specification", "one of them belongs to another version")
	}
	r.hasTasks = true
	return r.array(func(int) error { return r.readTask() })
}

func (r *wfReader) readTask() error {
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
	i, err := r.importer.addTask(t.id, t.name, t.pos, path)
	if err != nil {
		return within(path, err)
	}
	for _, d := range t.refs {
		d.task = int32(i) //nolint:gosec // below MaxTasks
		if err := r.importer.depend(d); err != nil {
			return within(path, err)
		}
	}
	for _, f := range t.files {
		if err := r.useFile(i, f); err != nil {
			return within(path, at(f.pos, err))
		}
	}
	if t.measured.timed {
		r.records[t.id] = t.measured
	}
	return nil
}

func (r *wfReader) useFile(task int, f wfUse) error {
	written := false
	switch strings.ToLower(f.link) {
	case "output":
		written = true
	case "input":
	default:
		return fault("link "+quote(f.link)+" of file "+quote(f.name)+" is neither input nor output", "")
	}
	size, err := bytesToSize(f.size)
	if err != nil {
		return err
	}
	if err := r.importer.flows.use(task, f.name, written); err != nil {
		return err
	}
	r.importer.flows.setSize(f.name, size)
	return nil
}

func bytesToSize(bytes float64) (GiB, error) {
	g := GiB(bytes / (1 << 30))
	return g, checkSize(g)
}

func (r *wfReader) forTask() members {
	t := &r.task
	known := r.forRecord(&t.measured)
	// From here on a task says where it is: any of its members stands in it.
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
				t.refs = append(t.refs, dependency{ref: s, index: int32(i), child: child, pos: r.position()}) //nolint:gosec // at most MaxFileBytes
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

// forFile are the members of a file of a task before 1.5.
func (r *wfReader) forFile() members {
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

// forSize are the members of a file of the specification.
func (r *wfReader) forSize() members {
	return members{
		"id":          func() (err error) { r.size.id, err = r.text(); return err },
		"sizeInBytes": func() (err error) { r.size.bytes, err = r.number(); return err },
	}
}

func (r *wfReader) readSize() error {
	r.size = wfSize{}
	if err := r.object(r.sizeMembers); err != nil {
		return err
	}
	if r.size.id == "" {
		return r.fault("has no id", "")
	}
	size, err := bytesToSize(r.size.bytes)
	if err == nil {
		err = checkText(r.size.id)
	}
	if err != nil {
		return err
	}
	r.importer.flows.setSize(r.size.id, size)
	return nil
}

// forRecord are the members of what was measured.
func (r *wfReader) forRecord(to *wfRecord) members {
	number := func(v *float64, factor, most float64) func() error {
		return func() error {
			n, err := r.number()
			if *v = n * factor; err == nil && *v > most {
				err = r.fault("is more than any machine has", "")
			}
			return err
		}
	}
	const maxBytes = MaxMemoryGiB * (1 << 30)
	seconds := func() (err error) {
		to.seconds, err = r.number()
		to.timed = true
		if err == nil && to.seconds > MaxDuration.Seconds() {
			err = r.fault(formatNumber(to.seconds)+" seconds are more than "+formatDuration(MaxDuration), "")
		}
		return err
	}
	return members{
		"id":      func() (err error) { to.id, err = r.text(); return err },
		"runtime": seconds, "runtimeInSeconds": seconds,
		"cores": number(&to.cores, 1, MaxCPUs), "coreCount": number(&to.cores, 1, MaxCPUs),
		"memory": number(&to.memory, 1000, maxBytes), "memoryInBytes": number(&to.memory, 1, maxBytes),
	}
}

func (r *wfReader) readRecord() error {
	r.record = wfRecord{}
	if err := r.object(r.recordMembers); err != nil {
		return err
	}
	if r.record.id == "" {
		return r.fault("has no id", "")
	}
	r.records[r.record.id] = r.record // of a task that ran again, the last
	return nil
}

// join gives each task what was measured of it.
func (r *wfReader) join() error {
	m := r.importer
	for i, id := range m.ids {
		rec, ok := r.records[id]
		if !ok {
			continue
		}
		delete(r.records, id)
		if err := r.apply(i, rec); err != nil {
			return m.atTask(i, err)
		}
	}
	if n := len(r.records); n > 0 {
		m.job.warn(m.file, position{}, "workflow.execution.tasks", strconv.Itoa(n)+" records are of tasks that there are not")
	}
	return nil
}

// apply turns what a task took into what it is given: its time, and at least the cores and memory
// that it used.
func (r *wfReader) apply(task int, rec wfRecord) error {
	t := &r.importer.job.Tasks[task]
	if rec.timed {
		if err := r.importer.setRecorded(task, rec.seconds); err != nil {
			return err
		}
	}
	t.Resources[0].CPUs = Range{Min: rec.cores}
	t.Resources[0].Memory = Range{Min: rec.memory / (1 << 30)}
	return nil
}
