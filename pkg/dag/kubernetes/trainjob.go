package kubernetes

import (
	"cmp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"

	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/podtext"
)

const trainerGroup = "trainer.kubeflow.org"

// trainJob is Kubeflow's TrainJob: a runtime, which is a template of a JobSet, and the settings of this training.
type trainJob struct {
	runtime   string
	runtimeAt *yaml.Node
	nodes     int // 0 is the number of the runtime
	procs     string
	timeout   time.Duration // 0 is none
	policy    string        // torch, mpi, or empty
	trainer   *trainer
	dataset   *trainer
	model     *trainer
}

// trainer has the settings for a step of the runtime.
type trainer struct {
	image         string
	imageAt       *yaml.Node
	command, args []string
	hasCommand    bool
	vars          *yaml.Node
	resources     *yaml.Node
	uri           string
	at            *yaml.Node
	used          bool // the runtime has the step
}

func (r *reader) trainJob(d *document) ([]*group, error) {
	t := &trainJob{procs: "auto"}
	step := func(to func(*trainJob) **trainer) func(*trainJob, *yaml.Node) error {
		return func(t *trainJob, n *yaml.Node) (err error) {
			if *to(t), err = r.trainer(t, n); err == nil {
				(*to(t)).at = n
			}
			return err
		}
	}
	known := fields[*trainJob]{
		"runtimeRef": func(t *trainJob, n *yaml.Node) error {
			t.runtimeAt = n
			return readInto(r, n, fields[*trainJob]{
				"name": text(r, func(t *trainJob) *string { return &t.runtime }),
			}.with(silentlyIgnored[*trainJob]("apiGroup", "kind")), t)
		},
		"trainer": step(func(t *trainJob) **trainer { return &t.trainer }),
		"initializer": func(t *trainJob, n *yaml.Node) error {
			return readInto(r, n, fields[*trainJob]{
				"dataset": step(func(t *trainJob) **trainer { return &t.dataset }),
				"model":   step(func(t *trainJob) **trainer { return &t.model }),
			}, t)
		},
	}
	known.with(silentlyIgnored[*trainJob]("labels", "annotations")).
		with(ignored[*trainJob](r, notActedOn, "managedBy", "runtimePatches", "podTemplateOverrides",
			"podSpecOverrides"))
	known["suspend"] = suspended[*trainJob](r)
	known["activeDeadlineSeconds"] = func(t *trainJob, n *yaml.Node) (err error) {
		t.timeout, err = r.seconds(n)
		return err
	}
	if err := readInto(r, d.spec, known, t); err != nil {
		return nil, err
	}
	rt := r.referenced.runtimes[t.runtime]
	if rt == nil {
		at := t.runtimeAt
		if at == nil {
			return nil, r.missing(d.spec, "runtimeRef", "name a TrainingRuntime")
		}
		return nil, fault.Within("runtimeRef", r.Fault(at, "there is no runtime "+fault.Quote(t.runtime)+" in the file",
			"put it into the same file: kubectl get clustertrainingruntime "+t.runtime+" -o yaml"))
	}
	return r.trainGroups(d, t, rt)
}

func (r *reader) trainer(t *trainJob, n *yaml.Node) (*trainer, error) {
	s := &trainer{}
	err := readInto(r, n, fields[*trainer]{
		"image": func(s *trainer, n *yaml.Node) (err error) { s.imageAt = n; s.image, err = r.Text(n); return err },
		"command": func(s *trainer, n *yaml.Node) (err error) {
			s.hasCommand = true
			s.command, err = r.words(n)
			return err
		},
		"args":             func(s *trainer, n *yaml.Node) (err error) { s.args, err = r.words(n); return err },
		"env":              func(s *trainer, n *yaml.Node) error { s.vars = n; return nil },
		"resourcesPerNode": func(s *trainer, n *yaml.Node) error { s.resources = n; return nil },
		"storageUri":       text(r, func(s *trainer) *string { return &s.uri }),
		"numNodes": func(_ *trainer, n *yaml.Node) error {
			return count(r, 1, jobtext.MaxNodes, func(t *trainJob) *int { return &t.nodes })(t, n)
		},
		"numProcPerNode": func(_ *trainer, n *yaml.Node) (err error) { t.procs, err = r.Text(n); return err },
	}.with(ignored[*trainer](r, "is ignored: give its values with --secret", "secretRef")), s)
	return s, err
}

// trainGroups reads the runtime, with its own positions in the file, and applies the settings of the TrainJob.
func (r *reader) trainGroups(d *document, t *trainJob, rt *document) ([]*group, error) {
	path := r.path
	var set *jobSet
	var at *yaml.Node
	r.path = nil
	err := readInto(r, rt.node, fields[*trainJob]{
		"spec": func(t *trainJob, n *yaml.Node) error {
			return readInto(r, n, fields[*trainJob]{
				"mlPolicy": func(t *trainJob, n *yaml.Node) error { return r.mlPolicy(t, n) },
				"template": func(_ *trainJob, n *yaml.Node) error {
					return readInto(r, n, fields[*trainJob]{
						"metadata": func(_ *trainJob, n *yaml.Node) error { return r.metadata(&metadata{}, n) },
						"spec": func(_ *trainJob, n *yaml.Node) (err error) {
							at = n
							set, err = r.jobSetSpec(n, d.name)
							return err
						},
					}, t)
				},
			}.with(ignored[*trainJob](r, notActedOn, "podGroupPolicy")), t)
		},
	}.with(silentlyIgnored[*trainJob]("apiVersion", "kind", "metadata")), t)
	r.path = path
	if err == nil && set == nil {
		err = r.missing(rt.node, "template", "a runtime has a template of a JobSet")
	}
	if err != nil {
		return nil, err
	}
	for _, p := range set.roles {
		p.batch.pod.limit(t.timeout)
		if err := r.trainStep(t, p); err != nil {
			return nil, err
		}
	}
	for _, s := range []struct {
		field, job string
		*trainer
	}{
		{"trainer", "node", t.trainer}, {"initializer.dataset", "dataset-initializer", t.dataset},
		{"initializer.model", "model-initializer", t.model},
	} {
		if s.trainer != nil && !s.used {
			return nil, fault.Within(s.field, r.Fault(s.at, "the runtime has no job "+s.job, "add one to the runtime"))
		}
	}
	return r.setGroups(set, at)
}

// trainStep applies the settings of the TrainJob to a replicated job of its runtime.
func (r *reader) trainStep(t *trainJob, p *setRole) error {
	switch p.name {
	case "node", "trainer":
		if t.nodes > 0 {
			p.batch.completions, p.batch.parallelism = t.nodes, t.nodes
		}
		if err := r.putOver(p.batch.pod, t.trainer, "trainer"); err != nil {
			return err
		}
		if t.policy == "torch" {
			t.torch(p)
		}
	case "dataset-initializer":
		return r.putOver(p.batch.pod, t.dataset, "initializer")
	case "model-initializer":
		return r.putOver(p.batch.pod, t.model, "initializer")
	}
	return nil
}

// torch sets the variables of torchrun. The default number of processes per node is its number of GPUs.
func (t *trainJob) torch(p *setRole) {
	if t.procs == "auto" {
		t.procs = "1"
		if gpus := p.batch.pod.resources[0].AcceleratorCount; gpus > 0 {
			t.procs = jobtext.FormatNumber(gpus)
		}
	}
	set(&p.role, "PET_NNODES", number(p.replicas*p.batch.completions))
	set(&p.role, "PET_NPROC_PER_NODE", podtext.Part{Text: t.procs})
	set(&p.role, "PET_NODE_RANK", podtext.Part{Fact: podtext.Index})
	set(&p.role, "PET_MASTER_ADDR", podtext.Part{Fact: podtext.Head})
	set(&p.role, "PET_MASTER_PORT", podtext.Part{Text: "29500"})
}

// putOver applies the settings of a step to its pod. A nil step changes nothing.
func (r *reader) putOver(pod *pod, step *trainer, field string) error {
	if step == nil {
		return nil
	}
	step.used = true
	if step.image != "" {
		if err := jobtext.CheckImage("docker:" + step.image); err != nil {
			return fault.Within(field, fault.Within("image", fault.At(yamlfile.PositionOf(step.imageAt), err)))
		}
		pod.image = step.image
	}
	c := &container{env: pod.env}
	if step.vars != nil {
		err := r.within(
			field,
			func() error { return r.within("env", func() error { return r.env(pod, c, step.vars) }) },
		)
		if err != nil {
			return fault.Within(field, fault.Within("env", err))
		}
	}
	if step.uri != "" {
		if err := r.addVariable(c, nil, "STORAGE_URI", podtext.Plain(step.uri), false, ""); err != nil {
			return err
		}
	}
	pod.env = c.env
	if step.resources != nil {
		if res := pod.first(); len(pod.resources) > 1 { // any GPU, as many as the runtime requests
			res.Accelerator = ""
			pod.resources = pod.resources[:1]
		}
		vendor := pod.vendor
		pod.vendor = "" // the resources of the runtime may be replaced
		err := r.within(field, func() error {
			return r.within("resourcesPerNode", func() error { return r.readResources(pod, step.resources) })
		})
		if err != nil {
			return fault.Within(field, fault.Within("resourcesPerNode", err))
		}
		pod.vendor = cmp.Or(pod.vendor, vendor)
		if err := r.finishResources(pod, step.resources); err != nil {
			return fault.Within(field, err)
		}
	}
	if step.hasCommand || step.args != nil {
		pod.args = step.args
		if step.hasCommand {
			pod.command = step.command
		}
	}
	return nil
}

// mlPolicy reads the number of nodes of a runtime and its framework.
func (r *reader) mlPolicy(t *trainJob, n *yaml.Node) error {
	known := fields[*trainJob]{
		"numNodes": func(t *trainJob, n *yaml.Node) error {
			if t.nodes > 0 {
				return nil
			}
			return count(r, 1, jobtext.MaxNodes, func(t *trainJob) *int { return &t.nodes })(t, n)
		},
		"torch": func(t *trainJob, n *yaml.Node) error {
			t.policy = "torch"
			return readInto(r, n, fields[*trainJob]{
				"numProcPerNode": func(t *trainJob, n *yaml.Node) error {
					s, err := r.Text(n)
					if t.procs == "auto" && !strings.EqualFold(s, "gpu") && !strings.EqualFold(s, "cpu") {
						t.procs = s
					}
					return err
				},
			}.with(ignored[*trainJob](r, notActedOn, "elasticPolicy")), t)
		},
	}
	for _, name := range []string{"mpi", "flux", "jax", "xgboost", "plainml"} {
		known[name] = func(t *trainJob, n *yaml.Node) error {
			return r.Fault(n, "is a framework that is not supported", "torch is supported")
		}
	}
	return readInto(r, n, known, t)
}
