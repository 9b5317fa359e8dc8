package kubernetes

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/podtext"
)

const flowGroup = "flow.volcano.sh"

// volcano is the spec of a Volcano Job.
type volcano struct {
	roles        []*role
	names        map[string]bool // of the roles
	minAvailable int
	retries      int
	on           []dag.Reaction // of the job's policies
	plugins      map[string][]string
	completes    *yaml.Node // the policy that ends the job when a task has ended
	completed    string     // that task
	completesIn  string     // the path of the policy, below spec
	pluginAt     map[string]*yaml.Node
	minAt        *yaml.Node
}

func (r *reader) volcanoJob(d *document) ([]*group, error) {
	g, err := r.volcanoSpec(d.spec, d.name)
	return []*group{g}, err
}

func (r *reader) volcanoSpec(n *yaml.Node, name string) (*group, error) {
	v := &volcano{minAvailable: -1, retries: 3, plugins: map[string][]string{}, pluginAt: map[string]*yaml.Node{},
		names: map[string]bool{}}
	known := fields[*volcano]{
		"minAvailable": func(v *volcano, n *yaml.Node) error {
			v.minAt = n
			return count(r, 1, maxPods, func(v *volcano) *int { return &v.minAvailable })(v, n)
		},
		"maxRetry": count(r, 0, 1<<30, func(v *volcano) *int { return &v.retries }),
		"queue": func(_ *volcano, n *yaml.Node) error {
			s, err := r.Text(n)
			return firstOf(err, func() error { return r.setQueue(s, n) })
		},
		"priorityClassName": func(_ *volcano, n *yaml.Node) error { return r.setPriority(n) },
		"plugins": func(v *volcano, n *yaml.Node) error {
			entries, err := r.Mapping(n)
			for _, e := range entries {
				v.pluginAt[e.Key] = e.Name
				if v.plugins[e.Key] = []string{}; !yamlfile.IsNull(e.Node) {
					if v.plugins[e.Key], err = r.words(e.Node); err != nil {
						return fault.WithinKey(e.Key, err)
					}
				}
			}
			return err
		},
		"policies": func(v *volcano, n *yaml.Node) error { return r.policies(v, n, "", &v.on) },
		"volumes": func(v *volcano, n *yaml.Node) error {
			if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
				return nil
			}
			return r.Fault(n, "are volume claims, which exist only in a cluster",
				"keep the data in a bucket, and name it as inputs of the converted job")
		},
		"tasks": func(v *volcano, n *yaml.Node) error {
			return r.list(n, func(i int, n *yaml.Node) error { return r.volcanoTask(v, n, name, i) })
		},
		"networkTopology": func(_ *volcano, n *yaml.Node) error { r.warn(n, notActedOn); return nil },
	}
	known.with(silentlyIgnored[*volcano]("schedulerName", "ttlSecondsAfterFinished")).
		with(ignored[*volcano](r, notActedOn, "minSuccess", "runningEstimate"))
	if err := readInto(r, n, known, v); err != nil {
		return nil, err
	}
	if len(v.roles) == 0 {
		return nil, r.missing(n, "tasks", "add at least one task")
	}
	return r.volcanoGroup(v, n, name)
}

// volcanoGroup returns the group of the job's roles, and decides which of them start together.
//
//nolint:gocyclo // a line for each field
func (r *reader) volcanoGroup(v *volcano, n *yaml.Node, name string) (*group, error) {
	_, svc := v.plugins["svc"]
	_, ssh := v.plugins["ssh"]
	total := 0
	for _, p := range v.roles {
		total += p.pods
		p.retries = max(p.retries, v.retries)
		p.on = append(p.on, v.on...)
	}
	for _, plugin := range slices.Sorted(mapKeys(v.plugins)) {
		if !slices.Contains([]string{"env", "svc", "ssh"}, plugin) {
			svc = svc || slices.Contains([]string{"pytorch", "tensorflow", "mpi", "ray", "hcclrank"}, plugin)
			r.job.Warn(yamlfile.PositionOf(v.pluginAt[plugin]), fault.Join(r.where(), "plugins."+plugin), notActedOn)
		}
	}
	if ssh {
		r.job.Warn(yamlfile.PositionOf(v.pluginAt["ssh"]), fault.Join(r.where(), "plugins.ssh"),
			"is ignored: pods do not have each other's keys")
	}
	if err := r.pods(n, total, maxPods); err != nil {
		return nil, err
	}
	if v.minAvailable > total {
		return nil, fault.Within("minAvailable", r.Fault(
			v.minAt,
			fmt.Sprintf(
				"is %d, but all tasks together have %d pods",
				v.minAvailable,
				total,
			),
			"use at most the number of pods",
		))
	}
	g := &group{name: name, roles: v.roles, domain: name, hostfiles: svc, at: n, path: r.where()}
	g.independent = v.minAvailable <= 1 && v.minAvailable >= 0 && !svc && !ssh && v.completes == nil || total == 1
	if !svc {
		g.domain = "-"
	}
	if !g.independent && v.minAvailable >= 0 && v.minAvailable < total {
		r.job.Warn(yamlfile.PositionOf(v.minAt), fault.Join(r.where(), "minAvailable"),
			"is ignored: all pods start together")
	}
	var hosts []podtext.Variable
	if svc {
		hosts = v.hosts(name)
		size := 0
		for _, h := range hosts {
			size += len(h.Name) + h.Size()
		}
		if len(v.roles) > dag.MaxGang && size*len(v.roles) > jobtext.MaxScriptBytes {
			return nil, fault.Within("tasks", fault.At(yamlfile.PositionOf(n), fault.OverLimit(
				fmt.Sprintf("each of %d tasks would get %d bytes of variables that describe the others",
					len(v.roles), size),
				"leave the plugin svc out, or write one task with replicas")))
		}
	}
	for _, p := range v.roles {
		p.env = append(p.env, hosts...)
		if _, on := v.plugins["env"]; on || svc {
			for _, name := range []string{"VC_TASK_INDEX", "VK_TASK_INDEX"} {
				p.env = append(p.env, podtext.Variable{Name: name, Value: podtext.Value{{Fact: podtext.Rank}}})
			}
		}
	}
	if v.completes == nil || total <= 1 || v.completed != "" && len(v.roles) == 1 {
		return g, nil
	}
	if v.completed == "" {
		return nil, fault.Within(v.completesIn, r.Fault(v.completes,
			"ends the job when any of its tasks has ended, which is not supported",
			"write the policy in the task whose end ends the job"))
	}
	for _, p := range v.roles {
		if ssh && p.mentions("sshd") {
			return nil, fault.Within("tasks", r.Fault(p.at,
				"waits for the others by ssh, but pods do not have each other's keys",
				"write a gang of roles: TRADEWIND_RSH_AGENT starts programs on the others without ssh"))
		}
	}
	g.ends = []string{v.completed}
	return g, nil
}

// maxHosts limits the length of a list of names, in bytes: a longer list would leave no room for other variables.
// Programs with that many pods read the file instead.
const maxHosts = 16 << 10

// hosts returns the variables with which the plugin svc describes the pods of each task: VC_TASK_HOSTS and
// VC_TASK_NUM.
func (v *volcano) hosts(job string) (vars []podtext.Variable) {
	for _, p := range v.roles {
		prefix := "VC_" + strings.ToUpper(strings.ReplaceAll(p.name, "-", "_"))
		names := make([]string, p.pods)
		for i := range names {
			names[i] = p.called + "-" + strconv.Itoa(i) + "." + job
		}
		if jobtext.CheckEnvName(prefix) != nil {
			continue
		}
		vars = append(vars, podtext.Variable{Name: prefix + "_NUM", Value: podtext.Plain(strconv.Itoa(p.pods))})
		if list := strings.Join(names, ","); len(list) <= maxHosts/len(v.roles) {
			vars = append(vars, podtext.Variable{Name: prefix + "_HOSTS", Value: podtext.Plain(list)})
		}
	}
	return vars
}

// volcanoTask reads a task of a Volcano Job, which is a number of pods.
func (r *reader) volcanoTask(v *volcano, n *yaml.Node, job string, i int) error {
	p := &role{pods: 1, at: n, path: r.where()}
	var policies *yaml.Node
	err := readInto(r, n, fields[*role]{
		"name":     text(r, func(p *role) *string { return &p.name }),
		"replicas": count(r, 1, maxPods, func(p *role) *int { return &p.pods }),
		"maxRetry": count(r, 0, 1<<30, func(p *role) *int { return &p.retries }),
		"template": func(p *role, n *yaml.Node) (err error) {
			p.pod, err = r.template(n)
			return err
		},
		"policies": func(_ *role, n *yaml.Node) error { policies = n; return nil },
		"dependsOn": func(_ *role, n *yaml.Node) error {
			r.warn(n, "is ignored: both start together")
			return nil
		},
	}.with(silentlyIgnored[*role]("topologyPolicy")).
		with(ignored[*role](r, notActedOn, "minAvailable", "partitionPolicy")), p)
	if err != nil {
		return err
	}
	if p.pod == nil {
		return r.missing(n, "template", "add the template of its pods")
	}
	if p.name == "" {
		p.name = "default" + strconv.Itoa(i)
	}
	if v.names[p.name] {
		return fault.Within("name", r.Fault(n, "there are two tasks "+fault.Quote(p.name), "rename one"))
	}
	p.called, p.perJob = job+"-"+p.name, p.pods
	v.roles, v.names[p.name] = append(v.roles, p), true
	if policies == nil {
		return nil
	}
	err = r.within("policies", func() error { return r.policies(v, policies, p.name, &p.on) })
	return fault.Within("policies", fault.At(yamlfile.PositionOf(policies), err))
}

// policies reads the reactions to events. The default behaviour here covers most of them: failed tasks are tried
// again, interrupted machines are replaced, and a job ends when all of its tasks have ended.
func (r *reader) policies(v *volcano, n *yaml.Node, task string, on *[]dag.Reaction) error {
	before := map[string]bool{}
	return r.list(n, func(_ int, n *yaml.Node) error {
		var events []string
		action, codes, code := "", false, 0
		err := readInto(r, n, fields[*volcano]{
			"event": func(_ *volcano, n *yaml.Node) error {
				s, err := r.Text(n)
				events = append(events, s)
				return err
			},
			"events": func(_ *volcano, n *yaml.Node) error {
				more, err := r.words(n)
				events = append(events, more...)
				return err
			},
			"action": func(_ *volcano, n *yaml.Node) (err error) { action, err = r.Text(n); return err },
			"exitCode": func(v *volcano, n *yaml.Node) error {
				codes = true
				return count(r, 1, 255, func(*volcano) *int { return &code })(v, n)
			},
		}.with(silentlyIgnored[*volcano]("timeout")), v)
		if err != nil {
			return err
		}
		for _, event := range events {
			if before[event] && !codes {
				return r.Fault(n, "is the second policy for "+fault.Quote(event), "one event has one action")
			}
			before[event] = before[event] || !codes
		}
		switch {
		case slices.Contains(events, "TaskCompleted") && action == "CompleteJob":
			v.completes, v.completed, v.completesIn = n, task, strings.TrimPrefix(r.where(), "spec.")
		case action == "AbortJob" || action == "TerminateJob" || action == "CompleteJob":
			return r.endPolicy(n, events, action, code, on)
		case action == "RestartJob", action == "RestartTask", action == "RestartPod", action == "RestartPartition":
		default:
			r.warn(n, notActedOn)
		}
		return nil
	})
}

// endPolicy reads a policy that aborts the job after a failure of a pod, or after one with a certain exit code. A
// task that has failed for good ends the job even without a policy.
func (r *reader) endPolicy(n *yaml.Node, events []string, action string, code int, on *[]dag.Reaction) error {
	abort := dag.Reaction{Event: dag.PodFailed, Action: dag.Abort}
	if code > 0 {
		abort.ExitCodes = []int{code}
		events = []string{"PodFailed"}
	}
	for _, event := range events {
		switch {
		case slices.Contains([]string{"Unknown", "JobUnknown", "OutOfSync", "CommandIssued", "JobUpdated"}, event):
			r.warn(n, "is ignored: "+event+" does not happen here")
		case action == "CompleteJob" || event != "PodFailed" && event != "TaskFailed":
			return r.Fault(n, action+" after "+event+" is not supported",
				"the job ends after PodFailed, TaskFailed or an exitCode with AbortJob, "+
					"or after a task with TaskCompleted")
		case event == "PodFailed":
			*on = append(*on, abort)
		}
	}
	return nil
}

// flow is a step of a JobFlow.
type flow struct {
	name, template string
	targets        []string
	at             *yaml.Node
}

// jobFlow reads a DAG of JobTemplates, which must be in the same file.
func (r *reader) jobFlow(d *document) ([]*group, error) {
	var flows []*flow
	err := readInto(r, d.spec, fields[*document]{
		"flows": func(_ *document, n *yaml.Node) error {
			return r.list(n, func(_ int, n *yaml.Node) error {
				f, err := r.readFlow(n)
				flows = append(flows, f)
				return err
			})
		},
	}.with(silentlyIgnored[*document]("jobRetainPolicy")), d)
	if err != nil {
		return nil, err
	}
	steps := map[string][]*group{}
	var out []*group
	for i, f := range flows {
		if steps[f.name] != nil {
			return nil, fault.Within(
				"flows"+fault.Index(i),
				r.Fault(f.at, "there are two flows "+fault.Quote(f.name), "rename one"),
			)
		}
		t := r.referenced.templates[f.template]
		if t == nil {
			return nil, fault.Within("flows"+fault.Index(i), fault.Within("name", r.Fault(
				f.at,
				"there is no JobTemplate "+fault.Quote(
					f.template,
				)+" in the file",
				"put it into the same file, after a line ---",
			)))
		}
		g, err := r.jobTemplate(t, f.name)
		if err != nil {
			return nil, err
		}
		steps[f.name], out = []*group{g}, append(out, g)
	}
	for i, f := range flows {
		for _, target := range f.targets {
			before := steps[target]
			if before == nil {
				return nil, fault.Within("flows"+fault.Index(i), fault.Within("dependsOn",
					r.Fault(f.at, "there is no flow "+fault.Quote(target), "")))
			}
			steps[f.name][0].after = append(steps[f.name][0].after, before...)
		}
	}
	return out, nil
}

func (r *reader) readFlow(n *yaml.Node) (*flow, error) {
	f := &flow{at: n}
	err := readInto(r, n, fields[*flow]{
		"name": text(r, func(f *flow) *string { return &f.name }),
		"dependsOn": func(f *flow, n *yaml.Node) error {
			return readInto(r, n, fields[*flow]{
				"targets": func(f *flow, n *yaml.Node) (err error) { f.targets, err = r.words(n); return err },
			}.with(unsupported[*flow](r, "probes pods, which is not supported",
				"wait only for the end of targets", "probe")).with(silentlyIgnored[*flow]("strategy")), f)
		},
	}.with(unsupported[*flow](r, "changes the template", "write a separate JobTemplate", "patch")), f)
	if err == nil && f.name == "" {
		err = r.missing(n, "name", "name a JobTemplate")
	}
	f.template = f.name
	return f, err
}

// jobTemplate reads the template of a step of a flow, with its own positions in the file.
func (r *reader) jobTemplate(d *document, name string) (*group, error) {
	path := r.path
	r.path = []string{"spec"}
	defer func() { r.path = path }()
	spec, err := r.field(d.node, "spec")
	if err != nil || spec == nil {
		return nil, cmp.Or(err, r.Fault(d.node, "is missing", "add a spec"))
	}
	return r.volcanoSpec(spec, name)
}
