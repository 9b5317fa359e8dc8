package native

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// forDefaults returns the fields of defaults. A task that has such a field replaces the whole field.
func (r *reader) forDefaults() yamlfile.Fields[*dag.Task] {
	y := &r.Reader
	return yamlfile.Fields[*dag.Task]{
		"setup": yamlfile.TextField(
			y,
			func(t *dag.Task) *string { return &t.Setup },
			yamlfile.Checked(jobtext.CheckScript),
		),
		"workdir": r.readWorkdir,
		"nodes": func(t *dag.Task, n *yaml.Node) error {
			if r.nodes = n; t == &r.defaults {
				r.defaultNodes = n
			}
			s, err := r.Text(n)
			if err == nil {
				t.Nodes, t.MaxNodes, err = jobtext.ParseNodes(s)
			}
			return err
		},
		"retries": yamlfile.TextField(y, func(t *dag.Task) *int { return &t.Retries }, func(s string) (int, error) {
			return jobtext.ParseInt(s, 0, jobtext.MaxRetries)
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
			yamlfile.Checked(jobtext.CheckWord)),
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
		yamlfile.Checked(jobtext.CheckScript),
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
		read := yamlfile.TextField(y, to, yamlfile.Checked(jobtext.CheckName))
		return func(t *dag.Task, n *yaml.Node) error {
			r.gangs[r.current] = yamlfile.PositionOf(n)
			return read(t, n)
		}
	}
	known["gang"] = inGang(func(t *dag.Task) *string { return &t.Gang })
	known["joins"] = inGang(func(t *dag.Task) *string { return &t.Joins })
	known["role"] = yamlfile.TextField(y, func(t *dag.Task) *string { return &t.Role },
		yamlfile.Checked(jobtext.CheckName))
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
			yamlfile.Checked(jobtext.CheckPlainURI),
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
			yamlfile.Checked(jobtext.CheckRepositoryURL),
		),
		"ref": yamlfile.TextField(y, func(r *dag.Repository) *string { return &r.Ref },
			yamlfile.Checked(jobtext.CheckRef)),
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
			yamlfile.Checked(jobtext.CheckInside),
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
		return fields[jobtext.DefaultTimeKey](t, n)
	}
	fields[jobtext.DefaultTimeKey] = r.orNone(fields[jobtext.DefaultTimeKey])
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
	return cmp.Or(r.atField(n, jobtext.EfficiencyKey, t.CheckEfficiency()),
		r.atField(n, jobtext.DefaultTimeKey, t.CheckOnly()))
}

// orNone returns the reader of a default that may also be none.
func (r *reader) orNone(
	time func(*dag.TimeEstimate, *yaml.Node) error,
) func(*dag.TimeEstimate, *yaml.Node) error {
	return func(t *dag.TimeEstimate, n *yaml.Node) error {
		if s, err := r.Text(n); err == nil && s == jobtext.NoDefaultTime {
			t.Only = true
			return nil
		}
		return time(t, n)
	}
}

func (r *reader) forTime() yamlfile.Fields[*dag.TimeEstimate] {
	y := &r.Reader
	return yamlfile.Fields[*dag.TimeEstimate]{
		jobtext.DefaultTimeKey: yamlfile.TextField(y, func(t *dag.TimeEstimate) *time.Duration { return &t.Default },
			dag.ParseDuration),
		jobtext.FLOPsKey: yamlfile.TextField(y, func(t *dag.TimeEstimate) *float64 { return &t.FLOPs },
			jobtext.ParseFLOPs),
		jobtext.SerialKey: yamlfile.TextField(y, func(t *dag.TimeEstimate) **float64 { return &t.Serial },
			jobtext.ParseSerial),
		jobtext.NodesKey: r.readTimeByNodes,
		jobtext.EfficiencyKey: yamlfile.TextField(y, func(t *dag.TimeEstimate) *float64 { return &t.Efficiency },
			jobtext.ParseEfficiency),
	}
}

// readTimeByNodes reads times by the number of machines.
func (r *reader) readTimeByNodes(t *dag.TimeEstimate, n *yaml.Node) error {
	t.ByNodes = map[int]time.Duration{}
	if err := r.Each(n, func(e yamlfile.Entry) error {
		count, err := jobtext.ParseInt(e.Key, 1, jobtext.MaxNodes)
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
			yamlfile.Checked(jobtext.CheckName),
		),
		"path": yamlfile.TextField(
			y,
			func(o *dag.Output) *string { return &o.Path },
			yamlfile.Checked(jobtext.CheckInside),
		),
		"uri": yamlfile.TextField(y, func(o *dag.Output) *string { return &o.URI },
			yamlfile.Checked(jobtext.CheckPlainURI)),
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
		case i == jobtext.MaxFiles:
			return fault.OverLimit(fmt.Sprintf("more than %d outputs", jobtext.MaxFiles), "")
		}
		seen[o.Name] = true
		r.outputs = append(r.outputs, yamlfile.PositionOf(n))
		t.Outputs = append(t.Outputs, o)
		return nil
	})
}
