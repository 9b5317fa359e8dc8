package slurm

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// dependency is the dependency of a script on other jobs.
type dependency struct {
	kind string   // afterok, aftercorr or singleton
	jobs []string // by name
	pos  fault.Position
}

// readDependency reads TYPE:JOB[:JOB...][,TYPE:JOB...].
func readDependency(r *reader, s string) error {
	if strings.Contains(s, "?") {
		return fault.New("waits for one of several jobs, which is not supported",
			"name the jobs that it needs, separated by commas")
	}
	for _, one := range strings.Split(s, ",") {
		kind, rest, named := strings.Cut(one, ":")
		d := dependency{kind: kind, pos: r.pos}
		switch kind {
		case "singleton":
			if named {
				return fault.New("singleton cannot name a job",
					"write singleton alone; it waits for scripts of the same name")
			}
		case "afterok", "aftercorr":
			if d.jobs = strings.Split(rest, ":"); slices.Contains(d.jobs, "") {
				return fault.New(fault.Quote(one)+" names no job", "as in "+kind+":NAME")
			}
		case "after", "afterany", "afternotok", "afterburstbuffer":
			return fault.New(kind+" is not supported: a task starts when the tasks that it waits for have succeeded",
				"use afterok, or retries: for the task that may fail")
		default:
			return fault.New(fault.Quote(kind)+" is not a dependency",
				fault.OneOf(kind, []string{"afterok", "aftercorr", "singleton"}))
		}
		r.after = append(r.after, d)
	}
	return nil
}

// Script is one of several scripts that are read together.
type Script struct {
	Name string // of its file
	Data []byte
}

// link is a script that has been read, as a part of the common job.
type link struct {
	*reader
	file  string
	name  string   // the name of its job: -J, or else the name of its file
	names []string // the names by which other scripts wait for it: -J, and the name of its file up to the first dot
	tasks []int    // all its tasks, in the common job
	ends  []int    // the tasks whose end ends the script: for a gang, the task of its first node
	array bool     // its tasks are the members of an array
	of    int      // the number of tasks for each index of its array, or for the whole script
}

// Chain reads scripts that wait for each other as one job with the name of the first. With --dependency=afterok:NAME
// a script waits for all tasks of another one, with aftercorr:NAME each task of an array waits for the task with the
// same index in another array, and with singleton it waits for earlier scripts with its own name. NAME is the -J of a
// script, or the name of its file up to the first dot. A task whose name is taken gets a number.
func Chain(scripts []Script) (*dag.Job, error) {
	var job *dag.Job
	var links []*link
	names := jobtext.NewNamer(0)
	for _, s := range scripts {
		if !IsScript(s.Data) && !bytes.HasPrefix(s.Data, []byte("#!")) {
			return nil, fault.InFile(
				s.Name,
				fault.New("is not a Slurm script", "only Slurm scripts can be converted together"),
			)
		}
		l := &link{reader: newReader(s.Name), file: s.Name}
		one, err := dag.CheckJob(s.Name, l.job, l.read(s.Data))
		if err != nil {
			return nil, err
		}
		if job == nil {
			job, _ = dag.NewJob(s.Name, dag.Slurm)
			job.Name = one.Name
		}
		base := path.Base(strings.ReplaceAll(s.Name, `\`, "/"))
		l.name = cmp.Or(l.requirements.name, base)
		base, _, _ = strings.Cut(base, ".")
		l.names, l.of = []string{l.requirements.name, base}, 1
		if one.Tasks[0].Gang != "" {
			l.of = 2
		}
		l.array = len(one.Arrays) > 0
		if l.array { // it is all of the script
			a := one.Arrays[0]
			a.Name, a.First = names.Name(a.Name, "job"), len(job.Tasks)
			for i := range one.Tasks {
				one.Tasks[i].Name = a.Member(i)
				l.tasks = append(l.tasks, len(job.Tasks))
				job.Tasks = append(job.Tasks, one.Tasks[i])
			}
			l.ends = l.tasks
			job.Arrays = append(job.Arrays, a)
			one.Tasks = nil
		}
		gang := ""
		for i := range one.Tasks {
			t := &one.Tasks[i]
			if i%l.of == 0 {
				l.ends = append(l.ends, len(job.Tasks))
				gang = names.Name(cmp.Or(t.Gang, t.Name), "job")
			}
			if t.Gang == "" {
				t.Name = gang
			} else {
				t.Name = names.Name(gang+strings.TrimPrefix(t.Name, t.Gang), "job")
				t.Gang = gang
			}
			l.tasks = append(l.tasks, len(job.Tasks))
			job.Tasks = append(job.Tasks, *t)
		}
		room := dag.MaxWarnings - len(job.Warnings)
		job.Warnings = append(job.Warnings, one.Warnings[:min(room, len(one.Warnings))]...)
		links = append(links, l)
	}
	for i, l := range links {
		for _, d := range l.after {
			if err := l.wait(job, d, links, i); err != nil {
				return nil, fault.InFile(l.file, fault.At(d.pos, fault.Within("--dependency", err)))
			}
		}
	}
	return dag.CheckJob(scripts[0].Name, job, nil)
}

// wait adds the edges for one dependency of script i.
func (l *link) wait(job *dag.Job, d dependency, links []*link, i int) error {
	if d.kind == "singleton" {
		for _, before := range links[:i] {
			if before.name == l.name {
				if err := edges(job, before.ends, l.tasks, dag.Edge{All: before.array}); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for _, name := range d.jobs {
		before, err := l.named(name, links)
		if err != nil {
			return err
		}
		if d.kind == "afterok" {
			if err := edges(job, before.ends, l.tasks, dag.Edge{All: before.array}); err != nil {
				return err
			}
			continue
		}
		if len(before.requirements.array) == 0 || !slices.Equal(before.requirements.array, l.requirements.array) {
			return fault.New("aftercorr needs an array with the same indexes, but that of "+fault.Quote(name)+
				" has others", "afterok waits for all of it")
		}
		for k := range l.requirements.array {
			e := dag.Edge{Each: before.array && l.array}
			if err := edges(job, before.ends[k:k+1], l.tasks[k*l.of:(k+1)*l.of], e); err != nil {
				return err
			}
		}
	}
	return nil
}

// named returns the other script that has a name.
func (l *link) named(name string, links []*link) (found *link, err error) {
	var names []string
	for _, o := range links {
		names = append(names, o.names...)
		switch {
		case o == l || !slices.Contains(o.names, name):
		case found != nil:
			return nil, fault.New("there are two scripts "+fault.Quote(name),
				"name the file of one, up to its first dot")
		default:
			found = o
		}
	}
	if found == nil {
		err = fault.New("there is no script "+fault.Quote(name), fault.OneOf(name, names))
	}
	return found, err
}

// edges makes each task of after wait for all tasks of before, with edges like e.
func edges(job *dag.Job, before, after []int, e dag.Edge) error {
	if len(job.Edges)+len(before)*len(after) > jobtext.MaxEdges {
		return fault.OverLimit(fmt.Sprintf("tasks wait for each other more than %d times", jobtext.MaxEdges), "")
	}
	for _, from := range before {
		for _, to := range after {
			e.From, e.To = from, to
			job.Edges = append(job.Edges, e)
		}
	}
	return nil
}
