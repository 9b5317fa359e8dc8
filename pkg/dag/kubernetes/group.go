package kubernetes

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/podtext"
)

// Roles become tasks here. This is the last step for all kinds of manifests: pods that start together and find each
// other become the nodes of one task; other pods become a task each.

// role is a group of pods with the same template.
type role struct {
	name    string
	pods    int
	perJob  int // pods of each of its jobs; the index counts within a job
	pod     *pod
	retries int
	on      []dag.Reaction     // to failures, the first that applies
	env     []podtext.Variable // set by the kind of workload; variables of the template override them
	at      *yaml.Node
	path    string
	called  string // the names of its pods, without the index
}

// group is a set of roles that start together.
type group struct {
	name  string
	roles []*role
	// independent is set if each pod may start, and be tried again, separately.
	independent bool
	// jobsInName is set if pods are named ROLE-JOB-POD instead of ROLE-POD.
	jobsInName bool
	// domain is the domain in which pods find each other; their names work with and without it. "-" means that they
	// do not find each other by name.
	domain string
	// ends are the roles whose end ends the work of all. If it is set, each role is a separate task,
	// and the other tasks are ended when a role in ends has ended.
	ends []string
	// gang is the group of which this is one role; nil for a whole group.
	gang *group
	// hostfiles is set if each role gets a file with its names: Volcano's /etc/volcano/ROLE.host.
	hostfiles bool
	after     []*group
	tasks     []int
	at        *yaml.Node
	path      string
}

// addGroups adds the tasks of groups, and edges from the groups that they wait for.
func (r *reader) addGroups(groups []*group) error {
	for _, g := range groups {
		if err := r.addGroup(g); err != nil {
			return err
		}
	}
	for _, g := range groups {
		for _, before := range g.after {
			if err := r.addEdges(g, before.tasks); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) addEdges(g *group, before []int) error {
	if r.edges += len(before) * len(g.tasks); r.edges > jobtext.MaxEdges {
		return fault.At(yamlfile.PositionOf(g.at),
			fault.OverLimit(fmt.Sprintf("pods wait for each other more than %d times", jobtext.MaxEdges), ""))
	}
	for _, from := range before {
		for _, to := range g.tasks {
			r.job.Edges = append(r.job.Edges, dag.Edge{From: from, To: to})
		}
	}
	return nil
}

func (r *reader) addGroup(g *group) error {
	g.roles = slices.DeleteFunc(g.roles, func(p *role) bool { return p.pods == 0 })
	total := 0
	for _, p := range g.roles {
		total += p.pods
		if p.perJob == 0 {
			p.perJob = p.pods
		}
	}
	if err := r.pods(g.at, total, maxPods); err != nil {
		return err
	}
	switch {
	case g.independent:
		return r.addArrays(g)
	case len(g.ends) > 0 && len(g.roles) > 1:
		return r.addGang(g)
	case sameImage(g.roles):
		return r.addWhole(g, total)
	}
	return r.addGang(g)
}

// sameImage reports whether the roles can be the nodes of one task.
func sameImage(roles []*role) bool {
	for _, p := range roles {
		if p.pod.image != roles[0].pod.image {
			return false
		}
	}
	return true
}

// addArrays adds a task for each pod.
func (r *reader) addArrays(g *group) error {
	for _, p := range g.roles {
		for i := range p.pods {
			at := podtext.Place{Name: p.called, PerJob: p.perJob, Alone: i, Total: p.pods, JobsInName: g.jobsInName}
			name := g.name
			if len(g.roles) > 1 {
				name += "-" + p.name
			}
			if p.pods > 1 {
				name += "-" + strconv.Itoa(i)
			}
			t := r.task(p, name)
			p.fillTask(&t, at)
			if err := r.addTask(g, p, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// addWhole adds one task for all pods; each role is a range of its nodes.
func (r *reader) addWhole(g *group, total int) error {
	if len(g.roles) == 0 {
		return nil
	}
	if err := r.pods(g.at, total, jobtext.MaxNodes); err != nil {
		return err
	}
	big := g.roles[0]
	for _, p := range g.roles[1:] {
		big = largest(big, p)
	}
	t := r.task(big, g.name)
	t.Nodes = total
	for _, p := range g.roles {
		t.Retries = max(t.Retries, p.retries)
	}
	t.On = reactionsOf(g.roles)
	script := &script{}
	script.names(g, total)
	first := 0
	for _, p := range g.roles {
		p.addToScript(&t, script, g, podtext.Place{
			Name: p.called, First: first, PerJob: p.perJob, Alone: -1, Total: total, JobsInName: g.jobsInName,
			Gang: g.gang != nil,
		})
		first += p.pods
		if script.size > jobtext.MaxScriptBytes && script.differs {
			break // it is refused for its length
		}
	}
	script.end()
	t.Run = script.String()
	return r.addTask(g, big, t)
}

// reactionsOf returns the reactions of roles that become one task.
func reactionsOf(roles []*role) (all []dag.Reaction) {
	for _, p := range roles {
		for _, x := range p.on {
			same := func(y dag.Reaction) bool { return reflect.DeepEqual(x, y) }
			if !slices.ContainsFunc(all, same) {
				all = append(all, x)
			}
		}
	}
	return all
}

// addGang adds a task for each role, because their images differ or some of them end when others have ended.
func (r *reader) addGang(g *group) error {
	gang := jobtext.ToName(g.name, "gang")
	if len(g.roles) > dag.MaxGang {
		return fault.At(
			yamlfile.PositionOf(g.at),
			fault.OverLimit(
				fmt.Sprintf("%d roles with different images, more than %d", len(g.roles), dag.MaxGang),
				"",
			),
		)
	}
	for _, p := range g.roles {
		alone := &group{
			name:       g.name + "-" + p.name,
			roles:      []*role{p},
			gang:       g,
			jobsInName: g.jobsInName,
			domain:     g.domain,
			hostfiles:  g.hostfiles,
			at:         g.at,
			path:       g.path,
		}
		if err := r.addWhole(alone, p.pods); err != nil {
			return err
		}
		i := alone.tasks[0]
		t := &r.job.Tasks[i]
		t.Gang, t.Role = gang, p.nameInGang()
		if slices.Contains(g.ends, p.name) {
			t.On = append(t.On, dag.Reaction{Event: dag.TaskCompleted, Action: dag.Complete})
		}
		g.tasks = append(g.tasks, i)
	}
	return nil
}

// nameInGang returns the name of the role in a gang of tasks.
func (p *role) nameInGang() string { return jobtext.ToName(p.name, "role") }

// largest returns the role with more GPUs, with the larger of each resource of both, because both run on machines of
// one type.
func largest(a, b *role) *role {
	x, y := a.pod.resources[0], b.pod.resources[0]
	more := *a
	if y.AcceleratorCount > x.AcceleratorCount {
		more = *b
	}
	p := *more.pod
	p.resources = slices.Clone(p.resources)
	for i := range p.resources {
		res := &p.resources[i]
		res.CPUs = dag.Range{Min: max(x.CPUs.Min, y.CPUs.Min)}
		res.Memory = dag.Range{Min: max(x.Memory.Min, y.Memory.Min)}
		res.DiskGiB = max(x.DiskGiB, y.DiskGiB)
	}
	more.pod = &p
	return &more
}

// task returns the task of a role, without its script.
func (r *reader) task(p *role, name string) dag.Task {
	res := slices.Clone(p.pod.resources)
	if res == nil {
		res = []dag.Resources{{}}
	}
	for i := range res {
		if p.pod.image != "" {
			res[i].Image = "docker:" + p.pod.image
		}
	}
	return dag.Task{Name: r.names.Name(name, "task"), Nodes: 1, Resources: res, Placement: p.pod.rules,
		Retries: min(p.retries, jobtext.MaxRetries), Timeout: p.pod.timeout, On: slices.Clone(p.on)}
}

// addTask adds a task and its position in the file.
func (r *reader) addTask(g *group, p *role, t dag.Task) error {
	i := len(r.job.Tasks)
	if i == jobtext.MaxTasks {
		return fault.At(yamlfile.PositionOf(p.at), fault.OverLimit(
			fmt.Sprintf("more than %d tasks", jobtext.MaxTasks), ""))
	}
	for k := range t.Resources {
		for _, m := range p.pod.marks {
			m.Task, m.Alternative = int32(i), int32(k) //nolint:gosec // below dag.MaxTasks and MaxAlternatives
			r.origin.Marks = append(r.origin.Marks, m)
		}
	}
	r.origin.Tasks = append(r.origin.Tasks, yamlfile.PositionOf(p.pod.at))
	r.origin.Paths = append(r.origin.Paths, p.pod.path)
	r.job.Tasks = append(r.job.Tasks, t)
	g.tasks = append(g.tasks, i)
	return nil
}
