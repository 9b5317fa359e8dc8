package gce

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	compute "google.golang.org/api/compute/v1"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// instance is one machine.
type instance struct {
	record compute.Instance
	hidden int // number of next lists that lack it
	bill   *Bill

	reservation *compute.Reservation // the reservation that it uses
	metadata    *imdstest.GoogleMachine
	process     *emulator.Machine // nil if not booted
}

func (m *instance) zone() string { return base(m.record.Zone) }

// key returns the machine's unique key in the project.
func key(zone, name string) string { return zone + "/" + name }

var validName = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)

var (
	validLabelKey   = regexp.MustCompile(`^[a-z][-_a-z0-9]{0,62}$`)
	validLabelValue = regexp.MustCompile(`^[-_a-z0-9]{0,63}$`)
)

// maxMetadata is the maximum size of one value of a machine's metadata, in bytes.
const maxMetadata = 256 << 10

// checkProperties rejects the properties that Google rejects.
func (c *Cloud) checkProperties(zone string, p *compute.InstanceProperties) *Fault {
	if p == nil {
		return invalid("Invalid value for field 'resource.instanceProperties': ''. Must be specified.")
	}
	t, ok := c.world.machineType(zone, p.MachineType)
	if !ok {
		return invalid("Invalid value for field 'resource.instanceProperties.machineType': '%s'. "+
			"Machine type with name '%s' does not exist in zone '%s'.", p.MachineType, p.MachineType, zone)
	}
	if f := cmp.Or(checkTexts(p), c.accountFault(p)); f != nil {
		return f
	}
	boot := slices.IndexFunc(p.Disks, func(d *compute.AttachedDisk) bool { return d.Boot })
	if boot < 0 || p.Disks[boot].InitializeParams == nil || p.Disks[boot].InitializeParams.SourceImage == "" {
		return invalid("Invalid value for field 'resource.disks': ''. Boot disk must be specified.")
	}
	// https://www.googleapis.com/compute/v1/projects/PROJECT/global/images/NAME
	if parts := strings.Split(p.Disks[boot].InitializeParams.SourceImage, "/"); len(parts) == 10 {
		if f := c.lacksImage("compute.images.useReadOnly", parts[6], parts[9]); f != nil {
			return f
		}
	}
	if hyper := strings.HasPrefix(p.Disks[boot].InitializeParams.DiskType, "hyperdisk"); hyper != t.hyperdisk {
		return invalid("[pd-balanced, hyperdisk-balanced] features are not compatible for creating instance: "+
			"%s with %s", p.MachineType, p.Disks[boot].InitializeParams.DiskType)
	}
	if len(p.NetworkInterfaces) == 0 ||
		c.world.networks[base(cmp.Or(p.NetworkInterfaces[0].Network, "default"))] == nil {
		return notFound("projects/%s/global/networks/%s", c.cfg.Project, "?")
	}
	return checkScheduling(p, t)
}

// checkTexts checks the format of labels and metadata.
func checkTexts(p *compute.InstanceProperties) *Fault {
	for k, v := range p.Labels {
		if !validLabelKey.MatchString(k) || !validLabelValue.MatchString(v) {
			return invalid("Invalid value for field 'resource.labels': '%s'. Label '%s' violates format.", v, k)
		}
	}
	if p.Metadata != nil {
		for _, i := range p.Metadata.Items {
			if i.Value != nil && len(*i.Value) > maxMetadata {
				return invalid("Value for field 'resource.metadata.items[].value' is too large: maximum size %d",
					maxMetadata)
			}
		}
	}
	return nil
}

// checkScheduling rejects scheduling options that accelerator or spot machines cannot have.
func checkScheduling(p *compute.InstanceProperties, t machineType) *Fault {
	gpu := len(p.GuestAccelerators) > 0 || len(t.accelerators) > 0
	s := p.Scheduling
	if gpu && (s == nil || s.OnHostMaintenance != "TERMINATE") {
		return invalid("Instances with guest accelerators do not support live migration.")
	}
	if s == nil || s.ProvisioningModel != "SPOT" {
		asked := "MIGRATE"
		if s != nil && s.OnHostMaintenance != "" {
			asked = s.OnHostMaintenance
		}
		if t.maintenance != "" && t.maintenance != asked {
			return invalid("Scheduling option onHostMaintenance of %s has to be %s.", p.MachineType, t.maintenance)
		}
	}
	if s != nil && s.ProvisioningModel == "SPOT" && s.AutomaticRestart != nil && *s.AutomaticRestart {
		return invalid("Scheduling option automaticRestart must be false for spot instances.")
	}
	if len(p.GuestAccelerators) > 0 && !strings.HasPrefix(p.MachineType, "n1-") {
		return invalid("[%s, nvidia] features are not compatible for creating instance.", p.MachineType)
	}
	return nil
}

// accountFault refuses machines with a service account that the caller may not use.
func (c *Cloud) accountFault(p *compute.InstanceProperties) *Fault {
	if !c.weather.denied["iam.serviceAccounts.actAs"] || len(p.ServiceAccounts) == 0 {
		return nil
	}
	return &Fault{Code: http.StatusBadRequest, Reason: "SERVICE_ACCOUNT_ACCESS_DENIED",
		Message: fmt.Sprintf("The user does not have access to service account '%s'.", p.ServiceAccounts[0].Email)}
}

func (c *Cloud) bulkInsert(r *call) (any, *Fault) {
	zone := r.arg(1)
	if f := c.zoneFault(zone); f != nil {
		return nil, f
	}
	id := r.URL.Query().Get("requestId")
	if o := c.requests[id]; o != nil && id != "" {
		return &o.record, nil // repeated request
	}
	var in compute.BulkInsertInstanceResource
	if err := json.Unmarshal(r.body, &in); err != nil {
		return nil, invalid("%v", err)
	}
	if f := c.checkProperties(zone, in.InstanceProperties); f != nil {
		return nil, f
	}
	names := slices.Sorted(maps.Keys(in.PerInstanceProperties))
	if int64(len(names)) != in.Count || in.Count < 1 || in.MinCount < 0 || in.MinCount > in.Count {
		return nil, invalid("Invalid value for field 'resource.count': '%d'.", in.Count)
	}
	if f := c.checkNames(zone, names); f != nil {
		return nil, f
	}
	on, f := c.reserve(zone, in.InstanceProperties, int(in.Count))
	if f != nil {
		return nil, f
	}
	late := c.shortage(zone, in.InstanceProperties, int(in.Count))
	if on != nil {
		late = nil // a reservation has capacity even if the zone is dry
	}
	if late != nil && late.Code != 0 {
		return nil, late
	}
	if late == nil && len(c.weather.late) > 0 {
		late = &c.weather.late[0]
		c.weather.late = c.weather.late[1:]
	}
	o := c.begin("bulkInsert", zone, id)
	o.record.OperationGroupId = o.record.Name[len("operation-"):]
	made := names
	if late != nil {
		made = names[:len(names)-1]
	}
	for _, name := range made {
		c.create(zone, name, in.InstanceProperties, on)
	}
	o.finish = func() { c.finishBulk(o, zone, made, len(names), late) }
	return &o.record, nil
}

// checkNames rejects invalid names and names of existing machines.
func (c *Cloud) checkNames(zone string, names []string) *Fault {
	for _, name := range names {
		if !validName.MatchString(name) {
			return invalid("Invalid value for field 'resource.name': '%s'.", name)
		}
		if c.machines[key(zone, name)] != nil {
			return &Fault{Code: http.StatusConflict, Reason: "alreadyExists",
				Message: "The resource '" + c.link("zones/%s/instances/%s", zone, name) + "' already exists"}
		}
	}
	return nil
}

// create creates a machine that is still provisioning.
func (c *Cloud) create(zone, name string, p *compute.InstanceProperties, on *compute.Reservation) {
	m := &instance{hidden: c.weather.lag, reservation: on, record: compute.Instance{
		Kind: "compute#instance", Id: c.number(), Name: name, Description: p.Description, Status: "PROVISIONING",
		Zone: c.link("zones/%s", zone), MachineType: c.link("zones/%s/machineTypes/%s", zone, p.MachineType),
		CreationTimestamp: c.now(), Labels: p.Labels, Metadata: p.Metadata, Scheduling: p.Scheduling,
		GuestAccelerators: p.GuestAccelerators, ServiceAccounts: p.ServiceAccounts, Tags: p.Tags,
		ShieldedInstanceConfig: p.ShieldedInstanceConfig, SelfLink: c.link("zones/%s/instances/%s", zone, name),
		ReservationAffinity: p.ReservationAffinity,
	}}
	for _, d := range p.Disks {
		m.record.Disks = append(m.record.Disks, &compute.AttachedDisk{
			AutoDelete: d.AutoDelete, Boot: d.Boot, DiskSizeGb: d.InitializeParams.DiskSizeGb, Mode: "READ_WRITE",
			Type: "PERSISTENT", Source: c.link("zones/%s/disks/%s", zone, name),
		})
		c.world.disks[key(zone, name)] = true
	}
	serial := c.serial % 200
	for i, n := range p.NetworkInterfaces {
		n := *n
		n.Name, n.NetworkIP = "nic"+strconv.Itoa(i), "127.0.1."+strconv.FormatUint(2+serial, 10)
		m.record.NetworkInterfaces = append(m.record.NetworkInterfaces, &n)
	}
	if on != nil {
		m.record.ResourceStatus = &compute.ResourceStatus{
			ReservationConsumptionInfo: &compute.ResourceStatusReservationConsumptionInfo{
				ConsumedReservation: on.SelfLink}}
	}
	m.bill = c.open(m)
	c.machines[key(zone, name)] = m
}

// finishBulk ends a bulk insert: its machines run, or are undone.
func (c *Cloud) finishBulk(o *operation, zone string, made []string, wanted int, late *Fault) {
	status := compute.BulkInsertOperationStatus{TargetVmCount: int64(wanted), Status: "DONE"}
	if late == nil {
		status.CreatedVmCount = int64(len(made))
		for _, name := range made {
			if m := c.machines[key(zone, name)]; m != nil {
				m.record.Status = "RUNNING"
				m.record.LastStartTimestamp = c.now()
				if err := c.boot(m); err != nil {
					c.faults = append(c.faults, "boot: "+err.Error())
				}
			}
		}
	} else {
		keep := min(c.weather.litter, len(made))
		c.weather.litter = 0
		for _, name := range made[keep:] {
			c.remove(key(zone, name))
		}
		status.CreatedVmCount, status.DeletedVmCount = int64(len(made)), int64(len(made)-keep)
		status.FailedToCreateVmCount = 1
		o.fail(http.StatusServiceUnavailable, "VM_MIN_COUNT_NOT_REACHED",
			"Requested minimum count of "+strconv.Itoa(wanted)+" VMs could not be created.")
		// the operations of single machines have the reason
		single := c.begin("insert", zone, "")
		single.record.OperationGroupId = o.record.OperationGroupId
		single.fail(http.StatusServiceUnavailable, late.Reason, late.Message)
		c.end(single)
	}
	o.record.InstancesBulkInsertOperationMetadata = &compute.InstancesBulkInsertOperationMetadata{
		PerLocationStatus: map[string]compute.BulkInsertOperationStatus{"zones/" + zone: status},
	}
}

func (c *Cloud) getInstance(r *call) (any, *Fault) {
	m := c.machines[key(r.arg(1), r.arg(2))]
	if m == nil {
		return nil, notFound("projects/%s/zones/%s/instances/%s", c.cfg.Project, r.arg(1), r.arg(2))
	}
	return &m.record, nil
}

// visible returns the machines that a list shows, in one zone or in all.
func (c *Cloud) visible(zone, expr string) ([]*compute.Instance, *Fault) {
	var all []*compute.Instance
	for _, k := range slices.Sorted(maps.Keys(c.machines)) {
		m := c.machines[k]
		if zone != "" && m.zone() != zone {
			continue
		}
		if m.hidden > 0 {
			m.hidden--
			continue
		}
		all = append(all, &m.record)
	}
	return filter(all, expr)
}

func (c *Cloud) listInstances(r *call) (any, *Fault) {
	zone := r.arg(1)
	if f := c.zoneFault(zone); f != nil {
		return nil, f
	}
	all, f := c.visible(zone, r.URL.Query().Get("filter"))
	if f != nil {
		return nil, f
	}
	part, next := page(r, all)
	return &compute.InstanceList{
		Kind: "compute#instanceList", Id: "projects/" + c.cfg.Project + "/zones/" + zone + "/instances",
		Items: part, NextPageToken: next, SelfLink: c.link("zones/%s/instances", zone),
	}, nil
}

func (c *Cloud) aggregateInstances(r *call) (any, *Fault) {
	all, f := c.visible("", r.URL.Query().Get("filter"))
	if f != nil {
		return nil, f
	}
	part, next := page(r, all)
	out := &compute.InstanceAggregatedList{
		Kind: "compute#instanceAggregatedList", Id: "projects/" + c.cfg.Project + "/aggregated/instances",
		Items: map[string]compute.InstancesScopedList{}, NextPageToken: next,
	}
	for _, zone := range c.cfg.Zones {
		out.Items["zones/"+zone] = compute.InstancesScopedList{Warning: &compute.InstancesScopedListWarning{
			Code: "NO_RESULTS_ON_PAGE", Message: "There are no results for scope 'zones/" + zone + "' on this page.",
		}}
	}
	for _, i := range part {
		scope := "zones/" + base(i.Zone)
		out.Items[scope] = compute.InstancesScopedList{Instances: append(out.Items[scope].Instances, i)}
	}
	for zone, silent := range c.weather.silent {
		if silent {
			out.Items["zones/"+zone] = compute.InstancesScopedList{Warning: &compute.InstancesScopedListWarning{
				Code: "UNREACHABLE", Message: "zone " + zone + " is unreachable",
			}}
		}
	}
	return out, nil
}

func (c *Cloud) deleteInstance(r *call) (any, *Fault) {
	zone, name := r.arg(1), r.arg(2)
	id := r.URL.Query().Get("requestId")
	if o := c.requests[id]; o != nil && id != "" {
		return &o.record, nil
	}
	m := c.machines[key(zone, name)]
	if m == nil {
		return nil, notFound("projects/%s/zones/%s/instances/%s", c.cfg.Project, zone, name)
	}
	m.record.Status = "STOPPING"
	o := c.begin("delete", zone, id)
	o.record.TargetLink, o.record.TargetId = m.record.SelfLink, m.record.Id
	o.finish = func() {
		if c.machines[key(zone, name)] == m {
			c.remove(key(zone, name))
		}
	}
	return &o.record, nil
}

// remove ends a machine, with its disk.
func (c *Cloud) remove(k string) {
	if m := c.machines[k]; m != nil {
		m.kill()
		c.close(m.bill)
		delete(c.machines, k)
		if d := m.record.Disks; len(d) == 0 || d[0].AutoDelete {
			delete(c.world.disks, k)
		}
	}
}
