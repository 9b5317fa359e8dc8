package dag

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Validate says whether j is what a Job must be, and returns an *Error about the first thing that is
// not. Readers have called it; it is for jobs made by hand, changed, or received from elsewhere. It
// takes time and memory linear in tasks and edges.
func (j *Job) Validate() error {
	if err := j.validateHead(); err != nil {
		return err
	}
	switch n := len(j.Tasks); {
	case n == 0:
		return within("tasks", fault("is empty", "a job has at least one task"))
	case n > MaxTasks:
		return within("tasks", overLimit(fmt.Sprintf("%d tasks, more than %d", n, MaxTasks), ""))
	}
	names := make(map[string]int, len(j.Tasks))
	for i := range j.Tasks {
		t := &j.Tasks[i]
		if err := t.validate(); err != nil {
			return j.atTask(i, err)
		}
		if first, twice := names[t.Name]; twice {
			return j.atTask(i, fault(fmt.Sprintf("is the name of two tasks, the %s and the %s", ordinal(first), ordinal(i)), "rename one"))
		}
		names[t.Name] = i
	}
	return j.validateEdges()
}

func ordinal(i int) string { return fmt.Sprintf("%d.", i+1) }

// atTask puts an error at a task of j.
func (j *Job) atTask(i int, err error) error {
	where := j.ErrorAt(i, -1, "", "", "")
	return inFile(where.File, at(position{int32(where.Line), int32(where.Column)}, within(where.Field, err))) //nolint:gosec // from an int32
}

func (j *Job) validateHead() error {
	if err := checkName(j.Name); err != nil {
		return within("name", err)
	}
	if err := checkDescription(j.Description); err != nil {
		return within("description", err)
	}
	if err := checkChoice("objective", j.Objective, objectives()); err != nil {
		return within("objective", err)
	}
	if j.Infeasible != "" {
		if err := checkChoice("choice", j.Infeasible, infeasibles()); err != nil {
			return within("infeasible", err)
		}
	}
	if j.Deadline != 0 {
		if err := checkDuration(j.Deadline); err != nil {
			return within("deadline", err)
		}
	}
	if j.Budget != 0 {
		if err := checkBudget(j.Budget); err != nil {
			return within("budget", err)
		}
	}
	if j.Queue != "" {
		if err := checkName(j.Queue); err != nil {
			return within("queue", err)
		}
	}
	if err := checkCount(j.Priority, -MaxPriority, MaxPriority); err != nil {
		return within("priority", err)
	}
	return eachChecked("regions", j.Regions, func(s *string) error { return checkPlace(*s) })
}

// eachChecked checks the elements of a list that is field.
func eachChecked[T any](field string, list []T, check func(*T) error) error {
	for i := range list {
		if err := check(&list[i]); err != nil {
			return within(field+index(i), err)
		}
	}
	return nil
}

// validate checks all of a task but what concerns others. Fields are relative to the task.
func (t *Task) validate() error {
	if err := checkName(t.Name); err != nil {
		return err
	}
	for _, s := range []struct{ field, script string }{{"setup", t.Setup}, {"run", t.Run}} {
		if err := checkScript(s.script); err != nil {
			return within(s.field, err)
		}
	}
	if err := t.validateEnv(); err != nil {
		return err
	}
	if t.Workdir != "" {
		if err := checkURI(t.Workdir); err != nil {
			return within("workdir", err)
		}
	}
	if err := checkCount(t.Nodes, 1, MaxNodes); err != nil {
		return within("nodes", err)
	}
	if err := checkCount(t.Retries, 0, MaxRetries); err != nil {
		return within("retries", err)
	}
	if t.Gang != "" {
		if err := checkName(t.Gang); err != nil {
			return within("gang", err)
		}
	}
	if err := t.validateResources(); err != nil {
		return err
	}
	if err := t.validateFiles(); err != nil {
		return err
	}
	if err := t.validateTimes(); err != nil {
		return err
	}
	return checkTask(t)
}

// checkTask checks what concerns several fields of a task.
func checkTask(t *Task) error {
	if t.Run == "" && t.Setup == "" && t.Recorded == 0 {
		return fault("has nothing to run", "give it a run script")
	}
	if t.Run != "" && t.Recorded != 0 {
		return within("recorded", fault("stands beside run", "a task runs its script, or stands in for a recorded run time"))
	}
	if n := len(t.Setup) + len(t.Run); n > MaxScriptBytes {
		return overLimit(fmt.Sprintf("setup and run have %d bytes, more than %d", n, MaxScriptBytes), "put the script into the workdir")
	}
	size := 0
	for name, value := range t.Env {
		size += len(name) + len(value)
	}
	if size > MaxEnvBytes {
		return within("env", overLimit(fmt.Sprintf("has %d bytes, more than %d", size, MaxEnvBytes), "put large values into a file"))
	}
	return nil
}

func checkScript(s string) error {
	if len(s) > MaxScriptBytes {
		return overLimit(fmt.Sprintf("the script has %d bytes, more than %d", len(s), MaxScriptBytes), "put it into the workdir")
	}
	return checkString(s)
}

func (t *Task) validateEnv() error {
	for _, name := range slices.Sorted(maps.Keys(t.Env)) {
		err := checkEnvName(name)
		if err == nil {
			err = checkString(t.Env[name])
		}
		if err != nil {
			return within("env", withinKey(name, err))
		}
	}
	for i, name := range t.Secrets {
		if _, ok := t.Env[name]; !ok || i > 0 && t.Secrets[i-1] >= name {
			return within("secrets", fault(quote(name)+" is not a variable of env, or not in order", ""))
		}
	}
	return nil
}

func (t *Task) validateResources() error {
	if n := len(t.Resources); n == 0 || n > MaxAlternatives {
		return within("resources", fault(fmt.Sprintf("%d alternatives", n), fmt.Sprintf("from 1 to %d", MaxAlternatives)))
	}
	if len(t.Resources) == 1 {
		return within("resources", t.Resources[0].validate())
	}
	return eachChecked("resources", t.Resources, (*Resources).validate)
}

func (r *Resources) validate() error {
	if err := checkRange(r.CPUs, MaxCPUs); err != nil {
		return within("cpus", err)
	}
	if err := checkRange(r.Memory, MaxMemoryGiB); err != nil {
		return within("memory", err)
	}
	if err := checkAccelerator(r.Accelerator, r.AcceleratorCount); err != nil {
		return within("accelerators", err)
	}
	if r.Cloud != "" {
		if err := checkCloud(r.Cloud); err != nil {
			return within("cloud", err)
		}
	}
	words := []struct{ field, word string }{{"region", r.Region}, {"zone", r.Zone}, {"instanceType", r.InstanceType}}
	for _, w := range words {
		if w.word == "" {
			continue
		}
		if err := checkWord(w.word); err != nil {
			return within(w.field, err)
		}
	}
	return r.validateChoices()
}

func (r *Resources) validateChoices() error {
	if r.Arch != "" {
		if err := checkChoice("architecture", r.Arch, arches()); err != nil {
			return within("arch", err)
		}
	}
	if r.Market != "" {
		if err := checkChoice("market", r.Market, markets()); err != nil {
			return within("market", err)
		}
	}
	if r.Service != "" {
		if err := checkService(r.Service); err != nil {
			return within("service", err)
		}
	}
	if err := checkSize(r.DiskGiB); err != nil {
		return within("disk", err)
	}
	if r.Image != "" {
		if err := checkText(r.Image); err != nil {
			return within("image", err)
		}
	}
	return checkResources(*r)
}

func (t *Task) validateFiles() error {
	for _, n := range []int{len(t.Inputs), len(t.Outputs)} {
		if n > MaxFiles {
			return overLimit(fmt.Sprintf("%d inputs or outputs, more than %d", n, MaxFiles), "")
		}
	}
	if err := eachChecked("inputs", t.Inputs, (*Input).validate); err != nil {
		return err
	}
	if err := eachChecked("outputs", t.Outputs, (*Output).validate); err != nil {
		return err
	}
	if err := t.validateOutputNames(); err != nil {
		return err
	}
	if c := t.Checkpoint; c != nil {
		return within("checkpoint", c.validate())
	}
	return nil
}

func (t *Task) validateOutputNames() error {
	if len(t.Outputs) < 2 {
		return nil
	}
	seen := make(map[string]bool, len(t.Outputs))
	for i := range t.Outputs {
		if name := t.Outputs[i].Name; seen[name] {
			return within("outputs"+index(i), within("name", fault("there are two outputs "+quote(name), "rename one")))
		}
		seen[t.Outputs[i].Name] = true
	}
	return nil
}

func (in *Input) validate() error {
	if err := checkURI(in.URI); err != nil {
		return within("uri", err)
	}
	if in.Path != "" {
		if err := checkMountPath(in.Path); err != nil {
			return within("path", err)
		}
	}
	if err := checkSize(in.Size); err != nil {
		return within("size", err)
	}
	return nil
}

func (o *Output) validate() error {
	if err := checkName(o.Name); err != nil {
		return within("name", err)
	}
	if o.Path != "" {
		if err := checkInside(o.Path); err != nil {
			return within("path", err)
		}
	}
	if o.URI != "" {
		if err := checkURI(o.URI); err != nil {
			return within("uri", err)
		}
	}
	if err := checkSize(o.Size); err != nil {
		return within("size", err)
	}
	return nil
}

func (c *Checkpoint) validate() error {
	if c.Every != 0 {
		if err := checkDuration(c.Every); err != nil {
			return within("every", err)
		}
	}
	if err := checkInside(c.Path); err != nil {
		return within("path", err)
	}
	if err := checkSize(c.Size); err != nil {
		return within("size", err)
	}
	return nil
}

func (t *Task) validateTimes() error {
	if t.Recorded != 0 {
		if err := checkDuration(t.Recorded); err != nil {
			return within("recorded", err)
		}
	}
	if t.Time.Default != 0 {
		if err := checkDuration(t.Time.Default); err != nil {
			return within("time", err)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(t.Time.On)) {
		err := checkDuration(t.Time.On[key])
		if canonical, keyErr := timeKey(key); keyErr != nil {
			err = keyErr
		} else if canonical != key || strings.EqualFold(key, defaultTimeKey) {
			err = fault(quote(key)+" is not the canonical name of an accelerator or instance type", "write "+quote(canonical))
		}
		if err != nil {
			return within("time", withinKey(key, err))
		}
	}
	return nil
}

func (j *Job) validateEdges() error {
	if len(j.Edges) > MaxEdges {
		return within("edges", overLimit(fmt.Sprintf("%d dependencies, more than %d", len(j.Edges), MaxEdges), ""))
	}
	for i, e := range j.Edges {
		if e.From < 0 || e.From >= len(j.Tasks) || e.To < 0 || e.To >= len(j.Tasks) {
			return within("edges"+index(i), fault(fmt.Sprintf("from task %d to task %d of %d", e.From, e.To, len(j.Tasks)), ""))
		}
	}
	sizes := newOutputSizes(j)
	g := j.Graph()
	seen := make([]int32, len(j.Tasks)) // 1 + the last task found to wait for this one
	for to := range j.Tasks {
		for k, from := range g.Parents(to) {
			e := &j.Edges[g.In(to)[k]]
			err := checkSize(e.Data)
			if seen[from] == int32(to)+1 { //nolint:gosec // below MaxTasks
				err = fault("waits twice for task "+quote(j.Tasks[from].Name), "merge the edges")
			}
			if err == nil && len(e.Outputs) > 0 {
				err = sizes.check(e)
			}
			if err != nil {
				return j.atTask(to, within("after", err))
			}
			seen[from] = int32(to) + 1 //nolint:gosec // below MaxTasks
		}
	}
	if len(j.order(g)) < len(j.Tasks) {
		cycle := j.cycle()
		return j.atTask(cycle[0], within("after", j.cycleError(cycle)))
	}
	if i, err := j.checkGangs(); i >= 0 {
		return j.atTask(i, within("gang", err))
	}
	return nil
}

// check sees that an edge names outputs that there are, each once.
func (s *outputSizes) check(e *Edge) error {
	if _, err := s.of(e.From, e.Outputs); err != nil {
		return err
	}
	if len(e.Outputs) > 1 && len(eitherOutputs(e.Outputs, []string{})) < len(e.Outputs) {
		return fault("names an output of task "+quote(s.job.Tasks[e.From].Name)+" twice", "remove one")
	}
	return nil
}
