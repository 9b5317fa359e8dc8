package kubernetes

import (
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/podtext"
)

// pod has the fields of a pod template that matter outside a cluster.
type pod struct {
	meta      metadata
	at        *yaml.Node
	path      string
	image     string
	command   []string // unexpanded: variables are known only after the whole pod has been read
	args      []string
	env       []podtext.Variable
	before    []step // the commands of init containers
	inits     []*pod // the resources of init containers
	dir       string
	folders   []mount // of volumes that are folders
	files     []file
	resources []dag.Resources
	selected  string // the accelerator of its node selector
	vendor    string // the resource by which it requests GPUs
	vendorAt  *yaml.Node
	rules     []dag.Placement // about pods of the same template
	marks     []dag.Mark
	subdomain string
	hostname  string
	restart   string
	timeout   time.Duration // of the pod or of its job, the shorter one; 0 is none
	volumes   map[string]volume
}

// step is an init container.
type step struct {
	command []string // unexpanded
	env     []podtext.Variable
	dir     string
}

// limit shortens the maximum time of an attempt of the pod; 0 leaves it as it is.
func (p *pod) limit(d time.Duration) {
	if d > 0 && (p.timeout == 0 || d < p.timeout) {
		p.timeout = d
	}
}

// seconds reads a number of seconds of at least 1.
func (r *reader) seconds(n *yaml.Node) (time.Duration, error) {
	s, err := r.Text(n)
	if err != nil {
		return 0, err
	}
	v, err := jobtext.ParseInt(s, 1, int(dag.MaxDuration/time.Second))
	return time.Duration(v) * time.Second, err
}

// template reads a pod template.
func (r *reader) template(n *yaml.Node) (*pod, error) {
	p := &pod{at: n, path: r.where()}
	var spec *yaml.Node
	err := readInto(r, n, fields[*pod]{
		"metadata": metadataOf(r, func(p *pod) *metadata { return &p.meta }),
		"spec":     func(_ *pod, n *yaml.Node) error { spec = n; return nil },
	}.with(silentlyIgnored[*pod]("apiVersion", "kind")), p)
	if err == nil && spec == nil {
		err = r.missing(n, "spec", "add the spec of its pods")
	}
	if err != nil {
		return nil, err
	}
	if err := r.setQueueFromLabels(&p.meta); err != nil {
		return nil, err
	}
	err = r.within("spec", func() error { return r.podSpec(p, spec) })
	return p, fault.Within("spec", fault.At(yamlfile.PositionOf(spec), err))
}

// podParts are the fields of a pod that are read after all others.
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
		"priorityClassName": func(_ *podParts, n *yaml.Node) error { return r.setPriority(n) },
		"restartPolicy": func(p *podParts, n *yaml.Node) (err error) {
			if p.restart, err = r.Text(n); err == nil {
				err = fault.CheckWord("restart policy", p.restart, "Never", "OnFailure", "Always")
			}
			return err
		},
		"imagePullSecrets": func(_ *podParts, n *yaml.Node) error {
			r.warn(n, "is ignored: give the login of a registry with --secret SKYPILOT_DOCKER_PASSWORD")
			return nil
		},
		"securityContext": func(_ *podParts, n *yaml.Node) error { return r.securityContext(n) },
	}
	known.with(
		silentlyIgnored[*podParts]("terminationGracePeriodSeconds", "schedulerName", "automountServiceAccountToken",
			"hostNetwork", "dnsPolicy", "shareProcessNamespace", "enableServiceLinks", "setHostnameAsFQDN", "os",
			"overhead", "preemptionPolicy", "tolerations", "hostUsers", "readinessGates"),
	)
	known.with(ignored[*podParts](r, "is ignored: a machine outside the cluster has no rights in it",
		"serviceAccountName", "serviceAccount"))
	known["activeDeadlineSeconds"] = func(p *podParts, n *yaml.Node) error {
		d, err := r.seconds(n)
		p.limit(d)
		return err
	}
	known.with(unsupported[*podParts](r, "names a node of a cluster, and the plan chooses the machine",
		"leave it out, or choose a type of machine with nodeSelector", "nodeName"))
	known.with(unsupported[*podParts](r, "are resources of a whole pod, which are not read",
		"write them at its container", "resources"))
	known.with(ignored[*podParts](r, notActedOn, "hostPID", "hostIPC", "dnsConfig",
		"topologySpreadConstraints", "runtimeClassName", "priority", "schedulingGates", "hostAliases",
		"workloadRef", "schedulingGroup"))
	known.with(unsupported[*podParts](r, "requests devices of the cluster's drivers",
		"request them with nvidia.com/gpu and a node selector", "resourceClaims"))
	var all fault.Faults
	if !all.Add(readInto(r, n, known, parts)) {
		return all.Err()
	}
	if parts.containers == nil && all.None() {
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
		err := r.within(s.name, func() error { return s.do(s.node) })
		if !all.Add(fault.Within(s.name, fault.At(yamlfile.PositionOf(s.node), err))) {
			break
		}
	}
	if !all.None() {
		return all.Err()
	}
	return r.finishResources(p, parts.containers)
}

func (r *reader) securityContext(n *yaml.Node) error {
	entries, err := r.Mapping(n)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Key == "runAsUser" || e.Key == "runAsGroup" || e.Key == "fsGroup" || e.Key == "privileged" {
			r.warn(n, "is ignored: scripts run as root of their container")
			return nil
		}
	}
	return nil
}

func (r *reader) containers(p *pod, n *yaml.Node) error {
	seen := 0
	err := r.list(n, func(i int, n *yaml.Node) error {
		if seen++; seen > 1 {
			return r.Fault(n, "is a second container: a task has only one", "run both with one command, or as two Jobs")
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

// initContainers adds the commands of init containers, which run before the pod's command, in its container.
func (r *reader) initContainers(p *pod, n *yaml.Node) error {
	return r.list(n, func(_ int, n *yaml.Node) error {
		c, err := r.container(p, n, true)
		if err != nil {
			return err
		}
		if c.image != "" && c.image != p.image {
			return fault.Within(
				"image",
				r.Fault(c.imageAt, "differs from the image of the pod's container, in which init containers run",
					"use the same image, or a separate Job that the other waits for"),
			)
		}
		if len(c.command) == 0 {
			return r.missing(n, "command", "add the command: the default command of its image is unknown")
		}
		p.before = append(p.before, step{command: append(c.command, c.args...), env: c.env, dir: c.dir})
		return nil
	})
}

// container is a container while it is read.
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
				err = jobtext.CheckImage("docker:" + c.image)
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
				return r.Fault(n, "is a sidecar container: a task has only one container", "run both with one command")
			}
			if err == nil {
				r.warn(n, notActedOn)
			}
			return err
		},
	}
	known.with(
		silentlyIgnored[*container](
			"name",
			"ports",
			"imagePullPolicy",
			"stdin",
			"stdinOnce",
			"tty",
			"terminationMessagePath",
			"terminationMessagePolicy",
			"resizePolicy",
			"readinessProbe",
			"startupProbe",
		),
	)
	known.with(ignored[*container](r, notActedOn, "livenessProbe", "lifecycle", "restartPolicyRules"))
	known.with(
		unsupported[*container](r, "are block devices of volumes, which exist only in a cluster", "", "volumeDevices"),
	)
	var all fault.Faults
	if !all.Add(readInto(r, n, known, c)) {
		return nil, all.Err()
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
		err := r.within(s.name, func() error { return s.do(s.node) })
		if !all.Add(fault.Within(s.name, fault.At(yamlfile.PositionOf(s.node), err))) {
			break
		}
	}
	if !all.None() {
		return nil, all.Err()
	}
	if !before {
		if c.image == "" {
			return nil, r.missing(n, "image", "add the image in which it runs")
		}
		r.mark(p, "image", c.imageAt, fault.Join(r.where(), "image"))
	}
	return c, nil
}

// mark records the position of a field of the resources.
func (r *reader) mark(p *pod, field string, n *yaml.Node, path string) {
	if n == nil {
		return
	}
	below := strings.TrimPrefix(strings.TrimPrefix(path, p.path), ".")
	p.marks = append(p.marks, dag.Mark{Pos: yamlfile.PositionOf(n), Field: field, Path: below})
}

// mentions reports whether the commands of a role's pods contain a word.
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
