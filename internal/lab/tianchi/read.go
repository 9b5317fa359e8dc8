package tianchi

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// Points is the number of points in a curve: about a day at intervals of a quarter of an hour.
const Points = 98

// The kinds of files; each file's name contains its kind.
const (
	appsFile      = "app_resources"
	machinesFile  = "machine_resources"
	instancesFile = "instance_deploy"
	rulesFile     = "app_interference"
	priorityFile  = "app_priority"
)

// scalars are the resources without a curve.
var scalars = [...]string{"disk", "P", "M", "PM"}

// Read reads a data set from a folder. Its errors are of type *Error, or come from the file system.
func Read(dir fs.FS) (*placement.Problem, error) {
	names, err := find(dir)
	if err != nil {
		return nil, err
	}
	s := &set{problem: &placement.Problem{}, apps: map[string]int32{}, machines: map[string]int32{}, files: names}
	for _, step := range []struct {
		file string
		read func(name string, r io.Reader) error
	}{
		{appsFile, s.readApps}, {machinesFile, s.readMachines}, {instancesFile, s.readInstances},
		{rulesFile, s.readRules}, {priorityFile, s.readPriorities},
	} {
		if name := names[step.file]; name != "" {
			if err := open(dir, name, step.read); err != nil {
				return nil, err
			}
		}
	}
	s.flatten()
	return s.problem, nil
}

func open(dir fs.FS, name string, read func(string, io.Reader) error) error {
	f, err := dir.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(read(name, f), f.Close())
}

// find finds the file of each kind.
func find(dir fs.FS) (map[string]string, error) {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, kind := range []string{appsFile, machinesFile, instancesFile, rulesFile, priorityFile} {
		for _, e := range entries {
			name := e.Name()
			if e.IsDir() || !strings.Contains(name, kind) ||
				!strings.HasSuffix(strings.TrimSuffix(name, ".gz"), ".csv") {
				continue
			}
			if other := found[kind]; other != "" {
				return nil, &Error{File: name, Reason: "the folder also has " + other + "; it must have only one " +
					kind + " file"}
			}
			found[kind] = name
		}
		if found[kind] == "" && kind != priorityFile {
			return nil, &Error{File: kind + ".csv", Reason: "the folder has no file whose name contains " + kind +
				" and ends with .csv or .csv.gz"}
		}
	}
	return found, nil
}

// set is a data set being read.
type set struct {
	problem        *placement.Problem
	apps, machines map[string]int32
	files          map[string]string
	shared         []int64 // backing array of the demand vectors
}

// each calls f for each row of a file.
func each(name string, in io.Reader, f func(r *rows) error, fields ...string) error {
	r, err := newRows(name, in, fields...)
	if err != nil {
		return err
	}
	for {
		more, err := r.next()
		if err != nil {
			return err
		}
		if !more {
			return nil
		}
		if err := f(r); err != nil {
			return err
		}
	}
}

func (s *set) readApps(name string, in io.Reader) error {
	const dims = 2*Points + len(scalars)
	return each(name, in, func(r *rows) error {
		app, err := r.newName(0, s.apps)
		if err != nil {
			return err
		}
		if cap(s.shared)-len(s.shared) < dims {
			s.shared = make([]int64, 0, 1024*dims)
		}
		begin := len(s.shared)
		for _, field := range []int{1, 2} {
			if s.shared, err = r.curve(field, s.shared); err != nil {
				return err
			}
		}
		for field := range scalars {
			x, err := r.amount(3 + field)
			if err != nil {
				return err
			}
			s.shared = append(s.shared, x)
		}
		s.problem.Apps = append(s.problem.Apps,
			placement.App{Name: app, Demand: s.shared[begin:len(s.shared):len(s.shared)]})
		return nil
	}, "app", "cpu", "memory", "disk", "P", "M", "PM")
}

func (s *set) readMachines(name string, in io.Reader) error {
	shapes := map[[2 + len(scalars)]int64]int{}
	return each(name, in, func(r *rows) error {
		machine, err := r.newName(0, s.machines)
		if err != nil {
			return err
		}
		var key [2 + len(scalars)]int64
		for i := range key {
			if key[i], err = r.amount(1 + i); err != nil {
				return err
			}
		}
		shape, known := shapes[key]
		if !known {
			shape = len(shapes)
			shapes[key] = shape
			capacity := slices.Concat(slices.Repeat(key[:1], Points), slices.Repeat(key[1:2], Points), key[2:])
			s.problem.Shapes = append(s.problem.Shapes, placement.Shape{Capacity: capacity})
		}
		s.problem.Machines = append(s.problem.Machines, placement.Machine{Name: machine, Shape: shape})
		return nil
	}, "machine", "cpu", "memory", "disk", "P", "M", "PM")
}

func (s *set) readInstances(name string, in io.Reader) error {
	instances := map[string]int32{}
	return each(name, in, func(r *rows) error {
		instance, err := r.newName(0, instances)
		if err != nil {
			return err
		}
		app, err := r.known(1, s.apps, s.files[appsFile])
		if err != nil {
			return err
		}
		machine := placement.Unplaced
		if len(r.cells[2]) > 0 {
			if machine, err = r.known(2, s.machines, s.files[machinesFile]); err != nil {
				return err
			}
		}
		s.problem.Instances = append(s.problem.Instances,
			placement.Instance{Name: instance, App: app, Machine: machine})
		return nil
	}, "instance", "app", "machine")
}

func (s *set) readRules(name string, in io.Reader) error {
	const most = 1 << 30
	return each(name, in, func(r *rows) error {
		a, err := r.known(0, s.apps, s.files[appsFile])
		if err != nil {
			return err
		}
		b, err := r.known(1, s.apps, s.files[appsFile])
		if err != nil {
			return err
		}
		k, err := r.whole(2, most)
		if err != nil {
			return err
		}
		if a == b {
			k++ // k more in addition to the first one
		}
		s.problem.Rules = append(s.problem.Rules, placement.Rule{A: a, B: b, Max: int32(k)}) //nolint:gosec // at most 1<<30 + 1
		return nil
	}, "app A", "app B", "k")
}

func (s *set) readPriorities(name string, in io.Reader) error {
	const most = 1 << 20
	seen := map[int32]bool{}
	return each(name, in, func(r *rows) error {
		app, err := r.known(0, s.apps, s.files[appsFile])
		if err != nil {
			return err
		}
		if seen[app] {
			return r.bad(0, "%s is listed twice", r.cells[0])
		}
		seen[app] = true
		s.problem.Apps[app].Priority, err = r.whole(1, most)
		return err
	}, "app", "priority")
}

// flatten reduces a resource to one point if the demands of all apps for it are constant.
func (s *set) flatten() {
	p := s.problem
	p.Resources = []placement.Resource{{Name: "cpu", Points: Points}, {Name: "memory", Points: Points}}
	for _, name := range scalars {
		p.Resources = append(p.Resources, placement.Resource{Name: name, Points: 1})
	}
	for i := range 2 {
		begin := 0
		if i == 1 {
			begin = p.Resources[0].Points
		}
		if slices.ContainsFunc(p.Apps, func(a placement.App) bool { return !flat(a.Demand[begin : begin+Points]) }) {
			continue
		}
		p.Resources[i].Points = 1
		for a := range p.Apps {
			p.Apps[a].Demand = slices.Delete(p.Apps[a].Demand, begin, begin+Points-1)
		}
		for j := range p.Shapes {
			p.Shapes[j].Capacity = slices.Delete(p.Shapes[j].Capacity, begin, begin+Points-1)
		}
	}
}

func flat(curve []int64) bool {
	for _, x := range curve {
		if x != curve[0] {
			return false
		}
	}
	return true
}
