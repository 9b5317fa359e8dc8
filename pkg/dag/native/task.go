package native

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
)

// forDefaults returns the fields of defaults. A task that has such a field replaces the whole field.
func (r *reader) forDefaults() yamlfile.Fields[*dag.Task] {
	y := &r.Reader
	return yamlfile.Fields[*dag.Task]{
		"setup": yamlfile.TextField(
			y,
			func(t *dag.Task) *string { return &t.Setup },
			yamlfile.Checked(dag.CheckScript),
		),
		"workdir": r.readWorkdir,
		"nodes": func(t *dag.Task, n *yaml.Node) error {
			if r.nodes = n; t == &r.defaults {
				r.defaultNodes = n
			}
			s, err := r.Text(n)
			if err == nil {
				t.Nodes, t.MaxNodes, err = dag.ParseNodes(s)
			}
			return err
		},
		"retries": yamlfile.TextField(y, func(t *dag.Task) *int { return &t.Retries }, func(s string) (int, error) {
			return dag.ParseInt(s, 0, dag.MaxRetries)
		}),
		"timeout": yamlfile.TextField(y, func(t *dag.Task) *time.Duration { return &t.Timeout }, dag.ParseDuration),
		"login": func(t *dag.Task, n *yaml.Node) (err error) {
			t.Login, err = r.Boolean(n)
			return err
		},
		"checkpoint": func(t *dag.Task, n *yaml.Node) error {
			t.Checkpoint = new(dag.Checkpoint)
			return r.readCheckpoint(t.Checkpoint, n)
		},
		"time": func(t *dag.Task, n *yaml.Node) error {
			if r.time = n; t == &r.defaults {
				r.defaultTime = n
			}
			return r.readTime(&t.Time, n)
		},
		"reference": yamlfile.TextField(y, func(t *dag.Task) *string { return &t.Reference },
			yamlfile.Checked(dag.CheckWord)),
		"resources": r.readResources,
		"share":     r.readShare,
		"labels": func(t *dag.Task, n *yaml.Node) (err error) {
			t.Labels, err = r.readLabels(n)
			return err
		},
		"placement": func(t *dag.Task, n *yaml.Node) (err error) {
			t.Placement, err = r.readPlacement(n, "")
			return err
		},
	}
}

func (r *reader) forTask() yamlfile.Fields[*dag.Task] {
	known := r.forDefaults()
	y := &r.Reader
	known["run"] = yamlfile.TextField(
		y,
		func(t *dag.Task) *string { return &t.Run },
		yamlfile.Checked(dag.CheckScript),
	)
	known["spark"] = r.readSpark
	known["recorded"] = yamlfile.TextField(
		y,
		func(t *dag.Task) *time.Duration { return &t.Recorded },
		dag.ParseDuration,
	)
	known["env"] = func(t *dag.Task, n *yaml.Node) error {
		env, err := r.readEnv(n)
		t.Env = env
		return firstOf(err, func() error { return notBoth(t) })
	}
	known["secrets"] = func(t *dag.Task, n *yaml.Node) error {
		secrets, err := r.readSecrets(n, "secrets")
		return firstOf(err, func() error { return r.addSecrets(t, secrets) })
	}
	known["after"] = func(_ *dag.Task, n *yaml.Node) error {
		return r.List(n, func(i int, n *yaml.Node) error { return r.readAfter(i, n) })
	}
	known["inputs"] = func(t *dag.Task, n *yaml.Node) error {
		return r.List(n, func(i int, n *yaml.Node) error { return r.readInput(t, i, n) })
	}
	known["outputs"] = r.readOutputs
	inGang := func(to func(*dag.Task) *string) func(*dag.Task, *yaml.Node) error {
		read := yamlfile.TextField(y, to, yamlfile.Checked(dag.CheckName))
		return func(t *dag.Task, n *yaml.Node) error {
			r.gangs[r.current] = yamlfile.PositionOf(n)
			return read(t, n)
		}
	}
	known["gang"] = inGang(func(t *dag.Task) *string { return &t.Gang })
	known["joins"] = inGang(func(t *dag.Task) *string { return &t.Joins })
	known["role"] = yamlfile.TextField(y, func(t *dag.Task) *string { return &t.Role }, yamlfile.Checked(dag.CheckName))
	known["framework"] = yamlfile.TextField(y, func(t *dag.Task) *dag.Framework { return &t.Framework },
		word[dag.Framework])
	known["within"] = yamlfile.TextField(y, func(t *dag.Task) *dag.Within { return &t.Within }, word[dag.Within])
	known["service"] = r.readService
	for _, field := range arrayFields() {
		known[field] = r.onlyArrays
	}
	known["on"] = func(t *dag.Task, n *yaml.Node) (err error) {
		t.On, err = r.readOn(n)
		return err
	}
	return known
}

// readShare reads whether a task shares machines: true or false.
func (r *reader) readShare(t *dag.Task, n *yaml.Node) error {
	text, err := r.Text(n)
	if err != nil {
		return err
	}
	switch text {
	case "true":
		t.Share = dag.ShareJob
	case "false":
		t.Share = dag.ShareNone
	case "queue":
		return r.Fault(n, "cannot be shared between jobs yet", "write true: then tasks of this job share machines")
	default:
		return r.Fault(n, "is not true or false", "")
	}
	switch {
	case t == &r.defaults:
		r.defaultsSayShare = true
	case t.Share != dag.ShareNone:
		r.shares = n
	}
	r.saysShare = true
	return nil
}

// firstOf returns err if it is not nil, or else the result of next.
func firstOf(err error, next func() error) error {
	if err != nil {
		return err
	}
	return next()
}

// readWorkdir reads a directory, or a repository as a mapping of url and ref.
func (r *reader) readWorkdir(t *dag.Task, n *yaml.Node) error {
	y := &r.Reader
	t.Workdir, t.Repository = "", nil // may be set by defaults
	r.files = append(r.files, dag.Mark{
		Alternative: dag.FilesOfTask, Pos: yamlfile.PositionOf(n), Field: "workdir", Path: "workdir",
	})
	if n.Kind != yaml.MappingNode {
		return yamlfile.TextField(
			y,
			func(t *dag.Task) *string { return &t.Workdir },
			yamlfile.Checked(dag.CheckPlainURI),
		)(
			t,
			n,
		)
	}
	t.Repository = &dag.Repository{}
	err := yamlfile.ReadFields(y, n, yamlfile.Fields[*dag.Repository]{
		"url": yamlfile.TextField(
			y,
			func(r *dag.Repository) *string { return &r.URL },
			yamlfile.Checked(dag.CheckRepositoryURL),
		),
		"ref": yamlfile.TextField(y, func(r *dag.Repository) *string { return &r.Ref }, yamlfile.Checked(dag.CheckRef)),
	}, t.Repository)
	if err == nil && t.Repository.URL == "" {
		err = fault.Within("url", r.Fault(n, "is missing", "add the URL of the git repository"))
	}
	return err
}

func (r *reader) readCheckpoint(c *dag.Checkpoint, n *yaml.Node) error {
	y := &r.Reader
	err := yamlfile.ReadFields(y, n, yamlfile.Fields[*dag.Checkpoint]{
		"every": yamlfile.TextField(y, func(c *dag.Checkpoint) *time.Duration { return &c.Every }, dag.ParseDuration),
		"path": yamlfile.TextField(
			y,
			func(c *dag.Checkpoint) *string { return &c.Path },
			yamlfile.Checked(dag.CheckInside),
		),
		"size": yamlfile.TextField(y, func(c *dag.Checkpoint) *dag.GiB { return &c.Size }, dag.ParseSize),
	}, c)
	if err == nil && c.Path == "" {
		err = fault.Within(
			"path",
			r.Fault(n, "is missing", "add the path, in the task's directory, at which checkpoints are written"),
		)
	}
	return err
}

// readTime reads an estimate: one time, or a mapping from accelerators and instance types to times, which may also have
// the number of operations.
func (r *reader) readTime(t *dag.TimeEstimate, n *yaml.Node) error {
	*t = dag.TimeEstimate{}
	fields := r.forTime()
	if n.Kind == yaml.ScalarNode {
		return fields[dag.DefaultTimeKey](t, n)
	}
	fields[dag.DefaultTimeKey] = r.orNone(fields[dag.DefaultTimeKey])
	entries, err := r.Mapping(n)
	if err != nil {
		return err
	}
	for _, e := range entries {
		read, known := fields[e.Key]
		if !known {
			read = r.readTimeOn(e)
		}
		if err := read(t, e.Node); err != nil {
			return fault.WithinKey(e.Key, fault.At(yamlfile.PositionOf(e.Node), err))
		}
	}
	if t.Unknown() && t.Efficiency == 0 && t.Serial == nil && !t.Only {
		return r.Fault(n, "is empty", "write one time, or times by accelerator, instance type and default")
	}
	return cmp.Or(r.atField(n, dag.EfficiencyKey, t.CheckEfficiency()), r.atField(n, dag.DefaultTimeKey, t.CheckOnly()))
}

// orNone returns the reader of a default that may also be none.
func (r *reader) orNone(
	time func(*dag.TimeEstimate, *yaml.Node) error,
) func(*dag.TimeEstimate, *yaml.Node) error {
	return func(t *dag.TimeEstimate, n *yaml.Node) error {
		if s, err := r.Text(n); err == nil && s == dag.NoDefaultTime {
			t.Only = true
			return nil
		}
		return time(t, n)
	}
}

func (r *reader) forTime() yamlfile.Fields[*dag.TimeEstimate] {
	y := &r.Reader
	return yamlfile.Fields[*dag.TimeEstimate]{
		dag.DefaultTimeKey: yamlfile.TextField(y, func(t *dag.TimeEstimate) *time.Duration { return &t.Default },
			dag.ParseDuration),
		dag.FLOPsKey:  yamlfile.TextField(y, func(t *dag.TimeEstimate) *float64 { return &t.FLOPs }, dag.ParseFLOPs),
		dag.SerialKey: yamlfile.TextField(y, func(t *dag.TimeEstimate) **float64 { return &t.Serial }, dag.ParseSerial),
		dag.NodesKey:  r.readTimeByNodes,
		dag.EfficiencyKey: yamlfile.TextField(y, func(t *dag.TimeEstimate) *float64 { return &t.Efficiency },
			dag.ParseEfficiency),
	}
}

// readTimeByNodes reads times by the number of machines.
func (r *reader) readTimeByNodes(t *dag.TimeEstimate, n *yaml.Node) error {
	t.ByNodes = map[int]time.Duration{}
	if err := r.Each(n, func(e yamlfile.Entry) error {
		count, err := dag.ParseInt(e.Key, 1, dag.MaxNodes)
		if err != nil {
			return fault.At(yamlfile.PositionOf(e.Name), err)
		}
		s, err := r.Text(e.Node)
		if err == nil {
			t.ByNodes[count], err = dag.ParseDuration(s)
		}
		return err
	}); err != nil {
		return err
	}
	if len(t.ByNodes) == 0 {
		return r.Fault(n, "is empty", "write times by the number of machines, such as {1: 8h, 2: 4h30m}")
	}
	return nil
}

// readTimeOn returns the reader of the time on an accelerator or instance type.
func (r *reader) readTimeOn(e yamlfile.Entry) func(*dag.TimeEstimate, *yaml.Node) error {
	return func(t *dag.TimeEstimate, n *yaml.Node) error {
		s, err := r.Text(n)
		if err != nil {
			return err
		}
		d, err := dag.ParseDuration(s)
		if err != nil {
			return err
		}
		key, err := dag.TimeKey(e.Key)
		if _, twice := t.On[key]; twice && err == nil {
			err = fault.New("is given twice, in two spellings of "+fault.Quote(key), "remove one")
		}
		if err != nil {
			return fault.At(yamlfile.PositionOf(e.Name), err)
		}
		if t.On == nil {
			t.On = map[string]time.Duration{}
		}
		t.On[key] = d
		return nil
	}
}

// atField adds the position of a field of a mapping to an error, if there is one.
func (r *reader) atField(n *yaml.Node, field string, err error) error {
	if entries, bad := r.Mapping(n); bad == nil {
		for _, e := range entries {
			if e.Key == field {
				err = fault.At(yamlfile.PositionOf(e.Node), err)
			}
		}
	}
	return fault.Within(field, err)
}

func (r *reader) forOutput() yamlfile.Fields[*dag.Output] {
	y := &r.Reader
	return yamlfile.Fields[*dag.Output]{
		"name": yamlfile.TextField(
			y,
			func(o *dag.Output) *string { return &o.Name },
			yamlfile.Checked(dag.CheckName),
		),
		"path": yamlfile.TextField(
			y,
			func(o *dag.Output) *string { return &o.Path },
			yamlfile.Checked(dag.CheckInside),
		),
		"uri": yamlfile.TextField(y, func(o *dag.Output) *string { return &o.URI },
			yamlfile.Checked(dag.CheckPlainURI)),
		"size": yamlfile.TextField(y, func(o *dag.Output) *dag.GiB { return &o.Size }, dag.ParseSize),
	}
}

func (r *reader) readOutputs(t *dag.Task, n *yaml.Node) error {
	seen := make(map[string]bool, len(n.Content))
	return r.List(n, func(i int, n *yaml.Node) error {
		var o dag.Output
		if err := yamlfile.ReadFields(&r.Reader, n, r.outputFields, &o); err != nil {
			return err
		}
		switch {
		case o.Name == "":
			return fault.Within("name", r.Fault(n, "is missing", "add the name of the output"))
		case seen[o.Name]:
			return fault.Within("name", r.Fault(n, "there are two outputs "+fault.Quote(o.Name), "rename one"))
		case i == dag.MaxFiles:
			return fault.OverLimit(fmt.Sprintf("more than %d outputs", dag.MaxFiles), "")
		}
		seen[o.Name] = true
		r.outputs = append(r.outputs, yamlfile.PositionOf(n))
		t.Outputs = append(t.Outputs, o)
		return nil
	})
}
