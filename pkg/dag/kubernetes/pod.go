package kubernetes

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/fault"
	"github.com/tradewind-broker/tradewind/internal/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/kubernetes/podtext"
)

// pod is what a template says, as far as it matters elsewhere.
type pod struct {
	meta      metadata
	at        *yaml.Node
	path      string
	image     string
	command   []string // as it stands: what it names of variables is known when all of them are
	args      []string
	env       []podtext.Variable
	before    []step // what init containers run
	inits     []*pod // what they ask for
	dir       string
	folders   []mount // of volumes that are folders
	files     []file
	resources []dag.Resources
	rules     []dag.Placement // about its own kind
	marks     []dag.Mark
	subdomain string
	hostname  string
	restart   string
	volumes   map[string]volume
}

// step is an init container.
type step struct {
	command []string // as it stands
	env     []podtext.Variable
	dir     string
}

// template reads a pod template.
func (r *reader) template(n *yaml.Node) (*pod, error) {
	p := &pod{at: n, path: r.where()}
	var spec *yaml.Node
	err := readInto(r, n, fields[*pod]{
		"metadata": metadataOf(r, func(p *pod) *metadata { return &p.meta }),
		"spec":     func(_ *pod, n *yaml.Node) error { spec = n; return nil },
	}.with(passed[*pod]("apiVersion", "kind")), p)
	if err == nil && spec == nil {
		err = r.missing(n, "spec", "say what its pods run")
	}
	if err != nil {
		return nil, err
	}
	r.takeQueue(p.meta.labels)
	err = r.within("spec", func() error { return r.podSpec(p, spec) })
	return p, fault.Within("spec", fault.At(yamlfile.PositionOf(spec), err))
}

// podParts are the parts of a pod that are read when all of it has been seen.
type podParts struct {
	*pod
	containers, init, volumes, selector, affinity *yaml.Node
}

func (r *reader) podSpec(p *pod, n *yaml.Node) error {
	parts := &podParts{pod: p}
	keep := func(to func(*podParts) **yaml.Node) func(*podParts, *yaml.Node) error {
		return func(p *podParts, n *yaml.Node) error { *to(p) = n; return nil }
	}
	known := fields[*podParts]{
		"containers":        keep(func(p *podParts) **yaml.Node { return &p.containers }),
		"initContainers":    keep(func(p *podParts) **yaml.Node { return &p.init }),
		"volumes":           keep(func(p *podParts) **yaml.Node { return &p.volumes }),
		"nodeSelector":      keep(func(p *podParts) **yaml.Node { return &p.selector }),
		"affinity":          keep(func(p *podParts) **yaml.Node { return &p.affinity }),
		"subdomain":         text(r, func(p *podParts) *string { return &p.subdomain }),
		"hostname":          text(r, func(p *podParts) *string { return &p.hostname }),
		"priorityClassName": func(_ *podParts, n *yaml.Node) error { return r.takePriority(n) },
		"restartPolicy": func(p *podParts, n *yaml.Node) (err error) {
			if p.restart, err = r.Text(n); err == nil {
				err = fault.CheckWord("restart policy", p.restart, "Never", "OnFailure", "Always")
			}
			return err
		},
		"imagePullSecrets": func(_ *podParts, n *yaml.Node) error {
			r.warn(n, "is not acted on: a registry's login is given with --secret SKYPILOT_DOCKER_PASSWORD")
			return nil
		},
		"securityContext": func(_ *podParts, n *yaml.Node) error { return r.securityContext(n) },
	}
	known.with(passed[*podParts]("terminationGracePeriodSeconds", "schedulerName", "automountServiceAccountToken",
		"hostNetwork", "dnsPolicy", "shareProcessNamespace", "enableServiceLinks", "setHostnameAsFQDN", "os",
		"overhead", "preemptionPolicy", "tolerations", "nodeName", "hostUsers", "readinessGates"))
	known.with(ignored[*podParts](r, "is not acted on: what runs elsewhere has no rights in the cluster",
		"serviceAccountName", "serviceAccount"))
	known.with(ignored[*podParts](r, notActedOn, "activeDeadlineSeconds", "hostPID", "hostIPC", "dnsConfig",
		"topologySpreadConstraints", "runtimeClassName", "priority", "schedulingGates", "hostAliases", "resources",
		"workloadRef", "schedulingGroup"))
	known.with(denied[*podParts](r, "asks for devices of a cluster's drivers",
		"ask for them by resources: nvidia.com/gpu and a node selector", "resourceClaims"))
	if err := readInto(r, n, known, parts); err != nil {
		return err
	}
	if parts.containers == nil {
		return r.missing(n, "containers", "a pod has a container")
	}
	steps := []struct {
		name string
		node *yaml.Node
		do   func(*yaml.Node) error
	}{
		{"volumes", parts.volumes, func(n *yaml.Node) error { return r.readVolumes(p, n) }},
		{"containers", parts.containers, func(n *yaml.Node) error { return r.containers(p, n) }},
		{"initContainers", parts.init, func(n *yaml.Node) error { return r.initContainers(p, n) }},
		{"nodeSelector", parts.selector, func(n *yaml.Node) error { return r.nodeSelector(p, n) }},
		{"affinity", parts.affinity, func(n *yaml.Node) error { return r.affinity(p, n) }},
	}
	for _, s := range steps {
		if s.node == nil {
			continue
		}
		if err := r.within(s.name, func() error { return s.do(s.node) }); err != nil {
			return fault.Within(s.name, fault.At(yamlfile.PositionOf(s.node), err))
		}
	}
	r.settleResources(p, parts.containers)
	return nil
}

func (r *reader) securityContext(n *yaml.Node) error {
	entries, err := r.Mapping(n)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Key == "runAsUser" || e.Key == "runAsGroup" || e.Key == "fsGroup" || e.Key == "privileged" {
			r.warn(n, "is not acted on: scripts run as root of their container")
			return nil
		}
	}
	return nil
}

func (r *reader) containers(p *pod, n *yaml.Node) error {
	seen := 0
	err := r.list(n, func(i int, n *yaml.Node) error {
		if seen++; seen > 1 {
			return r.Fault(n, "is a second container: a task here is one", "run both by one command, or as two Jobs")
		}
		c, err := r.container(p, n, false)
		if err != nil {
			return err
		}
		p.image, p.command, p.args, p.env, p.dir = c.image, c.command, c.args, c.env, c.dir
		return nil
	})
	if err == nil && seen == 0 {
		err = r.Fault(n, "is empty", "a pod has a container")
	}
	return err
}

// initContainers are run before the command, in its container.
func (r *reader) initContainers(p *pod, n *yaml.Node) error {
	return r.list(n, func(_ int, n *yaml.Node) error {
		c, err := r.container(p, n, true)
		if err != nil {
			return err
		}
		if c.image != "" && c.image != p.image {
			return fault.Within(
				"image",
				r.Fault(c.imageAt, "is not that of the pod's container: what is run before it is run in it",
					"use one image, or a Job of its own that the other waits for"),
			)
		}
		if len(c.command) == 0 {
			return r.missing(n, "command", "say what it runs: what its image would run is not known here")
		}
		p.before = append(p.before, step{command: append(c.command, c.args...), env: c.env, dir: c.dir})
		return nil
	})
}

// container is one of a pod's while it is read.
type container struct {
	image         string
	imageAt       *yaml.Node
	command, args []string
	env           []podtext.Variable
	dir           string
	envFrom, vars *yaml.Node
	resources     *yaml.Node
	mounts        *yaml.Node
}

func (r *reader) container(p *pod, n *yaml.Node, before bool) (*container, error) {
	c := &container{env: slices.Clone(r.given)}
	list := func(to func(*container) *[]string) func(*container, *yaml.Node) error {
		return func(c *container, n *yaml.Node) (err error) {
			*to(c), err = r.words(n)
			return err
		}
	}
	keep := func(to func(*container) **yaml.Node) func(*container, *yaml.Node) error {
		return func(c *container, n *yaml.Node) error { *to(c) = n; return nil }
	}
	known := fields[*container]{
		"image": func(c *container, n *yaml.Node) (err error) {
			c.imageAt = n
			if c.image, err = r.Text(n); err == nil {
				err = dag.CheckImage("docker:" + c.image)
			}
			return err
		},
		"command":         list(func(c *container) *[]string { return &c.command }),
		"args":            list(func(c *container) *[]string { return &c.args }),
		"workingDir":      text(r, func(c *container) *string { return &c.dir }),
		"env":             keep(func(c *container) **yaml.Node { return &c.vars }),
		"envFrom":         keep(func(c *container) **yaml.Node { return &c.envFrom }),
		"resources":       keep(func(c *container) **yaml.Node { return &c.resources }),
		"volumeMounts":    keep(func(c *container) **yaml.Node { return &c.mounts }),
		"securityContext": func(_ *container, n *yaml.Node) error { return r.securityContext(n) },
		"restartPolicy": func(_ *container, n *yaml.Node) error {
			s, err := r.Text(n)
			if err == nil && s == "Always" && before {
				return r.Fault(n, "is a container that runs beside the others: a task here is one", "")
			}
			return err
		},
	}
	known.with(
		passed[*container]("name", "ports", "imagePullPolicy", "stdin", "stdinOnce", "tty", "terminationMessagePath",
			"terminationMessagePolicy", "resizePolicy", "readinessProbe", "startupProbe"),
	)
	known.with(ignored[*container](r, notActedOn, "livenessProbe", "lifecycle", "restartPolicyRules"))
	known.with(denied[*container](r, "are devices of a cluster's volumes", "", "volumeDevices"))
	if err := readInto(r, n, known, c); err != nil {
		return nil, err
	}
	asks := p
	if before && c.resources != nil {
		asks = &pod{meta: p.meta, path: p.path}
		p.inits = append(p.inits, asks)
	}
	steps := []struct {
		name string
		node *yaml.Node
		do   func(*yaml.Node) error
	}{
		{"resources", c.resources, func(n *yaml.Node) error { return r.readResources(asks, n) }},
		{"envFrom", c.envFrom, func(n *yaml.Node) error { return r.envFrom(c, n) }},
		{"env", c.vars, func(n *yaml.Node) error { return r.env(asks, c, n) }},
		{"volumeMounts", c.mounts, func(n *yaml.Node) error { return r.mountVolumes(p, n) }},
	}
	for _, s := range steps {
		if s.node == nil {
			continue
		}
		if err := r.within(s.name, func() error { return s.do(s.node) }); err != nil {
			return nil, fault.Within(s.name, fault.At(yamlfile.PositionOf(s.node), err))
		}
	}
	if !before {
		if c.image == "" {
			return nil, r.missing(n, "image", "say in which image it runs")
		}
		r.mark(p, "image", c.imageAt, fault.Join(r.where(), "image"))
	}
	return c, nil
}

// mark notes where a field of the resources stands.
func (r *reader) mark(p *pod, field string, n *yaml.Node, path string) {
	if n == nil {
		return
	}
	below := strings.TrimPrefix(strings.TrimPrefix(path, p.path), ".")
	p.marks = append(p.marks, dag.Mark{Pos: yamlfile.PositionOf(n), Field: field, Path: below})
}

// mentions says whether a word is in what a role's pods run.
func (p *role) mentions(word string) bool {
	all := [][]podtext.Value{expanded(p.pod.command, p.variables()), expanded(p.pod.args, p.variables())}
	for _, s := range p.pod.before {
		all = append(all, expanded(s.command, p.variablesOf(s)))
	}
	for _, words := range all {
		for _, v := range words {
			if slices.ContainsFunc(v, func(p podtext.Part) bool { return strings.Contains(p.Text, word) }) {
				return true
			}
		}
	}
	return false
}
