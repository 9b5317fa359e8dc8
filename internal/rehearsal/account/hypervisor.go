package account

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	ebtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap"
	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// Hypervisor runs a process for each machine that EC2 reports. The process runs the machine's user data, with its own
// metadata service and a directory as its disk. When EC2 terminates the machine the process is killed; when the process
// exits, the machine is terminated.
type Hypervisor struct {
	regions []*regional
	ended   func(id, code string)        // called with the reason if a machine ended without being terminated
	placed  func(cluster, region string) // called with the region of a cluster's machines
	gone    func(id string)              // called when a machine has ended, perhaps more than once
	dir     string
	// authority signs the machines' identity documents.
	authority *imdstest.Authority
	log       *slog.Logger

	mu       sync.Mutex
	machines map[string]*machine
	started  int
}

// regional has the clients of a region.
type regional struct {
	name   string
	ec2    *ec2.Client
	events *eventbridge.Client
}

type machine struct {
	*emulator.Machine
	id     string
	region *regional
	imds   *imdstest.Machine
	taken  bool // by EC2, not terminated by the broker
}

func (h *Hypervisor) run(ctx context.Context) {
	for ctx.Err() == nil {
		for _, r := range h.regions {
			if err := h.look(ctx, r); err != nil && ctx.Err() == nil {
				h.log.Warn("hypervisor", "region", r.name, "err", err)
			}
		}
		_ = clock.Pause(ctx, 300*time.Millisecond)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.machines {
		m.Kill()
	}
}

// look starts new machines of a region and kills those that have ended.
func (h *Hypervisor) look(ctx context.Context, at *regional) error {
	out, err := at.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{})
	if err != nil {
		return err
	}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			id := aws.ToString(i.InstanceId)
			h.mu.Lock()
			m := h.machines[id]
			h.mu.Unlock()
			switch state := i.State.Name; {
			case m == nil && (state == types.InstanceStateNameRunning || state == types.InstanceStateNamePending):
				if err := h.start(ctx, at, i); err != nil {
					h.log.Warn("machine", "id", id, "err", err)
				}
			case m != nil &&
				(state == types.InstanceStateNameTerminated || state == types.InstanceStateNameShuttingDown):
				h.mu.Lock()
				m.Kill()
				h.mu.Unlock()
			case m == nil: // it was terminated before it was started here
				h.gone(id)
			}
		}
	}
	return nil
}

// start boots a machine.
func (h *Hypervisor) start(ctx context.Context, at *regional, i types.Instance) error {
	id := aws.ToString(i.InstanceId)
	for _, tag := range i.Tags {
		if aws.ToString(tag.Key) == "tradewind:cluster" {
			h.placed(aws.ToString(tag.Value), at.name)
		}
	}
	data, err := at.ec2.DescribeInstanceAttribute(ctx,
		&ec2.DescribeInstanceAttributeInput{InstanceId: &id, Attribute: types.InstanceAttributeNameUserData})
	if err != nil {
		return err
	}
	raw, err := base64.StdEncoding.DecodeString(aws.ToString(data.UserData.Value))
	if err != nil {
		return fmt.Errorf("user data: %w", err)
	}
	h.mu.Lock()
	h.started++
	n := h.started
	h.mu.Unlock()
	m := &machine{id: id, region: at, imds: &imdstest.Machine{
		ID: id, LaunchIndex: int(aws.ToInt32(i.AmiLaunchIndex)), Address: fmt.Sprintf("127.0.1.%d", n%250+1),
		Region: at.name, Zone: aws.ToString(i.Placement.AvailabilityZone), UserData: raw,
		Account: account, Signer: h.authority,
	}}
	m.Machine, err = emulator.BootMachine(emulator.MachineConfig{
		Dir: filepath.Join(h.dir, id), UserData: raw, Metadata: m.imds,
		Environment: func(service string) []string {
			return []string{bootstrap.EnvMetadata + "=http://" + service, "AWS_REGION=" + at.name}
		},
	})
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.machines[id] = m
	h.mu.Unlock()
	h.log.Info("machine starts", "id", id, "type", i.InstanceType, "zone", aws.ToString(i.Placement.AvailabilityZone))
	go h.wait(context.WithoutCancel(ctx), m)
	return nil
}

// wait ends a machine when its process has exited, with the same events as EC2.
func (h *Hypervisor) wait(ctx context.Context, m *machine) {
	<-m.Exited()
	killed, err := m.Ended()
	h.log.Info("machine ends", "id", m.id, "err", err)
	defer h.gone(m.id)
	h.mu.Lock()
	switch {
	case m.taken:
		h.ended(m.id, "Server.SpotInstanceTermination")
	case !killed: // it shut itself down
		h.ended(m.id, "Client.InstanceInitiatedShutdown")
	}
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := m.region.ec2.TerminateInstances(ctx,
		&ec2.TerminateInstancesInput{InstanceIds: []string{m.id}}); err != nil {
		h.log.Warn("machine", "id", m.id, "err", err) // the event is sent anyway
	}
	h.putEvent(ctx, m, "EC2 Instance State-change Notification", map[string]any{"state": "shutting-down"})
}

// putEvent sends an EC2 event to the account's bus in the machine's region.
func (h *Hypervisor) putEvent(ctx context.Context, m *machine, typ string, detail map[string]any) {
	detail["instance-id"] = m.id
	body, err := json.Marshal(detail)
	if err != nil {
		return
	}
	_, err = m.region.events.PutEvents(ctx, &eventbridge.PutEventsInput{Entries: []ebtypes.PutEventsRequestEntry{{
		Source: aws.String("aws.ec2"), DetailType: &typ, Detail: aws.String(string(body)),
		Resources: []string{"arn:aws:ec2:" + m.region.name + ":" + account + ":instance/" + m.id},
	}}})
	if err != nil {
		h.log.Warn("notice", "id", m.id, "err", err)
	}
}

// Interrupt takes a spot machine as EC2 does, but faster: a notice, then the end.
func (h *Hypervisor) Interrupt(ctx context.Context, id string, after time.Duration) error {
	h.mu.Lock()
	m := h.machines[id]
	h.mu.Unlock()
	if m == nil {
		return fmt.Errorf("rehearsal: missing machine %s", id)
	}
	m.imds.Interrupt(time.Now().Add(2 * time.Minute))
	h.putEvent(ctx, m, "EC2 Spot Instance Interruption Warning", map[string]any{"instance-action": "terminate"})
	_ = clock.Pause(ctx, after)
	h.mu.Lock()
	killed, _ := m.Ended()
	m.taken = !killed // or it was terminated in the meantime
	m.Kill()
	h.mu.Unlock()
	return nil
}

// Count returns the number of started machines.
func (h *Hypervisor) Count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.started
}

// Running returns the IDs of the machines whose process runs.
func (h *Hypervisor) Running() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for id, m := range h.machines {
		select {
		case <-m.Exited():
		default:
			out = append(out, id)
		}
	}
	return out
}

// Consoles returns the end of each machine's console, for debugging.
func (h *Hypervisor) Consoles() string {
	var b strings.Builder
	paths, _ := filepath.Glob(filepath.Join(h.dir, "*", "console.log"))
	for _, p := range paths {
		raw, err := os.ReadFile(p) //nolint:gosec // in the rehearsal's own folder
		if err == nil {
			raw = raw[max(0, len(raw)-600):]
			fmt.Fprintf(&b, "--- %s\n%s\n", filepath.Base(filepath.Dir(p)), raw)
		}
	}
	return b.String()
}
