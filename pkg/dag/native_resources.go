package dag

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// The fields of resources that hold alternatives, not wishes.
const (
	anyOfField   = "anyOf"
	orderedField = "ordered"
)

func (r *nativeReader) forResources() fields[*Resources] {
	y := &r.yamlReader
	word := checked(checkWord)
	return fields[*Resources]{
		"cpus":   textField(y, func(r *Resources) *Range { return &r.CPUs }, parseCPUs),
		"memory": textField(y, func(r *Resources) *Range { return &r.Memory }, parseMemory),
		"accelerators": func(res *Resources, n *yaml.Node) error {
			if n.Kind != yaml.ScalarNode {
				return r.fault(n, "must be text, not "+describe(n), "write NAME:COUNT, and alternatives as anyOf: [{accelerators: V100:1}, …]")
			}
			s, err := r.text(n)
			if err == nil {
				res.Accelerator, res.AcceleratorCount, err = parseAccelerator(s)
			}
			return err
		},
		"cloud":        textField(y, func(r *Resources) *string { return &r.Cloud }, checked(checkCloud)),
		"region":       textField(y, func(r *Resources) *string { return &r.Region }, word),
		"zone":         textField(y, func(r *Resources) *string { return &r.Zone }, word),
		"instanceType": textField(y, func(r *Resources) *string { return &r.InstanceType }, word),
		"arch":         textField(y, func(r *Resources) *string { return &r.Arch }, parseArch),
		"market": textField(y, func(r *Resources) *Market { return &r.Market }, func(s string) (Market, error) {
			return Market(s), checkChoice("market", Market(s), markets())
		}),
		"service": textField(y, func(r *Resources) *string { return &r.Service }, checked(checkService)),
		"disk":    textField(y, func(r *Resources) *GiB { return &r.DiskGiB }, parseDisk),
		"image":   textField(y, func(r *Resources) *string { return &r.Image }, checked(checkText)),
	}
}

func parseArch(s string) (string, error) {
	switch s {
	case "x86_64", "x86-64":
		s = "amd64"
	case "aarch64":
		s = "arm64"
	}
	return s, checkChoice("architecture", s, arches())
}

func checkService(s string) error { return checkChoice("managed service", s, sortedKeys(services())) }

func parseDisk(s string) (GiB, error) {
	g, err := parseSize(s)
	if err == nil && g == 0 {
		err = fault("no machine has a disk of 0", "leave it out for the cloud's own choice")
	}
	return g, err
}

// checkResources sees whether the fields of an alternative can hold together.
func checkResources(r Resources) error {
	if cloud, ok := services()[r.Service]; ok && r.Cloud != "" && r.Cloud != cloud {
		return within("service", fault(fmt.Sprintf("there is no %s on %s", r.Service, r.Cloud), "it is a service of "+cloud))
	}
	return nil
}

// readResources reads the alternatives of a task: the fields themselves are the only one, or stand
// in each of those under anyOf or ordered that does not have them itself.
func (r *nativeReader) readResources(t *Task, n *yaml.Node) error {
	entries, err := r.mapping(n)
	if err != nil {
		return err
	}
	var base Resources
	var baseMarks []mark
	var alternatives entry
	for _, e := range entries {
		if e.key == anyOfField || e.key == orderedField {
			if alternatives.node != nil {
				return withinKey(e.key, r.fault(e.name, "stands beside "+alternatives.key, "alternatives are in one order or in none: keep one of the two"))
			}
			alternatives = e
			continue
		}
		m, err := r.readResource(&base, e, anyOfField, orderedField)
		if err != nil {
			return err
		}
		m.path = "resources." + e.key
		baseMarks = append(baseMarks, m)
	}
	t.Resources, t.Ordered, r.marks = nil, false, nil
	if alternatives.node == nil {
		t.Resources = []Resources{base}
		r.marks = append(baseMarks, mark{pos: positionOf(n), path: "resources"})
		return at(positionIn(r.marks, "service"), checkResources(base))
	}
	t.Ordered = alternatives.key == orderedField
	err = r.list(alternatives.node, func(i int, n *yaml.Node) error {
		if i == MaxAlternatives {
			return overLimit(fmt.Sprintf("more than %d alternatives", MaxAlternatives), "")
		}
		path := "resources." + alternatives.key + index(i)
		return r.readAlternative(t, n, base, baseMarks, path)
	})
	if err == nil && len(t.Resources) == 0 {
		err = r.fault(alternatives.node, "is empty", "give at least one alternative")
	}
	return withinKey(alternatives.key, err)
}

// readAlternative adds an alternative that begins as base to t.
func (r *nativeReader) readAlternative(t *Task, n *yaml.Node, base Resources, baseMarks []mark, path string) error {
	entries, err := r.mapping(n)
	if err != nil {
		return err
	}
	alternative := int32(len(t.Resources)) //nolint:gosec // at most MaxAlternatives
	marks := slices.Clone(baseMarks)
	for _, e := range entries {
		m, err := r.readResource(&base, e)
		if err != nil {
			return err
		}
		m.path = path + "." + e.key
		marks = slices.DeleteFunc(marks, func(b mark) bool { return b.field == m.field })
		marks = append(marks, m)
	}
	for i := range marks {
		marks[i].alternative = alternative
	}
	r.marks = append(append(r.marks, marks...), mark{alternative: alternative, pos: positionOf(n), path: path})
	t.Resources = append(t.Resources, base)
	return at(positionIn(marks, "service"), checkResources(base))
}

// positionIn is where a field stands.
func positionIn(marks []mark, field string) position {
	for _, m := range marks {
		if m.field == field {
			return m.pos
		}
	}
	return position{}
}

// readResource reads one field of an alternative. besides are fields that there may be as well.
func (r *nativeReader) readResource(into *Resources, e entry, besides ...string) (mark, error) {
	read, ok := r.resourceFields[e.key]
	if !ok {
		return mark{}, withinKey(e.key, r.unknown(e, append(r.resourceFields.names(), besides...)))
	}
	if err := read(into, e.node); err != nil {
		return mark{}, withinKey(e.key, at(positionOf(e.node), err))
	}
	return mark{field: e.key, pos: positionOf(e.node)}, nil
}
