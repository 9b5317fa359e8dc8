package view

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// addServices adds the state of service replicas to the views of the tasks, which start at index from.
func (d *Look) addServices(job record.Job, spec *dag.Job, tasks []record.Task, from int) {
	ready, unready := map[int]*record.Cluster{}, map[int]string{} // by task; ready has the newest cluster that serves
	for i := range d.seen.clusters {
		cl := &d.seen.clusters[i]
		if job.State == apitypes.JobEnding || job.State.Finished() {
			break
		}
		if cl.Unready != "" && cl.Outcome == "" {
			unready[cl.Task] = cl.Unready
		}
		if old := ready[cl.Task]; cl.Serves() && (old == nil || old.Attempt < cl.Attempt) {
			ready[cl.Task] = cl
		}
	}
	for i := range d.TaskList {
		v := &d.TaskList[i]
		s := spec.Tasks[v.Index].Service
		if s == nil {
			continue
		}
		v.Service, v.Unready = s.Of, unready[v.Index]
		if cl := ready[v.Index]; cl != nil {
			v.Ready, v.Address, v.Unready = true, cl.Reached, ""
		}
		if t, ok := record.TaskAt(tasks, v.Index); ok && tasks[t].State == record.TaskQueued {
			v.Reason = lastReason(d.Attempts, v.Index)
		}
	}
	if from == 0 {
		d.Services = services(job, spec, ready)
	}
}

// services lists the services of a job with the number of ready replicas.
func services(job record.Job, spec *dag.Job, ready map[int]*record.Cluster) (all []apitypes.ServiceView) {
	for i := range spec.Tasks {
		s := spec.Tasks[i].Service
		if s == nil {
			continue
		}
		at := slices.IndexFunc(all, func(v apitypes.ServiceView) bool { return v.Name == s.Of })
		if at < 0 {
			at = len(all)
			all = append(all, apitypes.ServiceView{Name: s.Of})
		}
		all[at].Replicas++
		if cl := ready[i]; cl != nil {
			all[at].Ready++
			if cl.Spec == job.Spec.Version {
				all[at].Current++
			}
		}
	}
	return all
}

// lastReason returns the reason with which the last attempt of a task ended, or "".
func lastReason(attempts []apitypes.Attempt, task int) (reason string) {
	for i := range attempts {
		if attempts[i].Task == task {
			reason = attempts[i].Reason
		}
	}
	return reason
}

// updated adds the result of the last update of services.
func (s *story) updated(up apitypes.Update) {
	if up.Spec == 0 {
		return
	}
	s.add(up.Since, "updated", "",
		fmt.Sprintf("its services are updated to version %d, one replica after another", up.Spec))
	switch {
	case up.Failed != "":
		s.add(cmp.Or(up.Done, up.Since), "updated", "",
			"the update was stopped, and the services continue as before: "+up.Failed)
	case !up.Done.IsZero():
		s.add(up.Done, "updated", "", fmt.Sprintf("all replicas have version %d", up.Spec))
	}
}
