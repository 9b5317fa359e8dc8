package broker_test

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// A job that waits for quota starts soon after a machine of the class has ended, not after the hour of the block.
func TestWaitingJobStartsWhenMachineOfItsClassHasEnded(t *testing.T) {
	const task = "{t: {run: x, time: 2h, resources: {cloud: aws, region: us-east-1, instanceType: m5.xlarge, market: on-demand}}}"
	p := newPorch(t, task, nil)
	first := p.job
	p.cloud["aws"].refuse = func(cloud.LaunchSpec) error {
		return &cloud.Error{Cloud: "aws", Kind: cloud.Quota, Code: "VcpuLimitExceeded", Class: "standard"}
	}
	p.submit(task, "2")
	p.settle()
	if d := p.detail(); d.State != apitypes.JobWaiting {
		t.Fatalf("the second job is %s", d.State)
	}
	if err := p.b.Users.Cancel(t.Context(), first, "make room"); err != nil {
		t.Fatal(err)
	}
	p.settle()
	p.cloud["aws"].refuse = nil
	p.now = p.now.Add(11 * time.Minute)
	look := events.New("look", "test", p.now, events.BrokerReconcile{})
	if errs := p.b.Functions.Handle(t.Context(), events.FnReconcile, []events.Event{look}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	p.settle()
	if d := p.detail(); d.State != apitypes.JobRunning {
		t.Errorf("after 11 minutes the second job is %s: %s", d.State, d.Reason)
	}
}
