package dag

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// skyChoice is one entry of resources, which may stand for several alternatives.
type skyChoice struct {
	Resources
	accelerators []skyAccelerator
	inOrder      bool       // accelerators are to be tried as they are listed
	images       []skyImage // by region; nil if there is one image
	memoryRatio  float64    // GiB a vCPU
	marks        []mark
}

type skyAccelerator struct {
	name  string
	count float64
	pos   position
}

type skyImage struct{ region, image string }

// skyInto is where a field of resources is read into: an alternative, and what it says of the task.
type skyInto struct {
	task   *skyTask
	choice *skyChoice
}

type skyResourceFields = fields[skyInto]

// skyMarks gives the fields of the native form that a field of SkyPilot's sets, where it is not the
// same word.
func skyMarks(field string) []string {
	switch field {
	case "infra":
		return []string{"cloud", "region", "zone"}
	case "instance_type":
		return []string{"instanceType"}
	case "use_spot":
		return []string{"market"}
	case "disk_size", "ephemeral_storage":
		return []string{"disk"}
	case "image_id":
		return []string{"image"}
	}
	return []string{field}
}

func (r *skyReader) forResources() skyResourceFields {
	y := &r.yamlReader
	word := checked(checkWord)
	known := skyResourceFields{
		"infra":         func(to skyInto, n *yaml.Node) error { return r.readInfra(&to.choice.Resources, n) },
		"cloud":         textField(y, func(to skyInto) *string { return &to.choice.Cloud }, parseSkyCloud),
		"region":        textField(y, func(to skyInto) *string { return &to.choice.Region }, word),
		"zone":          textField(y, func(to skyInto) *string { return &to.choice.Zone }, word),
		"cpus":          textField(y, func(to skyInto) *Range { return &to.choice.CPUs }, parseCPUs),
		"memory":        func(to skyInto, n *yaml.Node) error { return r.readMemory(to.choice, n) },
		"accelerators":  func(to skyInto, n *yaml.Node) error { return r.readAccelerators(to.choice, n) },
		"instance_type": textField(y, func(to skyInto) *string { return &to.choice.InstanceType }, word),
		"use_spot": func(to skyInto, n *yaml.Node) error {
			spot, err := r.boolean(n)
			to.choice.Market = MarketOnDemand
			if spot {
				to.choice.Market = MarketSpot
			}
			return err
		},
		"disk_size":         textField(y, func(to skyInto) *GiB { return &to.choice.DiskGiB }, parseSkyDisk),
		"ephemeral_storage": textField(y, func(to skyInto) *GiB { return &to.choice.DiskGiB }, parseSkyDisk),
		"image_id":          func(to skyInto, n *yaml.Node) error { return r.readImages(to.choice, n) },
		"priority": func(to skyInto, n *yaml.Node) error {
			return textField(y, func(to skyInto) *int { return &to.task.priority }, func(s string) (int, error) {
				return parseInt(s, -MaxPriority, MaxPriority)
			})(to, n)
		},
		"job_recovery":  func(to skyInto, n *yaml.Node) error { return r.readRecovery(to.task, n, "resources.job_recovery") },
		"spot_recovery": func(to skyInto, n *yaml.Node) error { return r.readRecovery(to.task, n, "resources.spot_recovery") },
	}
	for _, field := range []string{"accelerator_args", "disk_tier", "network_tier", "local_disk", "max_hourly_cost", "ports", "labels",
		"autostop", "priority_class", "volumes", "hooks"} {
		ignored := r.ignored("resources."+field, notActedOn)
		known[field] = func(to skyInto, n *yaml.Node) error { return ignored(to.task, n) }
	}
	return known
}

func parseSkyCloud(s string) (string, error) {
	s = strings.ToLower(s)
	if s == "k8s" {
		s = "kubernetes"
	}
	return s, checkCloud(s)
}

// readInfra reads CLOUD/REGION/ZONE, each of which may be missing or *. What follows kubernetes is a
// context, with slashes of its own.
func (r *skyReader) readInfra(res *Resources, n *yaml.Node) error {
	s, err := r.text(n)
	if err != nil {
		return err
	}
	res.Cloud, res.Region, res.Zone = "", "", ""
	cloud, rest, _ := strings.Cut(s, "/")
	if cloud != "*" {
		if res.Cloud, err = parseSkyCloud(cloud); err != nil {
			return at(positionOf(n), err)
		}
	}
	parts := strings.Split(rest, "/")
	if res.Cloud == "kubernetes" {
		parts = []string{rest}
	}
	if len(parts) > 2 {
		return r.fault(n, quote(s)+" has too many parts", "write CLOUD/REGION/ZONE")
	}
	for i, to := range []*string{&res.Region, &res.Zone}[:len(parts)] {
		if parts[i] == "*" || parts[i] == "" {
			continue
		}
		if err := checkWord(parts[i]); err != nil {
			return at(positionOf(n), err)
		}
		*to = parts[i]
	}
	return nil
}

// parseSkySize reads a size in SkyPilot's units, which are all binary.
func parseSkySize(s string) (GiB, error) {
	return parseSizeIn(strings.ToUpper(s), []unit{
		{"PB", 1 << 20}, {"TB", 1 << 10}, {"GB", 1}, {"MB", 1. / (1 << 10)}, {"KB", 1. / (1 << 20)},
		{"PI", 1 << 20}, {"TI", 1 << 10}, {"GI", 1}, {"MI", 1. / (1 << 10)}, {"KI", 1. / (1 << 20)},
	}, "write 64 or 64GB")
}

func parseSkyDisk(s string) (GiB, error) {
	g, err := parseSkySize(s)
	if err == nil && g < 1 {
		err = fault("a disk of less than 1 GiB", "")
	}
	return GiB(math.Floor(float64(g))), err // as SkyPilot does
}

func (r *skyReader) readMemory(c *skyChoice, n *yaml.Node) error {
	s, err := r.text(n)
	if err != nil {
		return err
	}
	if ratio, ok := strings.CutSuffix(strings.ToLower(s), "x"); ok {
		v, err := parseNumber(ratio)
		if err != nil || !(v > 0) || v > MaxMemoryGiB {
			return r.fault(n, quote(s)+" is not a ratio of memory to cpus", "write 4x for 4 GiB a vCPU")
		}
		c.memoryRatio, c.Memory = v, Range{}
		return nil
	}
	c.memoryRatio = 0
	c.Memory, err = parseRange(s, "memory", "write 32, 32+ or 32GB", MaxMemoryGiB, func(s string) (float64, error) {
		g, err := parseSkySize(s)
		return float64(g), err
	})
	return at(positionOf(n), err)
}

// readAccelerators reads every spelling: NAME, NAME:COUNT, {NAME: COUNT}, a list in order of
// preference, or a set, which in YAML is a mapping without values.
func (r *skyReader) readAccelerators(c *skyChoice, n *yaml.Node) error {
	c.accelerators, c.inOrder = nil, false
	add := func(s string, n *yaml.Node) error {
		name, count, err := parseAccelerator(s)
		if err != nil {
			return at(positionOf(n), err)
		}
		if len(c.accelerators) == MaxAlternatives {
			return at(positionOf(n), overLimit(fmt.Sprintf("more than %d accelerators", MaxAlternatives), ""))
		}
		c.accelerators = append(c.accelerators, skyAccelerator{name, count, positionOf(n)})
		return nil
	}
	switch n.Kind {
	case yaml.SequenceNode:
		c.inOrder = true
		return r.list(n, func(_ int, n *yaml.Node) error {
			s, err := r.text(n)
			return firstOf(err, func() error { return add(s, n) })
		})
	case yaml.MappingNode:
		entries, err := r.mapping(n)
		if err != nil {
			return err
		}
		for _, e := range entries {
			s := e.key
			if !isNull(e.node) {
				count, err := r.text(e.node)
				if err != nil {
					return withinKey(e.key, err)
				}
				s += ":" + count
			}
			if err := add(s, e.name); err != nil {
				return withinKey(e.key, err)
			}
		}
		return nil
	}
	s, err := r.text(n)
	return firstOf(err, func() error { return add(s, n) })
}

// readImages reads an image, or one for each region, which limits the task to those regions.
func (r *skyReader) readImages(c *skyChoice, n *yaml.Node) error {
	c.images, c.Image = nil, ""
	if n.Kind != yaml.MappingNode {
		return textField(&r.yamlReader, func(c *skyChoice) *string { return &c.Image }, checked(checkText))(c, n)
	}
	entries, err := r.mapping(n)
	if err != nil {
		return err
	}
	for _, e := range entries {
		s, err := r.text(e.node)
		if err == nil {
			err = checkText(s)
		}
		if err == nil {
			err = checkWord(e.key)
		}
		if err == nil && len(c.images) == MaxAlternatives {
			err = overLimit(fmt.Sprintf("more than %d regions", MaxAlternatives), "")
		}
		if err != nil {
			return withinKey(e.key, at(positionOf(e.node), err))
		}
		c.images = append(c.images, skyImage{e.key, s})
	}
	return nil
}

// readRecovery takes the number of restarts from job_recovery. Where a task moves to when its machine
// is taken is for Tradewind's plan to say.
func (r *skyReader) readRecovery(t *skyTask, n *yaml.Node, field string) error {
	if n.Kind != yaml.MappingNode {
		return r.ignored(field, "is not acted on: where to move to is planned")(t, n)
	}
	entries, err := r.mapping(n)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.key != "max_restarts_on_errors" {
			if err := r.ignored(field+"."+e.key, notActedOn)(t, e.node); err != nil {
				return err
			}
			continue
		}
		err := textField(&r.yamlReader, func(t *skyTask) *int { return &t.Retries }, func(s string) (int, error) {
			return parseInt(s, 0, MaxRetries)
		})(t, e.node)
		if err != nil {
			return withinKey(e.key, err)
		}
	}
	return nil
}

// readResources reads the alternatives of a task. The fields beside any_of or ordered are defaults
// for each of theirs.
func (r *skyReader) readResources(t *skyTask, n *yaml.Node) error {
	base := skyChoice{}
	var alternatives entry
	if err := r.readChoice(t, n, &base, "resources", func(e entry) error {
		if alternatives.node != nil {
			return r.fault(e.name, "stands beside "+alternatives.key, "alternatives are in one order or in none: keep one of the two")
		}
		alternatives = e
		return nil
	}); err != nil {
		return err
	}
	if alternatives.node == nil {
		t.Ordered = base.inOrder
		return at(positionOf(n), r.addChoice(t, &base, n, "resources"))
	}
	t.Ordered = alternatives.key == "ordered"
	err := r.list(alternatives.node, func(i int, n *yaml.Node) error {
		choice := base
		choice.marks = slices.Clone(base.marks)
		path := "resources." + alternatives.key + index(i)
		if err := r.readChoice(t, n, &choice, path, nil); err != nil {
			return err
		}
		return r.addChoice(t, &choice, n, path)
	})
	if err == nil && len(t.Resources) == 0 {
		err = r.fault(alternatives.node, "is empty", "give at least one alternative")
	}
	return withinKey(alternatives.key, err)
}

// readChoice reads a mapping of resources. nested is called for any_of and ordered, where they may be.
func (r *skyReader) readChoice(t *skyTask, n *yaml.Node, c *skyChoice, path string, nested func(entry) error) error {
	entries, err := r.mapping(n)
	if err != nil {
		return err
	}
	has := func(key string) bool {
		return slices.ContainsFunc(entries, func(e entry) bool { return e.key == key && !isNull(e.node) })
	}
	if has("infra") && (has("cloud") || has("region") || has("zone")) {
		return within("infra", r.fault(n, "stands beside cloud, region or zone", "infra says all three: remove the others"))
	}
	if has("cloud") { // the region of another cloud is no default
		c.Region, c.Zone = "", ""
	}
	known := r.resources.names()
	if nested != nil {
		known = append(known, "any_of", "ordered")
	}
	for _, e := range entries {
		if isNull(e.node) || strings.HasPrefix(e.key, "_") {
			continue
		}
		if nested != nil && (e.key == "any_of" || e.key == "ordered") {
			if err := nested(e); err != nil {
				return withinKey(e.key, err)
			}
			continue
		}
		read, ok := r.resources[e.key]
		if !ok {
			return withinKey(e.key, r.unknown(e, known))
		}
		if err := read(skyInto{t, c}, e.node); err != nil {
			return withinKey(e.key, at(positionOf(e.node), err))
		}
		c.mark(skyMarks(e.key), positionOf(e.node), path+"."+e.key)
	}
	return nil
}

// mark remembers where fields stand that may have had other values by default.
func (c *skyChoice) mark(fields []string, pos position, path string) {
	c.marks = slices.DeleteFunc(c.marks, func(m mark) bool { return slices.Contains(fields, m.field) })
	for _, f := range fields {
		c.marks = append(c.marks, mark{field: f, pos: pos, path: path})
	}
}

// addChoice adds the alternatives that a choice stands for: each accelerator with each region's image.
func (r *skyReader) addChoice(t *skyTask, c *skyChoice, n *yaml.Node, path string) error {
	if c.memoryRatio > 0 && c.CPUs.Min == 0 {
		r.job.warn(r.file, positionOf(n), path+".memory", "a ratio to cpus is not acted on without cpus")
	}
	accelerators, images := c.accelerators, c.images
	if len(accelerators) == 0 {
		accelerators = []skyAccelerator{{}}
	}
	if len(images) == 0 {
		images = []skyImage{{c.Region, c.Image}}
	}
	for _, a := range accelerators {
		for _, image := range images {
			if len(t.Resources) == MaxAlternatives {
				return overLimit(fmt.Sprintf("more than %d alternatives", MaxAlternatives), "")
			}
			if c.Region != "" && c.Region != image.region {
				continue // the image of a region that was not asked for
			}
			one := *c
			one.Accelerator, one.AcceleratorCount = a.name, a.count
			one.Region, one.Image = image.region, image.image
			r.markAlternative(t, c, a, positionOf(n), path)
			t.Resources = append(t.Resources, skyDefaults(one))
		}
	}
	if len(t.Resources) == 0 {
		return within("image_id", fault("has no image for region "+quote(c.Region), "add one, or remove the region"))
	}
	return nil
}

// markAlternative remembers where the next alternative of t stands.
func (r *skyReader) markAlternative(t *skyTask, c *skyChoice, a skyAccelerator, pos position, path string) {
	alternative := int32(len(t.Resources)) //nolint:gosec // at most MaxAlternatives
	for _, m := range c.marks {
		m.alternative = alternative
		if m.field == "accelerators" {
			m.pos = a.pos
		}
		t.marks = append(t.marks, m)
	}
	t.marks = append(t.marks, mark{alternative: alternative, pos: pos, path: path})
}

// skyDefaults fills in what SkyPilot takes where nothing is said: on-demand machines, and 8 vCPUs
// with 32 GiB if the choice says nothing of the machine at all.
func skyDefaults(c skyChoice) Resources {
	res := c.Resources
	if res.Market == "" {
		res.Market = MarketOnDemand
	}
	if c.memoryRatio > 0 {
		res.Memory = Range{Min: min(c.memoryRatio*res.CPUs.Min, MaxMemoryGiB)}
	}
	if res.CPUs.IsZero() && res.Memory.IsZero() && res.Accelerator == "" && res.InstanceType == "" {
		res.CPUs, res.Memory = Range{Min: 8}, Range{Min: 32}
	}
	return res
}
