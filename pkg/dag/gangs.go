package dag

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/fault"
)

// Gangs returns the tasks of each gang, as indexes in the order of the file; nil if the job has none. Tasks of a gang
// start together or not at all.
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

// Gang returns the tasks of a task's gang, itself among them, as indexes; the task alone if it is in none.
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

// Joining returns the tasks that join a gang while it runs, as indexes.
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

// Lead is the task of the gang that a task joins which has its role: with it the task begins and ends. It is negative
// where there is none.
func (j *Job) Lead(task int) int {
	t := &j.Tasks[task]
	if t.Joins == "" {
		return -1
	}
	for i := range j.Tasks {
		if of := &j.Tasks[i]; of.Gang == t.Joins && of.RoleOf() == t.RoleOf() {
			return i
		}
	}
	return -1
}

// CheckGangs says of which task its gang could not start together with it: all have to be ready at the same moment,
// and to be admitted in one transaction of the store. The task is negative if of none.
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
				"a task of several nodes is a gang, too: nodes",
			)
		}
		roles := make(map[string]int, len(members))
		for _, i := range members {
			role := RoleVariable(j.Tasks[i].RoleOf())
			if first, twice := roles[role]; twice {
				return i, fault.New(
					fmt.Sprintf("has role %s of gang %s, whose hosts are $TRADEWIND_HOSTS_%s as those of %s",
						fault.Quote(j.Tasks[i].RoleOf()), fault.Quote(name), role, fault.Quote(j.Tasks[first].Name)),
					"rename one, or give one replicas",
				)
			}
			roles[role] = i
			if f := j.Tasks[i].Framework; f != j.Tasks[members[0]].Framework {
				return i, fault.New(
					fmt.Sprintf("has another framework than %s of its gang %s",
						fault.Quote(j.Tasks[members[0]].Name), fault.Quote(name)),
					"the roles of a gang have one framework",
				)
			}
			if j.Tasks[i].Within != j.Tasks[members[0]].Within {
				return i, fault.New(fmt.Sprintf("says another within than %s of its gang %s",
					fault.Quote(j.Tasks[members[0]].Name), fault.Quote(name)), "all of a gang is within the same")
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

// fixed are the frameworks whose programs know from their start how many they are.
var fixed = []Framework{MPI, Horovod, TensorFlow}

// checkJoining says of which task it could not join its gang: it waits for the same tasks, is told of the others in the
// same words, and nothing waits for it. The task is negative if of none.
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
			return i, fault.New("is in a gang and joins one", "say gang or joins")
		case lead < 0:
			return i, fault.New(fmt.Sprintf("joins role %s of gang %s, which no task of it has",
				fault.Quote(t.RoleOf()), fault.Quote(t.Joins)), "a role begins with the machines of a task")
		case slices.Contains(fixed, t.Framework):
			return i, fault.New(fmt.Sprintf("programs of %s can not be joined while they run", t.Framework),
				"give the role replicas")
		case t.Framework != j.Tasks[lead].Framework:
			return i, fault.New(fmt.Sprintf("has another framework than %s, whose role it joins",
				fault.Quote(j.Tasks[lead].Name)), "")
		case t.Within != j.Tasks[lead].Within:
			return i, fault.New(fmt.Sprintf("says another within than %s, whose role it joins",
				fault.Quote(j.Tasks[lead].Name)), "")
		case count[t.Joins] > MaxJoining:
			return i, fault.OverLimit(fmt.Sprintf("more than %d tasks join gang %s", MaxJoining, fault.Quote(t.Joins)),
				"a smaller max, or a larger min")
		case len(g.Children(i)) > 0:
			return i, fault.New("joins a gang, and another task waits for it", "wait for the role's own task")
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
