package tes

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// TaskName is the name of the only task of a job made from a TES task.
const TaskName = "task"

// gb is one gigabyte in GiB. TES gives memory and disk in gigabytes.
const gb = 1e9 / (1 << 30)

// Parameters returns the supported backend_parameters, sorted. Their case does not matter.
func Parameters() []string {
	return []string{"accelerators", "budget", "deadline", "objective", "queue", "time"}
}

// Job makes a job of a TES task, or returns a *dag.Error that names all faulty fields. An unknown backend parameter is
// dropped with a warning, or is an error if the task is strict.
func Job(t Task) (*dag.Job, error) {
	t.ID, t.State, t.Logs, t.CreationTime = "", "", nil, ""
	job := &dag.Job{
		Name: jobName(t.Name), Objective: dag.MinimizeCost, Format: dag.TES,
		Tasks: []dag.Task{{Name: TaskName, Nodes: 1}},
	}
	task := &job.Tasks[0]
	var all fault.Faults
	all.Add(check(&t))
	if len(t.Executors) > 0 {
		resources, err := t.resources(job, task)
		all.Add(fault.Within("resources", err))
		task.Resources = resources
	}
	for i, in := range t.Inputs {
		if in.Content == "" && in.URL != "" {
			uri := in.URL
			if in.Type == Directory {
				uri = strings.TrimSuffix(uri, "/") + "/"
			}
			all.Add(fault.Within("inputs"+fault.Index(i), fault.Within("url", checkURL(uri))))
			task.Inputs = append(task.Inputs, dag.Input{URI: uri, Path: path.Clean(in.Path)})
		}
	}
	for i, out := range t.Outputs {
		all.Add(fault.Within("outputs"+fault.Index(i), fault.Within("url", checkURL(out.URL))))
		name := strconv.Itoa(i)
		task.Outputs = append(task.Outputs, dag.Output{
			Name: "output-" + name, Path: name, URI: out.URL, OnFailure: true,
		})
	}
	if !all.None() {
		return nil, fault.InFile("task", all.Err())
	}
	task.Run = t.script()
	document, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	job.Document = string(document)
	if err := job.Validate(); err != nil {
		return nil, err
	}
	return job, nil
}

// checkURL accepts a URL, or an absolute path on the machine that runs the task, as TES does. Relative paths make no
// sense: a task, unlike a job file, is in no folder.
func checkURL(s string) error {
	if err := dag.CheckURI(s); err != nil {
		return err
	}
	if !strings.Contains(s, "://") && !path.IsAbs(s) {
		return fault.New(fault.Quote(s)+" is neither a URL nor an absolute path",
			"such as s3://bucket/key or /data/file")
	}
	return nil
}

// jobName makes a valid job name of a task's name.
func jobName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < 0x80 && (fault.IsAlnum(byte(r)) || //nolint:gosec // below 0x80
			strings.ContainsRune("._-", r)) {
			return r
		}
		return '-'
	}, name)
	name = strings.Trim(name[:min(len(name), 100)], "._-")
	if name == "" {
		return "tes"
	}
	return name
}

// check returns an error for a task of which no script can be made.
func check(t *Task) error { //nolint:gocyclo // a line for each field
	if len(t.Executors) == 0 {
		return fault.Within("executors", fault.New("is empty", "a task has at least one"))
	}
	var all fault.Faults
	for i, e := range t.Executors {
		all.Add(fault.Within("executors"+fault.Index(i), t.checkExecutor(e)))
	}
	for i, in := range t.Inputs {
		err := checkPath("path", in.Path)
		switch {
		case err != nil:
		case in.Content == "" && in.URL == "" && in.Type == Directory:
			err = fault.Within("url", fault.New("is empty", "a directory has a url"))
		case strings.ContainsRune(in.Content, 0):
			err = fault.Within("content", fault.New("has a byte 0", "give a url of a binary file"))
		}
		all.Add(fault.Within("inputs"+fault.Index(i), err))
	}
	for i, out := range t.Outputs {
		err := checkPath("path", out.Path)
		if err == nil && out.wild() && !strings.HasPrefix(out.Path, out.PathPrefix) || wild(out.PathPrefix) {
			err = fault.Within("path_prefix", fault.New(fault.Quote(out.PathPrefix)+" is not a prefix of the path", ""))
		}
		if err == nil && out.wild() && out.PathPrefix == "" {
			err = fault.Within("path_prefix", fault.New("is empty", "a path with wildcards needs one"))
		}
		all.Add(fault.Within("outputs"+fault.Index(i), err))
	}
	for i, v := range t.Volumes {
		all.Add(fault.Within("volumes"+fault.Index(i), checkPath("", v)))
	}
	return all.Err()
}

func (t *Task) checkExecutor(e Executor) error {
	switch {
	case e.Image == "":
		return fault.Within("image", fault.New("is empty", "name a container's image"))
	case e.Image != t.Executors[0].Image:
		return fault.Within("image", fault.New("differs from that of the first executor",
			"executors of a task share a container; make a separate task for each image"))
	case len(e.Command) == 0 || e.Command[0] == "":
		return fault.Within("command", fault.New("is empty", ""))
	}
	for i, word := range e.Command {
		if strings.ContainsRune(word, 0) {
			return fault.Within("command"+fault.Index(i), fault.New("has a byte 0", ""))
		}
	}
	for _, p := range [][2]string{
		{"workdir", e.Workdir}, {"stdin", e.Stdin}, {"stdout", e.Stdout}, {"stderr", e.Stderr},
	} {
		if p[1] != "" {
			if err := checkPath(p[0], p[1]); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		err := dag.CheckEnvName(name)
		if err == nil && strings.ContainsRune(e.Env[name], 0) {
			err = fault.New("has a byte 0", "")
		}
		if err != nil {
			return fault.Within("env."+name, err)
		}
	}
	return nil
}

func checkPath(field, p string) error {
	err := dag.CheckText(p)
	if err == nil && (!path.IsAbs(p) || path.Clean(p) == "/") {
		err = fault.New(fault.Quote(p)+" is not an absolute path", "such as /data/file")
	}
	if err == nil {
		return nil
	}
	return fault.Within(field, err)
}

// resources returns the alternatives of the task, and applies the backend parameters to it and its job.
func (t *Task) resources(job *dag.Job, task *dag.Task) ([]dag.Resources, error) {
	base := dag.Resources{Image: "docker:" + t.Executors[0].Image, Market: dag.MarketAuto}
	r := t.Resources
	if r == nil {
		return []dag.Resources{base}, nil
	}
	base.CPUs.Min, base.Memory.Min, base.DiskGiB = float64(r.CPUCores), r.RAMGB*gb, dag.GiB(r.DiskGB*gb)
	if r.Preemptible != nil && !*r.Preemptible {
		base.Market = dag.MarketOnDemand
	}
	kept := map[string]string{}
	var all fault.Faults
	for _, key := range slices.Sorted(maps.Keys(r.BackendParameters)) {
		known, err := parameter(job, task, &base, strings.ToLower(key), r.BackendParameters[key])
		switch {
		case err != nil:
			all.Add(fault.Within("backend_parameters."+key, err))
		case known:
			kept[key] = r.BackendParameters[key]
		case r.BackendParametersStrict:
			all.Add(fault.Within("backend_parameters."+key, fault.New("is unknown",
				"there are "+strings.Join(Parameters(), ", "))))
		case len(job.Warnings) < dag.MaxWarnings:
			job.Warnings = append(job.Warnings, fmt.Sprintf("backend parameter %q is unknown", key))
		}
	}
	copied := *r
	copied.BackendParameters = kept
	t.Resources = &copied
	if len(r.Zones) == 0 {
		return []dag.Resources{base}, all.Err()
	}
	var out []dag.Resources
	for i, zone := range r.Zones {
		cloud, place, some := strings.Cut(zone, ":")
		if !some {
			cloud, place = "", zone
		}
		if err := dag.CheckWord(place); err != nil {
			all.Add(fault.Within("zones"+fault.Index(i), err))
		}
		// TES does not distinguish zones from regions; its own example of a zone is a region.
		inRegion, inZone := base, base
		inRegion.Cloud, inRegion.Region = cloud, place
		inZone.Cloud, inZone.Zone = cloud, place
		out = append(out, inRegion, inZone)
	}
	return out, all.Err()
}

// parameter applies a backend parameter; key is in lower case.
func parameter(job *dag.Job, task *dag.Task, r *dag.Resources, key, value string) (known bool, err error) {
	switch key {
	case "accelerators":
		r.Accelerator, r.AcceleratorCount, err = dag.ParseAccelerator(value)
	case "budget":
		job.Budget, err = dag.ParseBudget(value)
	case "deadline":
		job.Deadline, err = dag.ParseDuration(value)
	case "objective":
		job.Objective = dag.Objective(value)
		err = job.Objective.Check()
	case "queue":
		job.Queue = value
	case "time":
		task.Time.Default, err = dag.ParseDuration(value)
	default:
		return false, nil
	}
	return true, err
}
