package dag

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// Validate checks j and returns an *Error for the first fault of each task, or of the job. Readers have already called
// it; callers need it for jobs that they made, changed, or received. It takes time and memory linear in tasks and
// edges.
func (j *Job) Validate() error {
	if err := j.validateHead(); err != nil {
		return err
	}
	switch n := len(j.Tasks); {
	case n == 0:
		return fault.Within("tasks", fault.New("is empty", "a job has at least one task"))
	case n > jobtext.MaxTasks:
		return fault.Within("tasks", fault.OverLimit(fmt.Sprintf("%d tasks, more than %d", n, jobtext.MaxTasks), ""))
	}
	if err := j.validateArrays(); err != nil {
		return err
	}
	names := make(map[string]int, len(j.Tasks))
	var all fault.Faults
	for i := range j.Tasks {
		t := &j.Tasks[i]
		var err error
		if a, _ := j.ArrayOf(i); a == nil { // validateArrays has checked the names of members
			err = jobtext.CheckName(t.Name)
		}
		err = cmp.Or(err, t.validate())
		if first, twice := names[t.Name]; twice && err == nil {
			err = fault.New(
				fmt.Sprintf("is the name of two tasks, the %s and the %s", ordinal(first), ordinal(i)),
				"rename one",
			)
		}
		if err != nil && !all.Add(j.AtTask(i, err)) {
			break
		}
		names[t.Name] = i
	}
	if !all.None() {
		return all.Err()
	}
	if rule, err := j.CheckPlacement(); err != nil {
		return fault.Within("placement"+fault.Index(rule), err)
	}
	return j.validateEdges()
}

func ordinal(i int) string { return fmt.Sprintf("%d.", i+1) }

// AtTask adds the position of a task of j to an error.
func (j *Job) AtTask(i int, err error) error {
	where := j.ErrorAt(i, -1, "", "", "")
	pos := fault.Position{Line: int32(where.Line), Column: int32(where.Column)} //nolint:gosec // from an int32
	return fault.InFile(where.File, fault.At(pos, fault.Within(where.Field, err)))
}

func (j *Job) validateHead() error {
	return cmp.Or(
		fault.Within("name", jobtext.CheckName(j.Name)),
		fault.Within("description", jobtext.CheckDescription(j.Description)),
		fault.Within("objective", j.Objective.Check()),
		j.validateWeights(),
		fault.Within("infeasible", ifSet(j.Infeasible, Infeasible.Check)),
		fault.Within("patience", j.CheckPatience()),
		fault.Within("deadline", j.CheckDeadline()),
		fault.Within("keepOnFailure", ifSet(j.KeepOnFailure, checkKeep)),
		fault.Within("keep", ifSet(j.Keep, checkRetention)),
		fault.Within("budget", ifSet(j.Budget, checkBudget)),
		fault.Within("queue", ifSet(j.Queue, jobtext.CheckName)),
		fault.Within("namespace", ifSet(j.Namespace, jobtext.CheckName)),
		fault.Within("announce", ifSet(j.Announce, jobtext.CheckTopic)),
		fault.Within("notify", j.Notify.Check()),
		fault.Within("onFailure", j.checkOnFailure()),
		fault.Within("priority", jobtext.CheckCount(j.Priority, -MaxPriority, MaxPriority)),
		eachChecked("regions", j.Regions, func(s *string) error { return CheckPlace(*s) }),
	)
}

// CheckPatience returns an error if the job has a patience but does not wait, or if the patience is invalid.
func (j *Job) CheckPatience() error {
	if j.Patience != 0 && j.Infeasible == Fail {
		return fault.New("the job does not wait, as infeasible is fail", "leave one of the two out")
	}
	return ifSet(j.Patience, checkDuration)
}

// ifSet checks an optional value.
func ifSet[T comparable](v T, check func(T) error) error {
	var none T
	if v == none {
		return nil
	}
	return check(v)
}

// eachChecked checks the elements of the list in a field.
func eachChecked[T any](field string, list []T, check func(*T) error) error {
	for i := range list {
		if err := check(&list[i]); err != nil {
			return fault.Within(field+fault.Index(i), err)
		}
	}
	return nil
}

// validate checks the task on its own. The fields in its errors are relative to the task.
func (t *Task) validate() error {
	return cmp.Or(
		fault.Within("setup", jobtext.CheckScript(t.Setup)),
		fault.Within("run", jobtext.CheckScript(t.Run)),
		t.validateEnv(),
		t.validateSecrets(),
		fault.Within("workdir", ifSet(t.Workdir, jobtext.CheckURI)),
		fault.Within("workdir", t.checkRepository()),
		fault.Within("nodes", jobtext.CheckCount(t.Nodes, 1, MaxNodes)),
		fault.Within("nodes", t.CheckNodes()),
		fault.Within("retries", jobtext.CheckCount(t.Retries, 0, jobtext.MaxRetries)),
		fault.Within("timeout", t.checkTimeout()),
		fault.Within("share", checkShare(t.Share)),
		fault.Within("gang", ifSet(t.Gang, jobtext.CheckName)),
		fault.Within("joins", ifSet(t.Joins, jobtext.CheckName)),
		fault.Within("role", ifSet(t.Role, jobtext.CheckName)),
		fault.Within("framework", ifSet(t.Framework, Framework.Check)),
		fault.Within("within", ifSet(t.Within, Within.Check)),
		t.checkGang(),
		t.CheckService(),
		t.validateSpark(),
		t.CheckPlacement(),
		t.validateResources(),
		t.validateFiles(),
		t.validateTimes(),
		checkTask(t),
	)
}

func checkShare(s Share) error {
	if s != ShareNone && s != ShareJob {
		return fault.New(fmt.Sprintf("%q is not a way to share machines", s), "")
	}
	return nil
}

func (t *Task) checkTimeout() error {
	if err := ifSet(t.Timeout, checkDuration); err != nil {
		return err
	}
	if t.Timeout > 0 && t.Recorded > t.Timeout {
		return fault.New("is less than the recorded run time of "+FormatDuration(t.Recorded),
			"a stand-in takes its recorded time")
	}
	return nil
}

func (t *Task) checkRepository() error {
	switch {
	case t.Repository == nil:
		return nil
	case t.Workdir != "":
		return fault.New("is both a directory and a repository", "")
	}
	return cmp.Or(
		fault.Within("url", jobtext.CheckRepositoryURL(t.Repository.URL)),
		fault.Within("ref", ifSet(t.Repository.Ref, jobtext.CheckRef)),
	)
}

// checkTask makes the checks that concern several fields of a task.
func checkTask(t *Task) error {
	if t.Run == "" && t.Setup == "" && t.Recorded == 0 && t.Spark == nil {
		return fault.New("has nothing to run", "give it a run script")
	}
	if t.Run != "" && t.Recorded != 0 {
		return fault.Within(
			"recorded",
			fault.New("cannot be combined with run", "a task runs its script, or stands in for a recorded run time"),
		)
	}
	if n := len(t.Setup) + len(t.Run); n > MaxScriptBytes {
		return fault.OverLimit(
			fmt.Sprintf("setup and run have %d bytes, more than %d", n, MaxScriptBytes),
			"put the script into the workdir",
		)
	}
	size := 0
	for name, value := range t.Env {
		size += len(name) + len(value)
	}
	if size > MaxEnvBytes {
		return fault.Within(
			"env",
			fault.OverLimit(
				fmt.Sprintf("has %d bytes, more than %d", size, MaxEnvBytes),
				"put large values into a file",
			),
		)
	}
	return nil
}

func (t *Task) validateEnv() error {
	for _, name := range slices.Sorted(maps.Keys(t.Env)) {
		err := jobtext.CheckEnvName(name)
		if err == nil {
			err = fault.CheckString(t.Env[name])
		}
		if err != nil {
			return fault.Within("env", fault.WithinKey(name, err))
		}
	}
	return nil
}

func (t *Task) validateResources() error {
	if n := len(t.Resources); n == 0 && len(t.Services) == 0 || n > jobtext.MaxAlternatives {
		return fault.Within(
			"resources",
			fault.New(fmt.Sprintf("%d alternatives", n), fmt.Sprintf("from 1 to %d", jobtext.MaxAlternatives)),
		)
	}
	if len(t.Resources) == 1 {
		return fault.Within("resources", t.Resources[0].validateMachine())
	}
	return eachChecked("resources", t.Resources, (*Resources).validateMachine)
}

// validateMachine checks an alternative that is a machine.
func (r *Resources) validateMachine() error {
	if r.Service != "" || r.Release != "" {
		return fault.Within("service", fault.New("is not a machine", "services are separate alternatives"))
	}
	return r.validate()
}

func (r *Resources) validate() error {
	return cmp.Or(
		fault.Within("cpus", r.CPUs.Check(jobtext.MaxCPUs)),
		fault.Within("memory", r.Memory.Check(jobtext.MaxMemoryGiB)),
		fault.Within("accelerators", checkAccelerator(r.Accelerator, r.AcceleratorCount)),
		fault.Within("cloud", ifSet(r.Cloud, CheckCloud)),
		fault.Within("region", ifSet(r.Region, jobtext.CheckWord)),
		fault.Within("zone", ifSet(r.Zone, jobtext.CheckWord)),
		fault.Within("instanceType", ifSet(r.InstanceType, jobtext.CheckWord)),
		fault.Within("family", ifSet(r.Family, jobtext.CheckWord)),
		fault.Within("cpu", ifSet(r.CPU, CheckCPU)),
		fault.Within("arch", ifSet(r.Arch, CheckArch)),
		fault.Within("market", ifSet(r.Market, Market.Check)),
		fault.Within("disk", r.DiskGiB.Check()),
		fault.Within("maxUSDPerHour", ifSet(r.MaxUSDPerHour, checkHourly)),
		fault.Within("image", ifSet(r.Image, jobtext.CheckImage)),
	)
}

func (t *Task) validateFiles() error {
	for _, n := range []int{len(t.Inputs), len(t.Outputs)} {
		if n > jobtext.MaxFiles {
			return fault.OverLimit(fmt.Sprintf("%d inputs or outputs, more than %d", n, jobtext.MaxFiles), "")
		}
	}
	if err := eachChecked("inputs", t.Inputs, (*Input).validate); err != nil {
		return err
	}
	if i, err := t.CheckInputs(); err != nil {
		return fault.Within("inputs"+fault.Index(i), err)
	}
	if err := eachChecked("outputs", t.Outputs, (*Output).validate); err != nil {
		return err
	}
	if err := t.validateOutputNames(); err != nil {
		return err
	}
	if c := t.Checkpoint; c != nil {
		return fault.Within("checkpoint", c.validate())
	}
	return nil
}

// CheckInputs returns the first input whose path conflicts with another input, or that cannot be mounted, and the
// fault. Nothing is staged for a stand-in, so it has no such faults.
func (t *Task) CheckInputs() (input int, err error) {
	if t.StandIn() {
		return 0, nil
	}
	var places InputPlaces
	for i := range t.Inputs {
		if err := cmp.Or(places.Add(&t.Inputs[i]), t.checkMount(&t.Inputs[i])); err != nil {
			return i, err
		}
	}
	return 0, nil
}

func (t *Task) validateOutputNames() error {
	if len(t.Outputs) < 2 {
		return nil
	}
	seen := make(map[string]bool, len(t.Outputs))
	for i := range t.Outputs {
		if name := t.Outputs[i].Name; seen[name] {
			return fault.Within(
				"outputs"+fault.Index(i),
				fault.Within("name", fault.New("there are two outputs "+fault.Quote(name), "rename one")),
			)
		}
		seen[t.Outputs[i].Name] = true
	}
	return nil
}

func (in *Input) validate() error {
	return cmp.Or(
		fault.Within("uri", jobtext.CheckURI(in.URI)),
		fault.Within("path", ifSet(in.Path, jobtext.CheckMountPath)),
		fault.Within("size", in.Size.Check()),
		in.CheckMount(),
	)
}

func (o *Output) validate() error {
	return cmp.Or(
		fault.Within("name", jobtext.CheckName(o.Name)),
		fault.Within("path", ifSet(o.Path, jobtext.CheckInside)),
		fault.Within("uri", ifSet(o.URI, jobtext.CheckURI)),
		fault.Within("size", o.Size.Check()),
	)
}

func (c *Checkpoint) validate() error {
	return cmp.Or(
		fault.Within("every", ifSet(c.Every, checkDuration)),
		fault.Within("path", jobtext.CheckInside(c.Path)),
		fault.Within("size", c.Size.Check()),
	)
}

func (t *Task) validateTimes() error {
	return cmp.Or(
		fault.Within("recorded", ifSet(t.Recorded, checkDuration)),
		fault.Within("reference", ifSet(t.Reference, jobtext.CheckWord)),
		fault.Within("time", t.Time.validate()),
		fault.Within("time", fault.Within(jobtext.FLOPsKey, t.CheckFLOPs())),
		fault.Within("time", fault.Within(jobtext.NodesKey, t.CheckByNodes())),
	)
}

func (j *Job) validateEdges() error {
	if len(j.Edges) > jobtext.MaxEdges {
		return fault.Within(
			"edges",
			fault.OverLimit(fmt.Sprintf("%d dependencies, more than %d", len(j.Edges), jobtext.MaxEdges), ""),
		)
	}
	for i, e := range j.Edges {
		if e.From < 0 || e.From >= len(j.Tasks) || e.To < 0 || e.To >= len(j.Tasks) {
			return fault.Within(
				"edges"+fault.Index(i),
				fault.New(fmt.Sprintf("from task %d to task %d of %d", e.From, e.To, len(j.Tasks)), ""),
			)
		}
	}
	sizes := NewOutputSizes(j)
	g := j.Graph()
	seen := make([]int32, len(j.Tasks)) // 1 + the last task found to wait for this one
	for to := range j.Tasks {
		for k, from := range g.Parents(to) {
			e := &j.Edges[g.In(to)[k]]
			err := e.Data.Check()
			if seen[from] == int32(to)+1 { //nolint:gosec // below MaxTasks
				err = fault.New("waits twice for task "+fault.Quote(j.Tasks[from].Name), "merge the edges")
			}
			if err == nil && len(e.Outputs) > 0 {
				err = sizes.check(e)
			}
			if err == nil {
				err = j.checkMembers(e)
			}
			if err != nil {
				return j.AtTask(to, fault.Within("after", err))
			}
			seen[from] = int32(to) + 1 //nolint:gosec // below MaxTasks
		}
	}
	if len(j.order(g)) < len(j.Tasks) {
		cycle := j.Cycle()
		return j.AtTask(cycle[0], fault.Within("after", j.CycleError(cycle)))
	}
	if i, err := j.CheckGangs(); i >= 0 {
		return j.AtTask(i, fault.Within("gang", err))
	}
	switch i, edge, err := j.CheckServices(); {
	case i < 0:
		return nil
	case edge >= 0:
		return j.AtTask(i, fault.Within("after", err))
	default:
		return j.AtTask(i, fault.Within("service", err))
	}
}

// check returns an error if an edge names an output that does not exist, or names one twice.
func (s *OutputSizes) check(e *Edge) error {
	if _, err := s.Total(e.From, e.Outputs); err != nil {
		return err
	}
	if len(e.Outputs) > 1 && len(unionOutputs(e.Outputs, []string{})) < len(e.Outputs) {
		return fault.New("names an output of task "+fault.Quote(s.job.Tasks[e.From].Name)+" twice", "remove one")
	}
	return nil
}
