package kubernetes

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/podtext"
)

// Kubeflow's training jobs (kubeflow.org/v1, v2beta1) have replicas by type, which start together and find each other
// by environment variables.

// training is the spec of a training job.
type training struct {
	roles   []*role
	backoff int
	procs   string // processes on each node, for torch
	slots   int
	timeout time.Duration // 0 is none
}

// training reads the spec. types are the replica types of the kind, in the order of their ranks.
func (r *reader) training(d *document, field string, types []string, extra fields[*training]) (*training, error) {
	t := &training{backoff: -1, procs: "auto", slots: 1}
	known := fields[*training]{
		field: func(t *training, n *yaml.Node) error {
			known := fields[*training]{}
			for _, name := range types {
				known[name] = func(t *training, n *yaml.Node) error { return r.replicaSpec(t, n, d.name, name) }
			}
			return readInto(r, n, known, t)
		},
		"runPolicy": func(t *training, n *yaml.Node) error { return r.runPolicy(t, n) },
	}
	if err := readInto(r, d.spec, known.with(extra), t); err != nil {
		return nil, err
	}
	if len(t.roles) == 0 {
		return nil, r.missing(d.spec, field, "add replicas: "+strings.Join(types, ", "))
	}
	order := func(p *role) int {
		return slices.IndexFunc(types, func(s string) bool { return strings.EqualFold(s, p.name) })
	}
	slices.SortStableFunc(t.roles, func(a, b *role) int { return order(a) - order(b) })
	for _, p := range t.roles {
		p.pod.limit(t.timeout)
		if t.backoff >= 0 {
			p.retries = t.backoff
		}
	}
	return t, nil
}

func (r *reader) runPolicy(t *training, n *yaml.Node) error {
	known := fields[*training]{
		"backoffLimit": count(r, 0, 1<<30, func(t *training) *int { return &t.backoff }),
		"schedulingPolicy": func(t *training, n *yaml.Node) error {
			return readInto(r, n, fields[*training]{
				"queue": func(_ *training, n *yaml.Node) error {
					s, err := r.Text(n)
					return firstOf(err, func() error { return r.setQueue(s, n) })
				},
				"priorityClass": func(_ *training, n *yaml.Node) error { return r.setPriority(n) },
			}.with(silentlyIgnored[*training]("minAvailable", "minResources", "scheduleTimeoutSeconds")), t)
		},
	}
	known.with(silentlyIgnored[*training]("cleanPodPolicy", "ttlSecondsAfterFinished")).
		with(ignored[*training](r, notActedOn, "managedBy"))
	known["suspend"] = suspended[*training](r)
	known["activeDeadlineSeconds"] = func(t *training, n *yaml.Node) (err error) {
		t.timeout, err = r.seconds(n)
		return err
	}
	return readInto(r, n, known, t)
}

func (r *reader) replicaSpec(t *training, n *yaml.Node, job, name string) error {
	p := &role{name: strings.ToLower(name), pods: 1, at: n, path: r.where(), retries: backoffLimit}
	err := readInto(r, n, fields[*role]{
		"replicas": count(r, 1, jobtext.MaxNodes, func(p *role) *int { return &p.pods }),
		"restartPolicy": func(p *role, n *yaml.Node) error {
			s, err := r.Text(n)
			switch s {
			case "Never":
				p.retries = 0
			case "ExitCode": // codes up to 127 are permanent errors
				for first := 1; first < 128; first += jobtext.MaxReactions {
					x := dag.Reaction{Event: dag.PodFailed, Action: dag.Abort}
					for code := first; code < min(first+jobtext.MaxReactions, 128); code++ {
						x.ExitCodes = append(x.ExitCodes, code)
					}
					p.on = append(p.on, x)
				}
			}
			if err == nil {
				err = fault.CheckWord("restart policy", s, "Never", "OnFailure", "Always", "ExitCode")
			}
			return err
		},
		"template": func(p *role, n *yaml.Node) (err error) {
			p.pod, err = r.template(n)
			return err
		},
	}, p)
	if err != nil {
		return err
	}
	if p.pod == nil {
		return r.missing(n, "template", "add the template of its pods")
	}
	p.called, p.perJob = job+"-"+p.name, p.pods
	t.roles = append(t.roles, p)
	return nil
}

// whole returns a group of all replicas.
func (r *reader) whole(d *document, t *training) ([]*group, error) {
	return []*group{{name: d.name, roles: t.roles, at: d.spec, path: r.where()}}, nil
}

func set(p *role, name string, v ...podtext.Part) {
	p.env = append(p.env, podtext.Variable{Name: name, Value: v})
}

func number(n int) podtext.Part { return podtext.Part{Text: strconv.Itoa(n)} }

// ranked sets the variables with which distributed programs of several frameworks find their rank. Like the operator,
// it counts the processes of a node in the size of the world if their number is known.
func ranked(t *training, port int) {
	first := 0
	total := 0
	for _, p := range t.roles {
		total += p.pods
	}
	if each, err := strconv.Atoi(t.procs); err == nil && each > 0 {
		total *= each
	}
	for _, p := range t.roles {
		set(p, "MASTER_ADDR", podtext.Part{Fact: podtext.Head})
		set(p, "MASTER_PORT", number(port))
		set(p, "WORLD_SIZE", number(total))
		set(p, "RANK", podtext.Part{Fact: podtext.GroupRank})
		first += p.pods
	}
}

func (r *reader) pytorchJob(d *document) ([]*group, error) {
	t, err := r.training(d, "pytorchReplicaSpecs", []string{"Master", "Worker"}, fields[*training]{
		"nprocPerNode": r.processes,
		"elasticPolicy": func(t *training, n *yaml.Node) error {
			return readInto(r, n, fields[*training]{"nProcPerNode": r.processes}.
				with(ignored[*training](r, "is ignored: all replicas start together", "minReplicas", "maxReplicas",
					"rdzvBackend", "rdzvPort", "rdzvHost", "rdzvId", "rdzvConf", "standalone", "maxRestarts",
					"metrics")), t)
		},
	})
	if err != nil {
		return nil, err
	}
	const port = 23456
	ranked(t, port)
	total := 0
	for _, p := range t.roles {
		total += p.pods
	}
	for _, p := range t.roles {
		set(p, "PYTHONUNBUFFERED", podtext.Part{Text: "1"})
		set(p, "PET_NNODES", number(total))
		set(p, "PET_NPROC_PER_NODE", podtext.Part{Text: t.procs})
		set(p, "PET_NODE_RANK", podtext.Part{Fact: podtext.GroupRank})
		set(p, "PET_MASTER_ADDR", podtext.Part{Fact: podtext.Head})
		set(p, "PET_MASTER_PORT", number(port))
	}
	return r.whole(d, t)
}

// processes reads the processes on each node: a number, or auto, cpu or gpu.
func (r *reader) processes(t *training, n *yaml.Node) (err error) {
	if t.procs, err = r.Text(n); err != nil || slices.Contains([]string{"auto", "cpu", "gpu"}, t.procs) {
		return err
	}
	_, err = jobtext.ParseInt(t.procs, 1, 1<<20)
	return err
}

func (r *reader) xgboostJob(d *document) ([]*group, error) {
	t, err := r.training(d, "xgbReplicaSpecs", []string{"Master", "Worker"}, nil)
	if err != nil {
		return nil, err
	}
	ranked(t, 9999)
	return r.whole(d, t)
}

func (r *reader) jaxJob(d *document) ([]*group, error) {
	t, err := r.training(d, "jaxReplicaSpecs", []string{"Worker"}, nil)
	if err != nil {
		return nil, err
	}
	const port = 6666
	for _, p := range t.roles {
		set(p, "COORDINATOR_ADDRESS", podtext.Part{Fact: podtext.Head})
		set(p, "COORDINATOR_PORT", number(port))
		set(p, "NUM_PROCESSES", number(p.pods))
		set(p, "PROCESS_ID", podtext.Part{Fact: podtext.Rank})
	}
	return r.whole(d, t)
}

func (r *reader) paddleJob(d *document) ([]*group, error) {
	t, err := r.training(d, "paddleReplicaSpecs", []string{"Master", "Worker"},
		ignored[*training](r, "is ignored: all replicas start together", "elasticPolicy"))
	if err != nil {
		return nil, err
	}
	total := 0
	for _, p := range t.roles {
		total += p.pods
	}
	for _, p := range t.roles {
		set(p, "PADDLE_MASTER", podtext.Part{Fact: podtext.Head}, podtext.Part{Text: ":36543"})
		set(p, "PADDLE_NNODES", number(total))
	}
	return r.whole(d, t)
}

// tfJob ends when its chief has ended, or else its workers: parameter servers never end by themselves, and are ended
// then.
func (r *reader) tfJob(d *document) ([]*group, error) {
	t, err := r.training(d, "tfReplicaSpecs", []string{"Chief", "Master", "Worker", "Evaluator", "PS"},
		silentlyIgnored[*training]("successPolicy").
			with(ignored[*training](r, "is ignored: TF_CONFIG names all workers", "enableDynamicWorker")))
	if err != nil {
		return nil, err
	}
	var hosts []string
	for _, p := range t.roles {
		var names []string
		for i := range p.pods {
			names = append(names, strconv.Quote(p.called+"-"+strconv.Itoa(i)+":2222"))
		}
		hosts = append(hosts, strconv.Quote(p.name)+":["+strings.Join(names, ",")+"]")
	}
	for _, p := range t.roles {
		set(
			p,
			"TF_CONFIG",
			podtext.Part{
				Text: `{"cluster":{` + strings.Join(hosts, ",") + `},"task":{"type":"` + p.name + `","index":`,
			},
			podtext.Part{Fact: podtext.Rank},
			podtext.Part{Text: `},"environment":"cloud"}`},
		)
	}
	g := &group{name: d.name, roles: t.roles, at: d.spec, path: r.where()}
	if slices.ContainsFunc(t.roles, func(p *role) bool { return p.name == "ps" && p.pods > 0 }) {
		g.ends = t.leads("chief", "master", "worker")
	}
	return []*group{g}, nil
}

// leads returns the first of the names whose role has pods.
func (t *training) leads(names ...string) []string {
	for _, name := range names {
		if slices.ContainsFunc(t.roles, func(p *role) bool { return p.name == name && p.pods > 0 }) {
			return []string{name}
		}
	}
	return nil
}

// mpiJob rejects jobs with workers: the launcher needs SSH keys for its workers, and they end with it.
func (r *reader) mpiJob(d *document) ([]*group, error) {
	t, err := r.training(d, "mpiReplicaSpecs", []string{"Launcher", "Worker"}, fields[*training]{
		"slotsPerWorker": count(r, 1, 1<<20, func(t *training) *int { return &t.slots }),
	}.with(silentlyIgnored[*training](
		"sshAuthMountPath", "launcherCreationPolicy", "mpiImplementation", "cleanPodPolicy", "runLauncherAsWorker")))
	if err != nil {
		return nil, err
	}
	for _, p := range t.roles {
		if p.name == "worker" && p.pods > 0 {
			return nil, fault.Within("mpiReplicaSpecs", fault.Within("Worker", r.Fault(p.at,
				"waits for its launcher by ssh and ends with it, which is not supported",
				"write a task of several nodes: each has the others' addresses in $TRADEWIND_NODES")))
		}
	}
	return r.whole(d, t)
}
