package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap"
	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// hypervisor runs a process for each machine that the emulated EC2 lists in a region. The process ends with the
// machine.
type hypervisor struct {
	*testing.T
	ec2       *ec2.Client
	dir       string
	authority *imdstest.Authority
	shutsDown bool // terminates a machine whose boot script has ended, as if it had powered off
	// boots returns the time from a machine's launch to the start of its boot script. If it is nil, that time is
	// zero.
	boots func(id string) time.Duration

	mu       sync.Mutex
	machines map[string]*instance
}

type instance struct {
	*emulator.Machine
	imds *imdstest.Machine
}

// exited reports whether the machine's processes have ended.
func (m *instance) exited() bool {
	select {
	case <-m.Exited():
		return true
	default:
		return false
	}
}

// working returns the number of machines whose processes run.
func (h *hypervisor) working() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.machines {
		if m != nil && !m.exited() {
			n++
		}
	}
	return n
}

func (h *hypervisor) run(ctx context.Context) {
	for ctx.Err() == nil {
		out, err := h.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{})
		if err != nil {
			continue
		}
		for _, r := range out.Reservations {
			for _, i := range r.Instances {
				h.look(ctx, i, aws.ToString(r.OwnerId))
			}
		}
		_ = clock.Pause(ctx, 100*time.Millisecond)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.machines {
		m.Kill()
		<-m.Exited()
	}
}

func (h *hypervisor) look(ctx context.Context, i types.Instance, account string) {
	id := aws.ToString(i.InstanceId)
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.machines[id]
	if m != nil && h.shutsDown && m.exited() && i.State.Name == types.InstanceStateNameRunning {
		_, _ = h.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	}
	switch state := i.State.Name; {
	case m == nil && h.boots != nil && time.Since(aws.ToTime(i.LaunchTime)) < h.boots(id):
	case m == nil && (state == types.InstanceStateNameRunning || state == types.InstanceStateNamePending):
		m, err := h.boot(ctx, i, account)
		if err != nil {
			h.Errorf("machine %s: %v", id, err)
		}
		h.machines[id] = m
	case m != nil && (state == types.InstanceStateNameTerminated || state == types.InstanceStateNameShuttingDown):
		m.Kill()
	}
}

func (h *hypervisor) boot(ctx context.Context, i types.Instance, account string) (*instance, error) {
	id := aws.ToString(i.InstanceId)
	data, err := h.ec2.DescribeInstanceAttribute(ctx,
		&ec2.DescribeInstanceAttributeInput{InstanceId: &id, Attribute: types.InstanceAttributeNameUserData})
	if err != nil {
		return nil, err
	}
	raw, err := base64.StdEncoding.DecodeString(aws.ToString(data.UserData.Value))
	if err != nil {
		return nil, err
	}
	m := &instance{imds: &imdstest.Machine{
		ID: id, LaunchIndex: int(aws.ToInt32(i.AmiLaunchIndex)), Address: fmt.Sprintf("127.0.2.%d", len(h.machines)%250+1),
		Region: emulator.Region, Zone: aws.ToString(i.Placement.AvailabilityZone), UserData: raw, Account: account, Signer: h.authority,
	}}
	m.Machine, err = emulator.BootMachine(emulator.MachineConfig{
		Dir: filepath.Join(h.dir, id), UserData: raw, Metadata: m.imds,
		Environment: func(service string) []string { return []string{bootstrap.EnvMetadata + "=http://" + service} },
	})
	return m, err
}

// take announces an interruption of a machine, and ends the machine at the announced time.
func (h *hypervisor) take(ctx context.Context, id string, ahead time.Duration) {
	h.mu.Lock()
	m := h.machines[id]
	h.mu.Unlock()
	m.imds.Interrupt(time.Now().Add(ahead))
	if clock.Pause(ctx, ahead) != nil {
		return
	}
	m.Kill()
	_, _ = h.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
}

const resumed = `apiVersion: tradewind/v1
name: resumed
tasks:
  count:
    run: |
      step=$(cat "$TRADEWIND_CHECKPOINT/step" 2>/dev/null || echo 0)
      echo "from $step on $TRADEWIND_MACHINE"
      touch "$TRADEWIND_TEST_MARK$(basename "$TRADEWIND_MACHINE")"
      if [ "$step" = 0 ]; then
        trap 'echo saved >"$TRADEWIND_CHECKPOINT/step"; exit 1' TERM
        echo 1 >"$TRADEWIND_CHECKPOINT/step"
        while :; do sleep 0.1; done
      fi
      echo done >"$TRADEWIND_OUTPUT/out.txt"
    checkpoint: {every: 15m, path: ckpt/, size: 1MiB}
    resources: {cpus: 1+, memory: 1+, arch: amd64}
    time: 10m
`

// testAWS buys on AWS with a broker on the user's computer and the SDK's credentials. Machines must prove their
// identity. A machine that is interrupted with notice must leave its checkpoint to the next one.
func testAWS(t *testing.T, s *shell) {
	h, certificates := emulateAWS(t, s, emulator.Moto(t))
	ctx := t.Context()
	marks := t.TempDir()
	file := filepath.Join(t.TempDir(), "resumed.yaml")
	body := strings.ReplaceAll(resumed, "$TRADEWIND_TEST_MARK", marks+"/")
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	s.must("tradewind cloud add aws --certificates " + certificates)
	address := freeAddress(t)
	stop := s.up("--clouds aws --agents " + buildAgent(t) + " --addr " + address + " --public-url http://" + address)
	id := strings.TrimSpace(s.must("tradewind submit " + file))
	first := ""
	for deadline := time.Now().Add(3 * time.Minute); first == ""; time.Sleep(50 * time.Millisecond) {
		if ctx.Err() != nil || time.Now().After(deadline) {
			t.Fatalf("it does not run: %v\n%s", ctx.Err(), s.must("tradewind explain "+id))
		}
		found, _ := filepath.Glob(filepath.Join(marks, "*"))
		if len(found) > 0 {
			first = filepath.Base(found[0])
		}
		if _, _, code := s.run("tradewind status " + id); code != 0 {
			t.Fatalf("%s", s.must("tradewind explain "+id))
		}
	}
	h.take(ctx, first, 20*time.Second)
	if _, errs, code := s.run("tradewind status -w " + id); code != 0 {
		t.Fatalf("exit %d\n%s\n%s", code, errs, s.must("tradewind explain "+id))
	}
	log := s.must("tradewind logs " + id + " count --attempt 2")
	if strings.Contains(log, "from 0") || strings.Contains(log, first) {
		t.Errorf("the second attempt: %q", log)
	}
	story := s.must("tradewind explain " + id)
	if !strings.Contains(story, "aws/us-east-1/") || strings.Contains(story, "was refused") {
		t.Errorf("explain:\n%s", story)
	}
	stop()
	h.noneLeft(ctx)
	s.must("tradewind cloud remove aws")
}

// emulateAWS starts a process for each machine that an emulated EC2 lists, and sets the credentials of a shell. It
// returns the file of certificates that verify the machines.
func emulateAWS(t *testing.T, s *shell, endpoint string) (h *hypervisor, certificates string) {
	t.Helper()
	authority, err := imdstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	certificates = filepath.Join(t.TempDir(), "certificates.pem")
	if err := os.WriteFile(certificates, []byte(authority.Certificates()), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	h = &hypervisor{T: t, dir: t.TempDir(), authority: authority, machines: map[string]*instance{},
		ec2: ec2.NewFromConfig(emulator.Config(endpoint))}
	over := make(chan struct{})
	go func() { defer close(over); h.run(ctx) }()
	t.Cleanup(func() { cancel(); <-over })
	s.env = append(s.env, emulator.Env(endpoint)...)
	return h, certificates
}

// noneLeft fails the test if a machine was not terminated.
func (h *hypervisor) noneLeft(ctx context.Context) {
	h.Helper()
	out, err := h.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{})
	if err != nil {
		h.Fatal(err)
	}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			if i.State.Name != types.InstanceStateNameTerminated {
				h.Errorf("machine %s is %s", aws.ToString(i.InstanceId), i.State.Name)
			}
		}
	}
}
