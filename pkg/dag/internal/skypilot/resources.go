package skypilot

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/dag"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// skyChoice is one entry of resources; it can become several alternatives.
type skyChoice struct {
	dag.Resources
	accelerators []skyAccelerator
	inOrder      bool       // accelerators are in order of preference
	among        bool       // it is one of several alternatives
	unsold       bool       // it is one of several, and no cloud here sells its accelerators
	images       []skyImage // by region; nil if there is one image
	memoryRatio  float64    // GiB per vCPU
	marks        []dag.Mark
}

type skyAccelerator struct {
	name  string
	count float64
	pos   fault.Position
}

type skyImage struct{ region, image string }

// skyInto is the target of a field of resources: an alternative, or the task.
type skyInto struct {
	task   *skyTask
	choice *skyChoice
}

type skyResourceFields = yamlfile.Fields[skyInto]

// skyMarks returns the fields of the native format that a SkyPilot field sets.
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

func (r *reader) forResources() skyResourceFields {
	y := &r.Reader
	word := yamlfile.Checked(jobtext.CheckWord)
	known := skyResourceFields{
		"ports":         func(to skyInto, n *yaml.Node) error { return r.readPorts(to.task, n) },
		"infra":         func(to skyInto, n *yaml.Node) error { return r.readInfra(&to.choice.Resources, n) },
		"cloud":         yamlfile.TextField(y, func(to skyInto) *string { return &to.choice.Cloud }, parseSkyCloud),
		"region":        yamlfile.TextField(y, func(to skyInto) *string { return &to.choice.Region }, word),
		"zone":          yamlfile.TextField(y, func(to skyInto) *string { return &to.choice.Zone }, word),
		"cpus":          yamlfile.TextField(y, func(to skyInto) *dag.Range { return &to.choice.CPUs }, dag.ParseCPUs),
		"memory":        func(to skyInto, n *yaml.Node) error { return r.readMemory(to.choice, n) },
		"accelerators":  func(to skyInto, n *yaml.Node) error { return r.readAccelerators(to.choice, n) },
		"instance_type": yamlfile.TextField(y, func(to skyInto) *string { return &to.choice.InstanceType }, word),
		"use_spot": func(to skyInto, n *yaml.Node) error {
			spot, err := r.Boolean(n)
			to.choice.Market = dag.MarketOnDemand
			if spot {
				to.choice.Market = dag.MarketSpot
			}
			return err
		},
		"disk_size": yamlfile.TextField(
			y,
			func(to skyInto) *dag.GiB { return &to.choice.DiskGiB },
			parseSkyDisk,
		),
		"ephemeral_storage": yamlfile.TextField(
			y,
			func(to skyInto) *dag.GiB { return &to.choice.DiskGiB },
			parseSkyDisk,
		),
		"max_hourly_cost": yamlfile.TextField(
			y,
			func(to skyInto) *dag.USD { return &to.choice.MaxUSDPerHour },
			dag.ParseHourly,
		),
		"image_id": func(to skyInto, n *yaml.Node) error { return r.readImages(to.choice, n) },
		"priority": func(to skyInto, n *yaml.Node) error {
			return yamlfile.TextField(
				y,
				func(to skyInto) *int { return &to.task.priority },
				func(s string) (int, error) {
					return jobtext.ParseInt(s, -dag.MaxPriority, dag.MaxPriority)
				},
			)(
				to,
				n,
			)
		},
		"job_recovery": func(to skyInto, n *yaml.Node) error {
			return r.readRecovery(to.task, n, "resources.job_recovery")
		},
		"spot_recovery": func(to skyInto, n *yaml.Node) error {
			return r.readRecovery(to.task, n, "resources.spot_recovery")
		},
	}
	for field, read := range map[string]func(*skyTask, *yaml.Node) error{
		"disk_tier":        r.ignored("resources.disk_tier", "is ignored: disks have the cloud's standard speed"),
		"network_tier":     r.ignored("resources.network_tier", "is ignored: networks have their standard speed"),
		"labels":           r.ignored("resources.labels", "is ignored: machines have the labels of --tag"),
		"accelerator_args": r.readAcceleratorArgs,
		"autostop":         r.readAutostop,
		"local_disk":       r.refused("machines are not chosen by their local disks", "disk_size"),
		"priority_class":   r.refused("priority classes are defined on SkyPilot's server", "priority: NUMBER"),
		"volumes":          r.refused(volumesMissing, useBuckets),
		"hooks":            r.refused(hooksMissing, hooksInstead),
		"_cluster_config_overrides": func(_ *skyTask, n *yaml.Node) error {
			if len(n.Content) == 0 {
				return nil
			}
			return r.Fault(n, "clusters are not configured", "write config next to resources")
		},
		"_docker_login_config": r.refused("the login of a registry is not in resources",
			"secrets: [SKYPILOT_DOCKER_USERNAME, SKYPILOT_DOCKER_PASSWORD, SKYPILOT_DOCKER_SERVER]"),
	} {
		known[field] = func(to skyInto, n *yaml.Node) error { return read(to.task, n) }
	}
	return known
}

// readAcceleratorArgs reads the settings of a TPU.
func (r *reader) readAcceleratorArgs(t *skyTask, n *yaml.Node) error {
	const at = "resources.accelerator_args."
	return yamlfile.ReadFields(&r.Reader, n, yamlfile.Fields[*skyTask]{
		"runtime_version":     r.ignored(at+"runtime_version", "is ignored: the TPU has the default runtime"),
		"tpu_name":            r.ignored(at+"tpu_name", notActedOn),
		"gcp_queued_resource": r.ignored(at+"gcp_queued_resource", "is ignored: the broker waits for capacity"),
		"tpu_vm":              r.only(true, "programs run on the TPU's own machine"),
	}, t)
}

// readAutostop reads when SkyPilot stops an idle cluster. Machines are released here when no task needs them.
func (r *reader) readAutostop(t *skyTask, n *yaml.Node) error {
	if n.Kind == yaml.MappingNode {
		hook := r.refused(hooksMissing, hooksInstead)
		none := func(*skyTask, *yaml.Node) error { return nil }
		if err := yamlfile.ReadFields(&r.Reader, n, yamlfile.Fields[*skyTask]{
			"idle_minutes": none, "down": none, "wait_for": none, "hook": hook, "hook_timeout": hook,
		}, t); err != nil {
			return err
		}
	}
	r.job.Warn(yamlfile.PositionOf(n), "resources.autostop", "is ignored: idle machines are always released")
	return nil
}

// supportedClouds is the hint for a cloud of SkyPilot on which Tradewind cannot buy machines.
const supportedClouds = "aws, gcp, azure, lambda and kubernetes are"

func unsupportedCloud(name string) string { return "the cloud " + name + " is not supported" }

// elsewhere reports whether a cloud is one that SkyPilot knows, but on which Tradewind cannot buy
// machines.
func elsewhere(cloud string) bool {
	return slices.Contains([]string{"ibm", "oci", "runpod", "vast", "nebius", "fluidstack", "cudo", "paperspace",
		"vsphere", "scp", "seeweb", "hyperbolic", "primeintellect", "do", "shadeform", "yotta", "slurm", "ssh"}, cloud)
}

func parseSkyCloud(s string) (string, error) {
	s = strings.ToLower(s)
	if s == "k8s" {
		s = "kubernetes"
	}
	return s, dag.CheckCloud(s)
}

// readInfra reads CLOUD/REGION/ZONE; each part may be missing or *. After kubernetes comes a context, which may
// contain slashes.
func (r *reader) readInfra(res *dag.Resources, n *yaml.Node) error {
	s, err := r.Text(n)
	if err != nil {
		return err
	}
	res.Cloud, res.Region, res.Zone = "", "", ""
	cloud, rest, _ := strings.Cut(s, "/")
	if cloud != "*" {
		if res.Cloud, err = parseSkyCloud(cloud); err != nil {
			return fault.At(yamlfile.PositionOf(n), err)
		}
	}
	parts := strings.Split(rest, "/")
	if res.Cloud == "kubernetes" {
		parts = []string{rest}
	}
	if len(parts) > 2 {
		return r.Fault(n, fault.Quote(s)+" has too many parts", "write CLOUD/REGION/ZONE")
	}
	for i, to := range []*string{&res.Region, &res.Zone}[:len(parts)] {
		if parts[i] == "*" || parts[i] == "" {
			continue
		}
		if err := jobtext.CheckWord(parts[i]); err != nil {
			return fault.At(yamlfile.PositionOf(n), err)
		}
		*to = parts[i]
	}
	return nil
}

// parseSkySize reads a size in SkyPilot's units, which are all binary.
func parseSkySize(s string) (dag.GiB, error) {
	return dag.ParseSizeIn(strings.ToUpper(s), map[string]float64{
		"PB": 1 << 20, "TB": 1 << 10, "GB": 1, "MB": 1. / (1 << 10), "KB": 1. / (1 << 20),
		"PI": 1 << 20, "TI": 1 << 10, "GI": 1, "MI": 1. / (1 << 10), "KI": 1. / (1 << 20),
	}, "write 64 or 64GB")
}

func parseSkyDisk(s string) (dag.GiB, error) {
	g, err := parseSkySize(s)
	if err == nil && g < 1 {
		err = fault.New("a disk of less than 1 GiB", "")
	}
	return dag.GiB(math.Floor(float64(g))), err // SkyPilot rounds down too
}

func (r *reader) readMemory(c *skyChoice, n *yaml.Node) error {
	s, err := r.Text(n)
	if err != nil {
		return err
	}
	if ratio, ok := strings.CutSuffix(strings.ToLower(s), "x"); ok {
		v, err := jobtext.ParseNumber(ratio)
		if err != nil || !(v > 0) || v > jobtext.MaxMemoryGiB {
			return r.Fault(n, fault.Quote(s)+" is not a ratio of memory to cpus", "write 4x for 4 GiB a vCPU")
		}
		c.memoryRatio, c.Memory = v, dag.Range{}
		return nil
	}
	c.memoryRatio = 0
	c.Memory, err = dag.ParseRange(
		s,
		"memory",
		"write 32, 32+ or 32GB",
		jobtext.MaxMemoryGiB,
		func(s string) (float64, error) {
			g, err := parseSkySize(s)
			return float64(g), err
		},
	)
	return fault.At(yamlfile.PositionOf(n), err)
}

// readAccelerators reads all forms: NAME, NAME:COUNT, {NAME: COUNT}, a list in order of preference, or a set, which
// YAML writes as a mapping without values.
func (r *reader) readAccelerators(c *skyChoice, n *yaml.Node) error {
	c.accelerators, c.inOrder = nil, false
	alternatives := c.among || len(n.Content) > 2 || n.Kind == yaml.SequenceNode && len(n.Content) > 1
	add := func(s string, n *yaml.Node) error { return r.addAccelerator(c, s, n, alternatives) }
	none := func() error {
		if c.unsold = len(c.accelerators) == 0 && c.among; c.unsold {
			return nil
		}
		if len(c.accelerators) == 0 && len(n.Content) > 0 {
			return r.Fault(n, "none of these is sold by a cloud here", "tradewind catalog search --gpu ANY")
		}
		return nil
	}
	switch n.Kind {
	case yaml.SequenceNode:
		c.inOrder = true
		err := r.List(n, func(_ int, n *yaml.Node) error {
			s, err := r.Text(n)
			if err != nil {
				return err
			}
			return add(s, n)
		})
		return cmp.Or(err, none())
	case yaml.MappingNode:
		entries, err := r.Mapping(n)
		if err != nil {
			return err
		}
		for _, e := range entries {
			s := e.Key
			if !yamlfile.IsNull(e.Node) {
				count, err := r.Text(e.Node)
				if err != nil {
					return fault.WithinKey(e.Key, err)
				}
				s += ":" + count
			}
			if err := add(s, e.Name); err != nil {
				return fault.WithinKey(e.Key, err)
			}
		}
		return none()
	}
	s, err := r.Text(n)
	if err != nil {
		return err
	}
	return cmp.Or(add(s, n), none())
}

// addAccelerator adds one alternative. One that no cloud here sells is left out with a warning if there are others.
func (r *reader) addAccelerator(c *skyChoice, s string, n *yaml.Node, alternatives bool) error {
	name, count, err := dag.ParseAccelerator(s)
	switch {
	case err != nil && alternatives && knownElsewhere(s):
		r.job.Warn(yamlfile.PositionOf(n), "resources.accelerators",
			fault.Quote(s)+" is left out: no cloud here sells it")
		return nil
	case err != nil && knownElsewhere(s):
		return r.Fault(n, fault.Quote(s)+" is not sold by a cloud here",
			supportedClouds+" supported; tradewind catalog search --gpu ANY shows what they sell")
	case err != nil:
		return fault.At(yamlfile.PositionOf(n), err)
	case len(c.accelerators) == jobtext.MaxAlternatives:
		return fault.At(yamlfile.PositionOf(n),
			fault.OverLimit(fmt.Sprintf("more than %d accelerators", jobtext.MaxAlternatives), ""))
	}
	c.accelerators = append(c.accelerators, skyAccelerator{name, count, yamlfile.PositionOf(n)})
	return nil
}

// knownElsewhere reports whether an accelerator, NAME or NAME:COUNT, has a name in SkyPilot's catalogue with a form
// factor or memory that the clouds here do not name.
func knownElsewhere(accelerator string) bool {
	name, _, _ := strings.Cut(strings.ToUpper(accelerator), ":")
	for _, suffix := range []string{"-SXM", "-SXM4", "-SXM5", "-NVL", "-PCIE", "-MEGA", "-ADA", "-SECURE"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return strings.HasPrefix(name, "RTX")
}

// readImages reads one image, or a mapping with an image for each region, which limits the task to those regions.
func (r *reader) readImages(c *skyChoice, n *yaml.Node) error {
	c.images, c.Image = nil, ""
	if n.Kind != yaml.MappingNode {
		image, err := r.readImage(n)
		c.Image = image
		return err
	}
	entries, err := r.Mapping(n)
	if err != nil {
		return err
	}
	for _, e := range entries {
		image, err := r.readImage(e.Node)
		if err == nil {
			err = jobtext.CheckWord(e.Key)
		}
		if err == nil && len(c.images) == jobtext.MaxAlternatives {
			err = fault.OverLimit(fmt.Sprintf("more than %d regions", jobtext.MaxAlternatives), "")
		}
		if err != nil {
			return fault.WithinKey(e.Key, fault.At(yamlfile.PositionOf(e.Node), err))
		}
		c.images = append(c.images, skyImage{e.Key, image})
	}
	return nil
}

// readImage reads a machine image or container image.
func (r *reader) readImage(n *yaml.Node) (string, error) {
	image, err := r.Text(n)
	if err != nil {
		return "", err
	}
	return image, jobtext.CheckImage(image)
}

// readRecovery reads the number of restarts from job_recovery. It ignores the strategy, because Tradewind's plan
// decides where an interrupted task continues.
func (r *reader) readRecovery(t *skyTask, n *yaml.Node, field string) error {
	const byPlan = "is ignored: the plan decides where to move"
	if n.Kind != yaml.MappingNode {
		return r.ignored(field, byPlan)(t, n)
	}
	return yamlfile.ReadFields(&r.Reader, n, yamlfile.Fields[*skyTask]{
		"strategy": r.ignored(field+".strategy", byPlan),
		"max_restarts_on_errors": yamlfile.TextField(&r.Reader, func(t *skyTask) *int { return &t.Retries },
			func(s string) (int, error) { return jobtext.ParseInt(s, 0, jobtext.MaxRetries) }),
		"recover_on_exit_codes": r.readExitCodes,
	}, t)
}

// readExitCodes reads the exit codes after which a task always starts again: one, or a list.
func (r *reader) readExitCodes(t *skyTask, n *yaml.Node) error {
	again := dag.Reaction{Event: dag.PodFailed, Action: dag.RestartGang, Limit: jobtext.MaxRetries}
	one := func(n *yaml.Node) error {
		s, err := r.Text(n)
		if err != nil {
			return err
		}
		code, err := jobtext.ParseInt(s, 1, 255)
		again.ExitCodes = append(again.ExitCodes, code)
		return err
	}
	var err error
	if n.Kind == yaml.SequenceNode {
		err = r.List(n, func(_ int, n *yaml.Node) error { return one(n) })
	} else {
		err = one(n)
	}
	if len(again.ExitCodes) > 0 {
		t.On = []dag.Reaction{again}
	}
	return err
}

// readResources reads the alternatives of a task. Fields next to any_of or ordered are the defaults of each
// alternative.
func (r *reader) readResources(t *skyTask, n *yaml.Node) error {
	base := skyChoice{}
	var alternatives yamlfile.Entry
	var all fault.Faults
	if !all.Add(r.readChoice(t, n, &base, "resources", func(e yamlfile.Entry) error {
		if alternatives.Node != nil {
			return r.Fault(e.Name, "cannot be combined with "+alternatives.Key,
				"alternatives are either ordered or not: keep one of the two")
		}
		alternatives = e
		return nil
	})) {
		return all.Err()
	}
	if alternatives.Node == nil {
		if !all.None() {
			return all.Err()
		}
		t.Ordered = base.inOrder
		return fault.At(yamlfile.PositionOf(n), r.addChoice(t, &base, n, "resources"))
	}
	t.Ordered = alternatives.Key == "ordered"
	var dropped error // of the last alternative that was left out
	err := r.List(alternatives.Node, func(i int, n *yaml.Node) error {
		choice := base
		choice.among = len(alternatives.Node.Content) > 1
		choice.marks = slices.Clone(base.marks)
		path := "resources." + alternatives.Key + fault.Index(i)
		if err := r.readChoice(t, n, &choice, path, nil); err != nil {
			return err
		}
		if elsewhere(choice.Cloud) && len(alternatives.Node.Content) > 1 {
			dropped = r.Fault(n, unsupportedCloud(choice.Cloud), supportedClouds)
			r.job.Warn(yamlfile.PositionOf(n), path, "is left out: "+unsupportedCloud(choice.Cloud))
			return nil
		}
		if choice.unsold {
			dropped = r.Fault(n, "no cloud here sells its accelerators", "tradewind catalog search --gpu ANY")
			return nil
		}
		return r.addChoice(t, &choice, n, path)
	})
	if err == nil && len(t.Resources) == 0 && dropped != nil {
		err = dropped
	}
	if err == nil && len(t.Resources) == 0 {
		err = r.Fault(alternatives.Node, "is empty", "give at least one alternative")
	}
	all.Add(fault.WithinKey(alternatives.Key, err))
	return all.Err()
}

// internalToSkyPilot are fields that SkyPilot adds to files itself. They do not change the result.
var internalToSkyPilot = []string{"_is_image_managed", "_requires_fuse", "_no_missing_accel_warnings"}

// readChoice reads a mapping of resources. It calls nested for any_of and ordered; nested is nil if they are not
// allowed.
func (r *reader) readChoice(
	t *skyTask,
	n *yaml.Node,
	c *skyChoice,
	path string,
	nested func(yamlfile.Entry) error,
) error {
	entries, err := r.Mapping(n)
	if err != nil {
		return err
	}
	has := func(key string) bool {
		return slices.ContainsFunc(
			entries,
			func(e yamlfile.Entry) bool { return e.Key == key && !yamlfile.IsNull(e.Node) },
		)
	}
	if has("infra") && (has("cloud") || has("region") || has("zone")) {
		return fault.Within(
			"infra",
			r.Fault(n, "cannot be combined with cloud, region or zone",
				"infra names cloud, region and zone: remove the other fields"),
		)
	}
	if has("cloud") { // the default region may belong to another cloud
		c.Region, c.Zone = "", ""
	}
	known := slices.DeleteFunc(r.resources.Names(), func(name string) bool { return strings.HasPrefix(name, "_") })
	if nested != nil {
		known = append(known, "any_of", "ordered")
	}
	return r.Each(n, func(e yamlfile.Entry) error {
		if yamlfile.IsNull(e.Node) || slices.Contains(internalToSkyPilot, e.Key) {
			return nil
		}
		if nested != nil && (e.Key == "any_of" || e.Key == "ordered") {
			return nested(e)
		}
		read, ok := r.resources[e.Key]
		if here, is := calledHere[strings.ToLower(e.Key)]; !ok && is && strings.HasPrefix(here, "resources: {") {
			return r.Fault(e.Name, "unknown field", "write "+strings.TrimSuffix(here[len("resources: {"):], "}"))
		}
		if _, ofTask := r.task[e.Key]; !ok && ofTask {
			return r.Fault(e.Name, "is a field of the task, not of resources", "write it next to resources")
		}
		if !ok {
			return r.Unknown(e, known)
		}
		c.mark(skyMarks(e.Key), yamlfile.PositionOf(e.Node), path+"."+e.Key)
		return read(skyInto{t, c}, e.Node)
	})
}

// awsZone matches a zone as AWS names it in an account, and its region.
var awsZone = regexp.MustCompile(`^([a-z]{2}(?:-[a-z]+)+-[0-9])[a-z]$`)

// zoneOfAccount replaces the name of an AWS zone with its region. AWS gives zones different names
// in each account, so the broker identifies them by their IDs.
func (r *reader) zoneOfAccount(c *skyChoice) error {
	m := awsZone.FindStringSubmatch(c.Zone)
	if m == nil || c.Cloud != "" && c.Cloud != "aws" {
		return nil
	}
	for _, mark := range c.marks {
		if mark.Field == "zone" && c.Region != "" && c.Region != m[1] {
			return fault.At(mark.Pos, fault.Within("zone", fault.New(c.Zone+" is not in the region "+c.Region,
				"leave one of the two out")))
		}
		if mark.Field == "zone" {
			r.job.Warn(
				mark.Pos,
				mark.Path,
				"the name "+c.Zone+" is a different zone in each account of AWS: any zone of "+
					m[1]+" is used; write the ID of the zone for one, such as use1-az1",
			)
		}
	}
	c.Region, c.Zone = cmp.Or(c.Region, m[1]), ""
	return nil
}

// mark records the positions of fields. They replace those of the default values.
func (c *skyChoice) mark(fields []string, pos fault.Position, path string) {
	c.marks = slices.DeleteFunc(c.marks, func(m dag.Mark) bool { return slices.Contains(fields, m.Field) })
	for _, f := range fields {
		c.marks = append(c.marks, dag.Mark{Field: f, Pos: pos, Path: path})
	}
}

// addChoice adds the alternatives of a choice: each accelerator combined with the image of each region.
func (r *reader) addChoice(t *skyTask, c *skyChoice, n *yaml.Node, path string) error {
	if elsewhere(c.Cloud) {
		pos := yamlfile.PositionOf(n)
		for _, m := range c.marks {
			if m.Field == "cloud" {
				pos, path = m.Pos, m.Path
			}
		}
		return fault.At(pos, fault.Within(strings.TrimPrefix(path[strings.LastIndexByte(path, '.')+1:], "resources"),
			fault.New(unsupportedCloud(c.Cloud), supportedClouds)))
	}
	if c.memoryRatio > 0 && c.CPUs.Min == 0 && (len(c.accelerators) > 0 || c.InstanceType != "") {
		r.job.Warn(yamlfile.PositionOf(n), path+".memory", "a ratio to cpus is ignored without cpus")
	}
	if err := r.zoneOfAccount(c); err != nil {
		return err
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
			if len(t.Resources) == jobtext.MaxAlternatives {
				return fault.OverLimit(fmt.Sprintf("more than %d alternatives", jobtext.MaxAlternatives), "")
			}
			if c.Region != "" && c.Region != image.region {
				continue // the image of another region
			}
			one := *c
			one.Accelerator, one.AcceleratorCount = a.name, a.count
			one.Region, one.Image = image.region, image.image
			r.markAlternative(t, c, a, yamlfile.PositionOf(n), path)
			t.Resources = append(t.Resources, skyDefaults(one))
		}
	}
	if len(t.Resources) == 0 {
		return fault.Within(
			"image_id",
			fault.New("has no image for region "+fault.Quote(c.Region), "add one, or remove the region"),
		)
	}
	return nil
}

// markAlternative records the position of the next alternative of t.
func (r *reader) markAlternative(t *skyTask, c *skyChoice, a skyAccelerator, pos fault.Position, path string) {
	alternative := int32(len(t.Resources)) //nolint:gosec // at most dag.MaxAlternatives
	for _, m := range c.marks {
		m.Alternative = alternative
		if m.Field == "accelerators" {
			m.Pos = a.pos
		}
		t.marks = append(t.marks, m)
	}
	t.marks = append(t.marks, dag.Mark{Alternative: alternative, Pos: pos, Path: path})
}

// memoryPerCPU is SkyPilot's default ratio of memory to vCPUs, in GiB.
const memoryPerCPU = 4

// skyDefaults sets SkyPilot's default for each missing field. Machines are on-demand. A machine
// without accelerators and without a named type gets 8 vCPUs if there is no memory either, 4 GiB
// for each vCPU, and an x86 processor. SkyPilot's default machine types have such processors.
func skyDefaults(c skyChoice) dag.Resources {
	res := c.Resources
	if res.Market == "" {
		res.Market = dag.MarketOnDemand
	}
	ratio, named := c.memoryRatio, res.Accelerator != "" || res.InstanceType != ""
	if !named {
		ratio = cmp.Or(ratio, memoryPerCPU)
		if res.CPUs.IsZero() && res.Memory.IsZero() {
			res.CPUs = dag.Range{Min: 8}
		}
	}
	if res.Memory.IsZero() {
		res.Memory = dag.Range{Min: min(ratio*res.CPUs.Min, jobtext.MaxMemoryGiB)}
	}
	if named {
		return res
	}
	if res.Cloud != "kubernetes" { // whose default is any node
		res.Arch = "amd64"
	}
	return res
}
