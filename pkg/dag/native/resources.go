package native

import (
	"fmt"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/dag"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// The fields of resources that contain alternatives.
const (
	anyOfField     = "anyOf"
	orderedField   = "ordered"
	executorsField = "executors" // of the whole task, whatever its alternatives are
)

func (r *reader) forResources() yamlfile.Fields[*dag.Resources] {
	y := &r.Reader
	name := yamlfile.Checked(jobtext.CheckWord)
	return yamlfile.Fields[*dag.Resources]{
		"cpus":   yamlfile.TextField(y, func(r *dag.Resources) *dag.Range { return &r.CPUs }, dag.ParseCPUsAtLeast),
		"memory": yamlfile.TextField(y, func(r *dag.Resources) *dag.Range { return &r.Memory }, dag.ParseMemoryAtLeast),
		"accelerators": func(res *dag.Resources, n *yaml.Node) error {
			if n.Kind != yaml.ScalarNode {
				return r.Fault(
					n,
					"must be text, not "+yamlfile.Describe(n),
					"write NAME:COUNT, and alternatives as anyOf: [{accelerators: V100:1}, …]",
				)
			}
			s, err := r.Text(n)
			if err == nil {
				res.Accelerator, res.AcceleratorCount, err = dag.ParseAccelerator(s)
			}
			return err
		},
		"cloud": yamlfile.TextField(
			y,
			func(r *dag.Resources) *string { return &r.Cloud },
			yamlfile.Checked(dag.CheckCloud),
		),
		"region":       yamlfile.TextField(y, func(r *dag.Resources) *string { return &r.Region }, name),
		"zone":         yamlfile.TextField(y, func(r *dag.Resources) *string { return &r.Zone }, name),
		"instanceType": yamlfile.TextField(y, func(r *dag.Resources) *string { return &r.InstanceType }, name),
		"family":       yamlfile.TextField(y, func(r *dag.Resources) *string { return &r.Family }, name),
		"cpu": yamlfile.TextField(y, func(r *dag.Resources) *string { return &r.CPU },
			yamlfile.Checked(dag.CheckCPU)),
		"arch": yamlfile.TextField(y, func(r *dag.Resources) *string { return &r.Arch }, parseArch),
		"burstable": func(res *dag.Resources, n *yaml.Node) (err error) {
			res.Burstable, err = r.Boolean(n)
			return err
		},
		"market": yamlfile.TextField(
			y,
			func(r *dag.Resources) *dag.Market { return &r.Market },
			word[dag.Market],
		),
		"service": r.readSparkService,
		"disk":    yamlfile.TextField(y, func(r *dag.Resources) *dag.GiB { return &r.DiskGiB }, parseDisk),
		"maxUSDPerHour": yamlfile.TextField(y, func(r *dag.Resources) *dag.USD { return &r.MaxUSDPerHour },
			dag.ParseHourly),
		"image": func(res *dag.Resources, n *yaml.Node) (err error) {
			if res.Image, err = r.Text(n); err == nil {
				err = jobtext.CheckImage(res.Image)
			}
			if err == nil && jobtext.LikeContainer(res.Image) {
				r.job.Warn(yamlfile.PositionOf(n), "resources.image",
					"is a machine image; a container image is written docker:"+res.Image)
			}
			return err
		},
	}
}

func parseArch(s string) (string, error) {
	switch s {
	case "x86_64", "x86-64":
		s = "amd64"
	case "aarch64":
		s = "arm64"
	}
	return s, dag.CheckArch(s)
}

func parseDisk(s string) (dag.GiB, error) {
	g, err := dag.ParseSize(s)
	if err == nil && g == 0 {
		err = fault.New("no machine has a disk of 0", "leave it out for the cloud's default")
	}
	return g, err
}

// readResources reads the alternatives of a task. Without anyOf or ordered, the fields are the only alternative. With
// one of them, the fields apply to each of its alternatives that does not have them itself.
func (r *reader) readResources(t *dag.Task, n *yaml.Node) error {
	entries, err := r.Mapping(n)
	if err != nil {
		return err
	}
	var base dag.Resources
	var baseMarks []dag.Mark
	var alternatives yamlfile.Entry
	var all fault.Faults
	t.Executors = dag.Range{}
	for _, e := range entries {
		if e.Key == executorsField {
			r.executors = e.Node
			read := yamlfile.TextField(&r.Reader, func(t *dag.Task) *dag.Range { return &t.Executors },
				dag.ParseExecutors)
			if !all.Add(fault.WithinKey(e.Key, read(t, e.Node))) {
				break
			}
			continue
		}
		if e.Key == anyOfField || e.Key == orderedField {
			if alternatives.Node != nil {
				all.Add(fault.WithinKey(
					e.Key,
					r.Fault(
						e.Name,
						"cannot be combined with "+alternatives.Key,
						"alternatives are either ordered or not: keep one of the two",
					),
				))
			}
			alternatives = e
			continue
		}
		m, err := r.readResource(&base, e, anyOfField, orderedField, executorsField)
		if !all.Add(err) {
			break
		}
		m.Path = "resources." + e.Key
		baseMarks = append(baseMarks, m)
	}
	t.Resources, t.Services, t.Ordered, r.marks, r.serviceMarks = nil, nil, false, nil, nil
	if alternatives.Node == nil {
		if !all.None() {
			return all.Err()
		}
		r.addAlternative(t, base, append(baseMarks, dag.Mark{Pos: yamlfile.PositionOf(n), Path: "resources"}))
		return nil
	}
	t.Ordered = alternatives.Key == orderedField
	err = r.List(alternatives.Node, func(i int, n *yaml.Node) error {
		if i == jobtext.MaxAlternatives {
			return fault.OverLimit(fmt.Sprintf("more than %d alternatives", jobtext.MaxAlternatives), "")
		}
		path := "resources." + alternatives.Key + fault.Index(i)
		return r.readAlternative(t, n, base, baseMarks, path)
	})
	if err == nil && len(t.Resources)+len(t.Services) == 0 {
		err = r.Fault(alternatives.Node, "is empty", "give at least one alternative")
	}
	all.Add(fault.WithinKey(alternatives.Key, err))
	return all.Err()
}

// readAlternative adds an alternative to t. Its fields are those of base, overridden by those of n.
func (r *reader) readAlternative(
	t *dag.Task,
	n *yaml.Node,
	base dag.Resources,
	baseMarks []dag.Mark,
	path string,
) error {
	entries, err := r.Mapping(n)
	if err != nil {
		return err
	}
	marks := slices.Clone(baseMarks)
	var all fault.Faults
	for _, e := range entries {
		m, err := r.readResource(&base, e)
		if !all.Add(err) {
			break
		}
		m.Path = path + "." + e.Key
		marks = slices.DeleteFunc(marks, func(b dag.Mark) bool { return b.Field == m.Field })
		marks = append(marks, m)
	}
	r.addAlternative(t, base, append(marks, dag.Mark{Pos: yamlfile.PositionOf(n), Path: path}))
	return all.Err()
}

// addAlternative adds an alternative with its marks to the task: to its machines, or to its services.
func (r *reader) addAlternative(t *dag.Task, a dag.Resources, marks []dag.Mark) {
	to, alternative := &r.marks, len(t.Resources)
	if a.Service != "" {
		to, alternative = &r.serviceMarks, dag.ServiceAlternative+len(t.Services)
		t.Services = append(t.Services, a)
	} else {
		t.Resources = append(t.Resources, a)
	}
	for _, m := range marks {
		m.Alternative = int32(alternative) //nolint:gosec // at most 2 dag.MaxAlternatives
		*to = append(*to, m)
	}
}

// readResource reads one field of an alternative. besides are other fields that the mapping may have, for hints.
func (r *reader) readResource(into *dag.Resources, e yamlfile.Entry, besides ...string) (dag.Mark, error) {
	read, ok := r.resourceFields[e.Key]
	if !ok {
		return dag.Mark{}, fault.WithinKey(e.Key, r.Unknown(e, append(r.resourceFields.Names(), besides...)))
	}
	if err := read(into, e.Node); err != nil {
		return dag.Mark{}, fault.WithinKey(e.Key, fault.At(yamlfile.PositionOf(e.Node), err))
	}
	return dag.Mark{Field: e.Key, Pos: yamlfile.PositionOf(e.Node)}, nil
}
