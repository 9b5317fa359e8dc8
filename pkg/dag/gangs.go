package dag

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// Gangs returns the tasks of each gang, as indexes in the order of the file, or nil if the job has none. The tasks of
// a gang start together or not at all.
func (j *Job) Gangs() map[string][]int {
	var gangs map[string][]int
	for i := range j.Tasks {
		if g := j.Tasks[i].Gang; g != "" {
			if gangs == nil {
				gangs = map[string][]int{}
			}
			gangs[g] = append(gangs[g], i)
		}
	}
	return gangs
}

// Gang returns the tasks of a task's gang, including the task, as indexes. It returns only the task if it is in no
// gang.
func (j *Job) Gang(task int) []int {
	name := j.Tasks[task].Gang
	if name == "" {
		return []int{task}
	}
	var out []int
	for i := range j.Tasks {
		if j.Tasks[i].Gang == name {
			out = append(out, i)
		}
	}
	return out
}

// Joining returns the tasks that join a running gang, as indexes.
func (j *Job) Joining(gang string) (out []int) {
	if gang == "" {
		return nil
	}
	for i := range j.Tasks {
		if j.Tasks[i].Joins == gang {
			out = append(out, i)
		}
	}
	return out
}

// Lead returns, for a task that joins a gang, the gang's task with the same role. The joining task begins and ends
// with it. Lead returns -1 if there is none.
func (j *Job) Lead(task int) int {
	t := &j.Tasks[task]
	if t.Joins == "" {
		return -1
	}
	for i := range j.Tasks {
		if of := &j.Tasks[i]; of.Gang == t.Joins && of.RoleName() == t.RoleName() {
			return i
		}
	}
	return -1
}

// CheckGangs returns the first task that could not start together with its gang, and the reason: all tasks of a gang
// must become ready at the same moment and be admitted in one transaction of the store. The task is -1 if all gangs
// are valid.
func (j *Job) CheckGangs() (task int, err error) {
	gangs := j.Gangs()
	g := j.Graph()
	if task, err := j.checkJoining(g); err != nil || gangs == nil {
		return task, err
	}
	parents := func(i int) []int32 {
		p := slices.Clone(g.Parents(i))
		slices.Sort(p)
		return p
	}
	for _, name := range slices.Sorted(maps.Keys(gangs)) {
		members := gangs[name]
		if len(members) > MaxGang {
			return members[MaxGang], fault.OverLimit(
				fmt.Sprintf("gang %s has %d tasks, more than %d", fault.Quote(name), len(members), MaxGang),
				"a task with several nodes is a gang too: use nodes",
			)
		}
		roles := make(map[string]int, len(members))
		for _, i := range members {
			role := RoleVariable(j.Tasks[i].RoleName())
			if first, twice := roles[role]; twice {
				return i, fault.New(
					fmt.Sprintf("has role %s of gang %s, but its variable $TRADEWIND_HOSTS_%s is also that of %s",
						fault.Quote(j.Tasks[i].RoleName()), fault.Quote(name), role, fault.Quote(j.Tasks[first].Name)),
					"rename one of the roles, or write one role with replicas",
				)
			}
			roles[role] = i
			if f := j.Tasks[i].Framework; f != j.Tasks[members[0]].Framework {
				return i, fault.New(
					fmt.Sprintf("has a different framework than %s of its gang %s",
						fault.Quote(j.Tasks[members[0]].Name), fault.Quote(name)),
					"the roles of a gang have one framework",
				)
			}
			if j.Tasks[i].Within != j.Tasks[members[0]].Within {
				return i, fault.New(fmt.Sprintf(
					"has a different within than %s of its gang %s",
					fault.Quote(
						j.Tasks[members[0]].Name,
					),
					fault.Quote(name),
				), "all tasks of a gang have the same within")
			}
		}
		first := parents(members[0])
		for _, i := range members {
			mine := parents(i)
			for _, p := range mine {
				if j.Tasks[p].Gang == name {
					return i, fault.New(
						fmt.Sprintf(
							"waits for task %s of its own gang %s",
							fault.Quote(j.Tasks[p].Name),
							fault.Quote(name),
						),
						"tasks of a gang start together",
					)
				}
			}
			if !slices.Equal(mine, first) {
				return i, fault.New(
					fmt.Sprintf(
						"does not wait for the same tasks as %s of its gang %s, so they would not be ready together",
						fault.Quote(
							j.Tasks[members[0]].Name,
						),
						fault.Quote(name),
					),
					"give all of them the same after and inputs",
				)
			}
		}
	}
	return -1, nil
}

// fixed are the frameworks whose programs need the number of machines at their start.
var fixed = []Framework{MPI, Horovod, TensorFlow}

// checkJoining returns the first task that could not join its gang, and the reason. A joining task must wait for the
// same tasks as the gang, have the same framework, and have no task that waits for it. The task is -1 if all are
// valid.
func (j *Job) checkJoining(g *Graph) (task int, err error) {
	count := map[string]int{}
	for i := range j.Tasks {
		t := &j.Tasks[i]
		if t.Joins == "" {
			continue
		}
		lead := j.Lead(i)
		count[t.Joins]++
		switch {
		case t.Gang != "":
			return i, fault.New("has both gang and joins", "remove one of them")
		case lead < 0:
			return i, fault.New(fmt.Sprintf("joins role %s of gang %s, but no task of the gang has that role",
				fault.Quote(t.RoleName()), fault.Quote(t.Joins)), "add a task with that role to the gang")
		case slices.Contains(fixed, t.Framework):
			return i, fault.New(fmt.Sprintf("a running program of %s cannot get more machines", t.Framework),
				"give the role replicas")
		case t.Framework != j.Tasks[lead].Framework:
			return i, fault.New(fmt.Sprintf("has a different framework than %s, whose role it joins",
				fault.Quote(j.Tasks[lead].Name)), "")
		case t.Within != j.Tasks[lead].Within:
			return i, fault.New(fmt.Sprintf("has a different within than %s, whose role it joins",
				fault.Quote(j.Tasks[lead].Name)), "")
		case count[t.Joins] > jobtext.MaxJoining:
			return i, fault.OverLimit(
				fmt.Sprintf("more than %d tasks join gang %s", jobtext.MaxJoining, fault.Quote(t.Joins)),
				"use a smaller max, or a larger min")
		case len(g.Children(i)) > 0:
			return i, fault.New(
				"joins a gang, but another task waits for it",
				"wait for the gang's task with that role",
			)
		case !sameTasks(g.Parents(i), g.Parents(lead)):
			return i, fault.New(fmt.Sprintf("does not wait for the same tasks as %s, whose role it joins",
				fault.Quote(j.Tasks[lead].Name)), "give both the same after and inputs")
		}
	}
	return -1, nil
}

func sameTasks(a, b []int32) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
