package gce

import (
	"cmp"
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	compute "google.golang.org/api/compute/v1"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// Bill is the cost of a machine.
type Bill struct {
	ID, Name, Zone, Type string
	Accelerator          string // attached accelerator, or the type of TPU
	AcceleratorCount     int
	Spot                 bool
	DiskGiB              float64
	From, Until          time.Time // Until is zero while the machine runs
	USDPerHour           float64
	USD                  float64 // up to now, or to the end
}

// open begins the bill of a machine.
func (c *Cloud) open(m *instance) *Bill {
	b := &Bill{
		ID: strconv.FormatUint(m.record.Id, 10), Name: m.record.Name, Zone: m.zone(), Type: base(m.record.MachineType),
		Spot: m.record.Scheduling != nil && m.record.Scheduling.ProvisioningModel == "SPOT",
	}
	for _, a := range m.record.GuestAccelerators {
		b.Accelerator, b.AcceleratorCount = a.AcceleratorType, int(a.AcceleratorCount)
	}
	for _, d := range m.record.Disks {
		b.DiskGiB += float64(d.DiskSizeGb)
	}
	c.charge(b)
	if m.reservation != nil {
		b.USDPerHour = 0 // the reservation is paid whether it is used or not
	}
	return b
}

func (c *Cloud) charge(b *Bill) *Bill {
	b.From = c.cfg.Now()
	if c.cfg.Price != nil {
		b.USDPerHour = c.cfg.Price(*b)
	}
	c.bills = append(c.bills, b)
	return b
}

func (c *Cloud) close(b *Bill) {
	if b != nil && b.Until.IsZero() {
		b.Until = c.cfg.Now()
	}
}

// Bills returns the bills of all machines, ended ones included, in order of creation.
func (c *Cloud) Bills() []Bill {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Bill, len(c.bills))
	for i, b := range c.bills {
		out[i] = *b
		until := b.Until
		if until.IsZero() {
			until = c.cfg.Now()
		}
		out[i].USD = until.Sub(b.From).Hours() * b.USDPerHour
	}
	return out
}

// boot starts a machine as a process if Config.Dir is set. Like Google's guest agent, it runs the start-up script.
func (c *Cloud) boot(m *instance) error {
	m.metadata = &imdstest.GoogleMachine{
		ID: strconv.FormatUint(m.record.Id, 10), Name: m.record.Name, Project: c.cfg.Project, Zone: m.zone(),
		Attributes: map[string]string{}, Address: m.record.NetworkInterfaces[0].NetworkIP,
	}
	if m.record.Metadata != nil {
		for _, i := range m.record.Metadata.Items {
			if i.Value != nil {
				m.metadata.Attributes[i.Key] = *i.Value
			}
		}
	}
	for _, a := range m.record.ServiceAccounts {
		m.metadata.ServiceAccount = a.Email
	}
	var err error
	m.process, err = c.start(m.record.Name, m.metadata)
	if m.process != nil {
		go c.watch(m, m.process)
	}
	return err
}

// start starts a machine as a process that runs the start-up script and has a metadata server. It returns nil if
// Config.Dir is empty or there is no start-up script.
func (c *Cloud) start(name string, metadata *imdstest.GoogleMachine) (*emulator.Machine, error) {
	script := metadata.Attributes["startup-script"]
	if c.cfg.Dir == "" || script == "" {
		return nil, nil
	}
	signer, err := c.signer()
	if err != nil {
		return nil, err
	}
	metadata.Signer = signer
	return emulator.BootMachine(emulator.MachineConfig{
		Dir: filepath.Join(c.cfg.Dir, name), UserData: []byte(script), Metadata: metadata,
		Environment: func(service string) []string {
			return append([]string{"GCE_METADATA_HOST=" + service}, c.cfg.Environment...)
		},
	})
}

// watch waits until a machine shuts itself down. It is then stopped but still exists, unless it was being preempted.
func (c *Cloud) watch(m *instance, p *emulator.Machine) {
	<-p.Exited()
	c.mu.Lock()
	defer c.mu.Unlock()
	if killed, _ := p.Ended(); killed || c.machines[key(m.zone(), m.record.Name)] != m {
		return
	}
	m.record.Status, m.record.LastStopTimestamp = "TERMINATED", c.now()
	if m.taken() {
		c.take(m)
	}
	close(c.ended)
	c.ended = make(chan struct{})
}

// Await waits until ok returns true for the machines. It checks again whenever one has shut itself down.
func (c *Cloud) Await(ctx context.Context, ok func([]Machine) bool) error {
	for {
		c.mu.Lock()
		ended := c.ended
		c.mu.Unlock()
		if ok(c.Machines()) {
			return nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *instance) kill() {
	if m.process != nil {
		m.process.Kill()
	}
}

func (m *instance) taken() bool { return m.record.StatusMessage == "preempted" }

// Machine describes a machine of the emulator.
type Machine struct {
	ID, Name, Zone, Type, Status string
	Spot                         bool
	Labels                       map[string]string
}

// Machines returns all machines, TPUs included.
func (c *Cloud) Machines() []Machine {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Machine
	for _, m := range c.machines {
		out = append(out, Machine{
			ID: strconv.FormatUint(m.record.Id, 10), Name: m.record.Name, Zone: m.zone(),
			Type: base(m.record.MachineType), Status: m.record.Status, Labels: m.record.Labels,
			Spot: m.bill.Spot,
		})
	}
	for _, n := range c.tpus {
		out = append(out, Machine{ID: strconv.FormatInt(n.record.Id, 10), Name: base(n.record.Name), Zone: n.zone,
			Type: n.record.AcceleratorType, Status: n.record.State, Labels: n.record.Labels, Spot: n.bill.Spot})
	}
	return out
}

// Instance returns a machine as in the API, or nil if it does not exist.
func (c *Cloud) Instance(id string) *compute.Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.byID(id); m != nil {
		r := m.record
		return &r
	}
	return nil
}

func (c *Cloud) byID(id string) *instance {
	for _, m := range c.machines {
		if strconv.FormatUint(m.record.Id, 10) == id {
			return m
		}
	}
	return nil
}

// powerOff is the time between ACPI's soft-off and the cut of the power of a spot machine.
const powerOff = 30 * time.Second

// Preempt preempts a machine as Google does: in the same moment its metadata server reports it and its firmware sends
// ACPI's soft-off, so that the machine begins to shut down; half a minute later its power is cut. FinishPreemption cuts
// the power earlier. Preempt returns false if the machine does not exist.
//
// Source: Compute Engine API v1, Scheduling: preemptionNoticeDuration (there is no wait before the soft-off unless it
// is set) and skipGuestOsShutdown (30 seconds between the soft-off and the mechanical off of Spot VMs).
func (c *Cloud) Preempt(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.byID(id)
	if m == nil {
		return false
	}
	m.record.StatusMessage = "preempted"
	if m.process != nil {
		m.process.ShutDown()
		time.AfterFunc(powerOff, func() { c.FinishPreemption(id) })
	}
	if m.metadata != nil {
		m.metadata.Preempt()
	}
	c.publishPreemption(m)
	return true
}

// PreemptWithoutNotice is Preempt without notice on the metadata server: only the audit log reports it.
func (c *Cloud) PreemptWithoutNotice(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.byID(id)
	if m != nil {
		c.publishPreemption(m)
	}
	return m != nil
}

// FinishPreemption ends a machine by preemption: it is deleted or stopped, according to its scheduling options.
func (c *Cloud) FinishPreemption(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.byID(id); m != nil {
		c.take(m)
		return true
	}
	for k, n := range c.tpus {
		if strconv.FormatInt(n.record.Id, 10) == id {
			n.kill()
			c.close(n.bill)
			c.tpus[k].record.State = "PREEMPTED"
			return true
		}
	}
	return false
}

func (c *Cloud) take(m *instance) {
	if s := m.record.Scheduling; s != nil && s.InstanceTerminationAction == "DELETE" {
		c.remove(key(m.zone(), m.record.Name))
		return
	}
	m.kill()
	m.record.Status = "TERMINATED"
}

// Leftovers returns the disks and queued resources without a machine.
func (c *Cloud) Leftovers() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var left []string
	for k := range c.world.disks {
		if c.machines[k] == nil {
			left = append(left, "disk "+k)
		}
	}
	for k := range c.queued {
		if n := c.tpus[k]; n == nil {
			left = append(left, "queued resource "+k)
		}
	}
	return left
}

// Age makes all machines, as the API lists them, older.
func (c *Cloud) Age(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.machines {
		if at, err := time.Parse(time.RFC3339, m.record.CreationTimestamp); err == nil {
			m.record.CreationTimestamp = at.Add(-by).Format(time.RFC3339)
		}
	}
}

// Console returns the path of a machine's console output; the file exists only if the machine was booted.
func (c *Cloud) Console(name string) string {
	return filepath.Join(c.cfg.Dir, name, "console.log")
}

// shortage returns why a zone cannot sell count machines, or nil. If Code is 0, the operation reports the error, not
// the call.
func (c *Cloud) shortage(zone string, p *compute.InstanceProperties, count int) *Fault {
	for _, what := range []string{zone, zone + "/" + p.MachineType} {
		if c.weather.dry[what] {
			f := &Fault{Reason: "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", Message: "The zone 'projects/" +
				c.cfg.Project + "/zones/" + zone + "' does not have enough resources available to fulfill the " +
				"request. (resource type:compute)"}
			if c.weather.once[what] {
				f.Code, f.Reason = 503, "ZONE_RESOURCE_POOL_EXHAUSTED"
			}
			return f
		}
	}
	t, _ := c.world.machineType(zone, p.MachineType)
	metric := "CPUS"
	if p.Scheduling != nil && p.Scheduling.ProvisioningModel == "SPOT" {
		metric = "PREEMPTIBLE_CPUS"
	}
	limit, used := c.world.limit(region(zone), metric), c.used(region(zone), metric)
	if want := used + t.vcpu*float64(count); want > limit {
		return &Fault{Reason: "QUOTA_EXCEEDED", Message: "Quota '" + metric + "' exceeded.  Limit: " +
			strconv.FormatFloat(limit, 'f', 1, 64) + " in region " + region(zone) + "."}
	}
	return nil
}

// used returns how much of a quota a region's machines use.
func (c *Cloud) used(in, metric string) (n float64) {
	for _, m := range c.machines {
		t, _ := c.world.machineType(m.zone(), base(m.record.MachineType))
		if region(m.zone()) == in && m.bill.Spot == strings.HasPrefix(metric, "PREEMPTIBLE") {
			n += t.vcpu
		}
	}
	return n
}

// SetQuota limits a region: CPUS, PREEMPTIBLE_CPUS. GPUS_ALL_REGIONS is for the whole project, with region "".
func (c *Cloud) SetQuota(region, metric string, limit float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.world.quotas[cmp.Or(region, "global")+"/"+metric] = limit
}
