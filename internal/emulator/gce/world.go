package gce

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	crm "google.golang.org/api/cloudresourcemanager/v3"
	compute "google.golang.org/api/compute/v1"
	oauth2 "google.golang.org/api/oauth2/v2"
)

// world holds all resources except machines.
type world struct {
	project   string
	zones     []string
	quotas    map[string]float64 // by region/metric; global/metric
	networks  map[string]*compute.Network
	firewalls map[string]*compute.Firewall
	disks     map[string]bool
	images    map[string]bool // families by project/family; missing ones are assumed to be Google's
	unsold    map[string]bool // zone/machine type
	more      []string        // sold types, in addition to sold

	reservations []*compute.Reservation
	commitments  []*compute.Commitment
	occupied     map[string]int // other users' machines by reservation
}

func newWorld(cfg Config) world {
	return world{
		project: cfg.Project, zones: cfg.Zones, quotas: map[string]float64{}, disks: map[string]bool{},
		networks:  map[string]*compute.Network{"default": {Kind: "compute#network", Id: 1, Name: "default"}},
		firewalls: map[string]*compute.Firewall{}, images: map[string]bool{}, unsold: map[string]bool{},
		occupied: map[string]int{},
	}
}

// defaultQuota is the default quota.
const defaultQuota = 10_000

func (w *world) limit(region, metric string) float64 {
	if v, ok := w.quotas[region+"/"+metric]; ok {
		return v
	}
	return defaultQuota
}

// machineType holds the properties that follow from a type's name.
type machineType struct {
	vcpu, gib    float64
	arm          bool
	accelerators map[string]int
	hyperdisk    bool
	disks        int64  // local disks
	maintenance  string // MIGRATE or TERMINATE if the type allows only one
}

// perVCPU is the memory of machine type classes, in GiB for each vCPU.
var perVCPU = map[string]float64{"standard": 4, "highmem": 8, "highcpu": 1}

// builtIn are families with built-in accelerators: the kind, and the machine's vCPUs and GiB for each accelerator.
var builtIn = map[string]struct {
	kind      string
	vcpu, gib float64
}{
	"a2-highgpu": {"nvidia-tesla-a100", 12, 85}, "a3-highgpu": {"nvidia-h100-80gb", 26, 234},
	"a2-ultragpu": {"nvidia-a100-80gb", 12, 170},
}

// hyperdisks are families that accept no other boot disks.
var hyperdisks = []string{"c4", "c4a", "c4d", "n4", "n4a", "n4d", "a4", "x4", "h4d"}

// machineType parses a name in Google's format, such as n2-standard-8.
func (w *world) machineType(zone, name string) (t machineType, ok bool) {
	parts := strings.Split(name, "-")
	if w.unsold[zone+"/"+name] || len(parts) < 2 {
		return t, false
	}
	family := parts[0]
	t.arm = slices.Contains([]string{"t2a", "c4a", "n4a"}, family)
	t.hyperdisk = slices.Contains(hyperdisks, family)
	if name == "e2-micro" || name == "f1-micro" {
		t.vcpu, t.gib = 2, 1
		return t, true
	}
	t.maintenance = map[string]string{"e2": "MIGRATE", "z3": "MIGRATE", "h4d": "TERMINATE"}[family]
	if len(parts) == 4 && family == "z3" { // z3-highmem-88-highlssd
		n, err := strconv.ParseInt(parts[2], 10, 64)
		if t.disks = (n + 14) / 15; parts[3] == "highlssd" {
			t.disks = (n + 7) / 8
		}
		if t.disks > 6 {
			t.maintenance = "TERMINATE"
		}
		t.vcpu, t.gib = float64(n), 8*float64(n)
		return t, err == nil
	}
	if len(parts) == 4 && parts[3] == "metal" { // c3-standard-192-metal
		t.maintenance, parts = "TERMINATE", parts[:3]
	}
	if len(parts) != 3 {
		return t, false
	}
	n, err := strconv.Atoi(strings.TrimSuffix(parts[2], "g"))
	if err != nil || n < 1 {
		return t, false
	}
	if b, has := builtIn[family+"-"+parts[1]]; has {
		t.vcpu, t.gib, t.accelerators = b.vcpu*float64(n), b.gib*float64(n), map[string]int{b.kind: n}
		return t, true
	}
	each, known := perVCPU[parts[1]]
	if family == "g2" {
		t.accelerators = map[string]int{"nvidia-l4": max(n/24, 1)}
	}
	if family == "n1" && parts[1] == "standard" {
		each = 3.75
	}
	t.vcpu, t.gib = float64(n), each*float64(n)
	return t, known
}

// Unsell removes a machine type from a zone.
func (c *Cloud) Unsell(zone, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.world.unsold[zone+"/"+name] = true
}

func (c *Cloud) zoneFault(zone string) *Fault {
	if !slices.Contains(c.cfg.Zones, zone) {
		return invalid("Invalid value for field 'zone': '%s'. Unknown zone.", zone)
	}
	return nil
}

func (c *Cloud) getMachineType(r *call) (any, *Fault) {
	zone, name := r.arg(1), r.arg(2)
	if f := c.zoneFault(zone); f != nil {
		return nil, f
	}
	t, ok := c.world.machineType(zone, name)
	if !ok {
		return nil, notFound("projects/%s/zones/%s/machineTypes/%s", c.cfg.Project, zone, name)
	}
	return c.describe(zone, name, t), nil
}

func (c *Cloud) describe(zone, name string, t machineType) *compute.MachineType {
	out := &compute.MachineType{
		Kind: "compute#machineType", Id: 1, Name: name, Zone: zone, GuestCpus: int64(t.vcpu),
		MemoryMb: int64(t.gib * 1024), Architecture: "X86_64", SelfLink: c.link("zones/%s/machineTypes/%s", zone, name),
	}
	if t.arm {
		out.Architecture = "ARM64"
	}
	if t.disks > 0 {
		out.BundledLocalSsds = &compute.BundledLocalSsds{DefaultInterface: "NVME", PartitionCount: t.disks}
	}
	for kind, n := range t.accelerators {
		out.Accelerators = append(out.Accelerators, &compute.MachineTypeAccelerators{
			GuestAcceleratorType: kind, GuestAcceleratorCount: int64(n),
		})
	}
	return out
}

// sold are the machine types that lists show in every zone.
var sold = []string{
	"e2-micro", "e2-standard-2", "e2-standard-4", "n1-standard-4", "n1-standard-8", "n1-standard-16", "n2-standard-2",
	"n2-standard-8", "c4a-standard-4", "g2-standard-8", "a2-highgpu-1g",
}

// Sell adds machine types to those that lists show in every zone.
func (c *Cloud) Sell(names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.world.more = append(c.world.more, names...)
}

func (c *Cloud) aggregateMachineTypes(r *call) (any, *Fault) {
	var all []*compute.MachineType
	for _, zone := range c.cfg.Zones {
		for _, name := range slices.Concat(sold, c.world.more) {
			if t, ok := c.world.machineType(zone, name); ok {
				all = append(all, c.describe(zone, name, t))
			}
		}
	}
	part, next := page(r, all)
	out := &compute.MachineTypeAggregatedList{
		Kind: "compute#machineTypeAggregatedList", Items: map[string]compute.MachineTypesScopedList{},
		NextPageToken: next,
	}
	for _, t := range part {
		scope := "zones/" + t.Zone
		out.Items[scope] = compute.MachineTypesScopedList{MachineTypes: append(out.Items[scope].MachineTypes, t)}
	}
	return out, nil
}

// attachable are the accelerators that can be attached in every zone.
var attachable = []string{"nvidia-tesla-t4", "nvidia-tesla-v100", "nvidia-tesla-p100"}

func (c *Cloud) aggregateAcceleratorTypes(r *call) (any, *Fault) {
	var all []*compute.AcceleratorType
	for _, zone := range c.cfg.Zones {
		for _, kind := range attachable {
			all = append(all, &compute.AcceleratorType{
				Kind: "compute#acceleratorType", Name: kind, Zone: c.link("zones/%s", zone), MaximumCardsPerInstance: 8,
			})
		}
	}
	part, next := page(r, all)
	out := &compute.AcceleratorTypeAggregatedList{Kind: "compute#acceleratorTypeAggregatedList",
		Items: map[string]compute.AcceleratorTypesScopedList{}, NextPageToken: next}
	for _, t := range part {
		scope := "zones/" + base(t.Zone)
		out.Items[scope] = compute.AcceleratorTypesScopedList{
			AcceleratorTypes: append(out.Items[scope].AcceleratorTypes, t),
		}
	}
	return out, nil
}

// RemoveFamily removes an image family, such as debian-cloud/debian-12.
func (c *Cloud) RemoveFamily(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.world.images[name] = false
}

func (c *Cloud) getImageFromFamily(r *call) (any, *Fault) {
	project, family := r.arg(0), r.arg(1)
	if f := c.lacksImage("compute.images.getFromFamily", project, "family/"+family); f != nil {
		return nil, f
	}
	if there, said := c.world.images[project+"/"+family]; said && !there {
		return nil, notFound("projects/%s/global/images/family/%s", project, family)
	}
	return image(project, family+"-v20261101", family), nil
}

func (c *Cloud) getImage(r *call) (any, *Fault) {
	if f := c.lacksImage("compute.images.get", r.arg(0), r.arg(1)); f != nil {
		return nil, f
	}
	if strings.HasPrefix(r.arg(1), "no-such") {
		return nil, notFound("projects/%s/global/images/%s", r.arg(0), r.arg(1))
	}
	return image(r.arg(0), r.arg(1), ""), nil
}

func image(project, name, family string) *compute.Image {
	i := &compute.Image{
		Kind: "compute#image", Id: 7, Name: name, Family: family, Status: "READY", DiskSizeGb: 10,
		Architecture:    "X86_64",
		GuestOsFeatures: []*compute.GuestOsFeature{{Type: "UEFI_COMPATIBLE"}, {Type: "GVNIC"}},
		SelfLink:        "https://www.googleapis.com/compute/v1/projects/" + project + "/global/images/" + name,
	}
	if strings.Contains(name, "arm64") {
		i.Architecture = "ARM64"
	}
	if strings.Contains(name, "cu1") { // with CUDA and drivers
		i.DiskSizeGb = 50
	}
	return i
}

// metrics returns the metrics of the quotas that a region lists.
func (w *world) metrics(region string) []string {
	all := []string{"CPUS", "PREEMPTIBLE_CPUS"}
	for name := range w.quotas {
		if metric, ok := strings.CutPrefix(name, region+"/"); ok && !slices.Contains(all, metric) {
			all = append(all, metric)
		}
	}
	slices.Sort(all)
	return all
}

func (c *Cloud) listRegions(*call) (any, *Fault) {
	out := &compute.RegionList{Kind: "compute#regionList"}
	var names []string
	for _, z := range c.cfg.Zones {
		names = append(names, region(z))
	}
	slices.Sort(names)
	for i, name := range slices.Compact(names) {
		r := &compute.Region{Kind: "compute#region", Id: uint64(1000 + i), Name: name, Status: "UP"} //nolint:gosec // small
		if c.weather.down[name] {
			r.Status = "DOWN"
		}
		for _, metric := range c.world.metrics(name) {
			r.Quotas = append(r.Quotas, &compute.Quota{
				Metric: metric, Limit: c.world.limit(name, metric), Usage: c.used(name, metric),
			})
		}
		out.Items = append(out.Items, r)
	}
	return out, nil
}

func (c *Cloud) getProject(*call) (any, *Fault) {
	return &compute.Project{
		Kind: "compute#project", Id: 100000000001, Name: c.cfg.Project,
		Quotas: []*compute.Quota{{Metric: "GPUS_ALL_REGIONS", Limit: c.world.limit("global", "GPUS_ALL_REGIONS")}},
	}, nil
}

func (c *Cloud) getNetwork(r *call) (any, *Fault) {
	n := c.world.networks[r.arg(1)]
	if n == nil {
		return nil, notFound("projects/%s/global/networks/%s", c.cfg.Project, r.arg(1))
	}
	return n, nil
}

func (c *Cloud) insertNetwork(r *call) (any, *Fault) {
	var n compute.Network
	if err := json.Unmarshal(r.body, &n); err != nil || !validName.MatchString(n.Name) {
		return nil, invalid("Invalid value for field 'resource.name': '%s'.", n.Name)
	}
	o := c.begin("insert", "", r.URL.Query().Get("requestId"))
	o.finish = func() { n.Id = c.number(); c.world.networks[n.Name] = &n }
	return &o.record, nil
}

func (c *Cloud) deleteNetwork(r *call) (any, *Fault) {
	if _, f := c.getNetwork(r); f != nil {
		return nil, f
	}
	o := c.begin("delete", "", "")
	o.finish = func() { delete(c.world.networks, r.arg(1)) }
	return &o.record, nil
}

func (c *Cloud) getFirewall(r *call) (any, *Fault) {
	f := c.world.firewalls[r.arg(1)]
	if f == nil {
		return nil, notFound("projects/%s/global/firewalls/%s", c.cfg.Project, r.arg(1))
	}
	return f, nil
}

func (c *Cloud) insertFirewall(r *call) (any, *Fault) {
	var f compute.Firewall
	if err := json.Unmarshal(r.body, &f); err != nil || c.world.networks[base(f.Network)] == nil {
		return nil, notFound("projects/%s/global/networks/%s", c.cfg.Project, base(f.Network))
	}
	o := c.begin("insert", "", r.URL.Query().Get("requestId"))
	o.finish = func() { f.Id = c.number(); c.world.firewalls[f.Name] = &f }
	return &o.record, nil
}

func (c *Cloud) deleteFirewall(r *call) (any, *Fault) {
	if _, f := c.getFirewall(r); f != nil {
		return nil, f
	}
	o := c.begin("delete", "", "")
	o.finish = func() { delete(c.world.firewalls, r.arg(1)) }
	return &o.record, nil
}

func (c *Cloud) userinfo(*call) (any, *Fault) {
	return &oauth2.Userinfo{Email: "broker@" + c.cfg.Project + ".iam.gserviceaccount.com", Id: "1122"}, nil
}

func (c *Cloud) testPermissions(r *call) (any, *Fault) {
	if project, _, _ := strings.Cut(r.arg(0), ":"); base(project) != c.cfg.Project {
		return nil, &Fault{Code: http.StatusForbidden, Reason: "forbidden", Status: "PERMISSION_DENIED",
			Message: "The caller does not have permission"}
	}
	return c.granted(r)
}

// granted returns those of the permissions in a request that were not revoked.
func (c *Cloud) granted(r *call) (any, *Fault) {
	var in crm.TestIamPermissionsRequest
	if err := json.Unmarshal(r.body, &in); err != nil {
		return nil, invalid("%v", err)
	}
	denied := c.deniedNames()
	return &crm.TestIamPermissionsResponse{Permissions: slices.DeleteFunc(in.Permissions, func(p string) bool {
		return slices.Contains(denied, p)
	})}, nil
}

func (c *Cloud) listSkus(r *call) (any, *Fault) {
	n, _ := strconv.Atoi(cmp.Or(r.URL.Query().Get("pageToken"), "0"))
	if n >= len(c.cfg.Skus) {
		return map[string]any{}, nil
	}
	var out map[string]any
	if err := json.Unmarshal(c.cfg.Skus[n], &out); err != nil {
		return nil, &Fault{Code: http.StatusInternalServerError, Reason: "backendError", Message: err.Error()}
	}
	if n+1 < len(c.cfg.Skus) {
		out["nextPageToken"] = strconv.Itoa(n + 1)
	}
	return out, nil
}
