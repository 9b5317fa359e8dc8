package aws_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// payload returns an event in EventBridge's format.
func payload(detailType, region, detail string) []byte {
	return fmt.Appendf(nil, `{"version":"0","id":"12345678-1234-1234-1234-123456789012","detail-type":%q,"source":"aws.ec2","account":"123456789012",
"time":"2026-11-21T09:00:00Z","region":%q,"resources":["arn:aws:ec2:us-east-1f:instance/i-0abc"],"detail":%s}`, detailType, region, detail)
}

func TestDecodeNotice(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		kind, detail string
		want         cloud.NoticeKind
		at           time.Time
		relevant     bool
	}{
		{aws.InterruptionWarning, `{"instance-id":"i-0abc","instance-action":"terminate"}`, cloud.Interruption, at.Add(2 * time.Minute), true},
		{aws.RebalanceRecommendation, `{"instance-id":"i-0abc"}`, cloud.Rebalance, at, true},
		{aws.StateChange, `{"instance-id":"i-0abc","state":"terminated"}`, cloud.Taken, at, true},
		{aws.StateChange, `{"instance-id":"i-0abc","state":"shutting-down"}`, cloud.Taken, at, true},
		{aws.StateChange, `{"instance-id":"i-0abc","state":"running"}`, cloud.Taken, at, false},
		{aws.StateChange, `{"instance-id":"i-0abc","state":"pending"}`, cloud.Taken, at, false},
	} {
		n, relevant, err := aws.DecodeNotice(payload(c.kind, "us-east-1", c.detail))
		if err != nil || relevant != c.relevant || n.Kind != c.want || !n.At.Equal(c.at) || n.Machine != "i-0abc" || n.Region != "us-east-1" || n.EventID == "" {
			t.Errorf("%s %s: %+v %v %v", c.kind, c.detail, n, relevant, err)
		}
	}
	for name, p := range map[string][]byte{
		"other": payload("EC2 Spot Instance Request Fulfillment", "us-east-1", `{"instance-id":"i-0abc"}`), "whose": payload(aws.StateChange, "us-east-1", `{}`),
		"text": []byte("no"), "where": payload(aws.StateChange, "", `{"instance-id":"i-0abc","state":"terminated"}`),
		"path": payload(aws.StateChange, "us-east-1", `{"instance-id":"i-0abc/../x","state":"terminated"}`),
	} {
		if _, _, err := aws.DecodeNotice(p); !errors.Is(err, aws.ErrNotice) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhoseFindsCluster(t *testing.T) {
	w := newWorld(t, nil)
	m := w.launch(w.spec("train-4k7q2a.1.2", spot, 1))[0]
	n := aws.Notice{EventID: "e", Region: "us-east-1", Machine: m.ID, Kind: cloud.Interruption, At: time.Unix(1e9, 0)}
	got, ours, err := w.aws.Whose(t.Context(), n)
	want := events.SpotInterrupted{Cluster: "train-4k7q2a.1.2", Job: "train-4k7q2a", Machine: m.ID, Kind: "interruption", At: n.At}
	if err != nil || !ours || got != want {
		t.Errorf("%+v %v %v", got, ours, err)
	}
	other := newWorld(t, nil)
	if _, ours, err := other.aws.Whose(t.Context(), n); ours || err != nil {
		t.Errorf("another deployment's machine: %v %v", ours, err)
	}
	for _, unknown := range []aws.Notice{{Region: "us-east-1", Machine: "i-00000000"}, {Region: "eu-west-1", Machine: m.ID}} {
		if _, ours, err := w.aws.Whose(t.Context(), unknown); ours || err != nil {
			t.Errorf("%+v: %v %v", unknown, ours, err)
		}
	}
}

func TestWhoseIgnoresMachinesEndedByUsers(t *testing.T) {
	w := newWorld(t, nil)
	m := w.launch(w.spec("j.1.1", spot, 1))[0]
	n := aws.Notice{Region: "us-east-1", Machine: m.ID, Kind: cloud.Taken}
	if _, err := w.straight.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{m.ID}}); err != nil {
		t.Fatal(err)
	}
	if e, ours, err := w.aws.Whose(t.Context(), n); ours || err != nil {
		t.Errorf("ended by a user: %+v %v %v", e, ours, err)
	}
	w.proxy.rewrite("DescribeInstances", "Client.UserInitiatedShutdown", "Server.SpotInstanceTermination")
	if e, ours, err := w.aws.Whose(t.Context(), n); !ours || err != nil || e.Kind != "taken" {
		t.Errorf("taken by EC2: %+v %v %v", e, ours, err)
	}
}

// The launch may not use the KMS key of its volume, so EC2 ends the machine while it starts (EC2 User Guide,
// "Troubleshoot an Amazon EC2 instance that terminates immediately"). The message must name the next step, because
// EC2's bare code does not help the user.
func TestMachineWithForbiddenKeyNamesNextStep(t *testing.T) {
	namesNextStep(t, "Client.InternalError", "tradewind deploy aws --kms-keys")
}

// A machine exceeds the quota of volumes, as would each next machine in the region. The message must name the next
// step. Source: EC2 API, StateReason, "Client.VolumeLimitExceeded: The limit on the number of EBS volumes or total
// storage was exceeded."
func TestMachineBeyondVolumeQuotaNamesNextStep(t *testing.T) {
	namesNextStep(t, "Client.VolumeLimitExceeded", "aws service-quotas list-service-quotas --service-code ebs")
}

// namesNextStep checks that a fault of a machine that could not start names a next step: in notices, in lists, and in
// the answer to a repeated launch.
func namesNextStep(t *testing.T, code, step string) {
	t.Helper()
	w := newWorld(t, nil)
	s := w.spec("j.1.1", spot, 1)
	m := w.launch(s)[0]
	if _, err := w.straight.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{m.ID}}); err != nil {
		t.Fatal(err)
	}
	w.proxy.rewrite("DescribeInstances", "Client.UserInitiatedShutdown", code)
	e, ours, err := w.aws.Whose(t.Context(), aws.Notice{Region: "us-east-1", Machine: m.ID, Kind: cloud.Taken})
	if err != nil || !ours || !strings.Contains(e.Fault, step) {
		t.Errorf("notice: %+v %v %v", e, ours, err)
	}
	listed, err := w.aws.Machines(t.Context(), s.Cluster)
	if err != nil || len(listed) != 1 || !strings.Contains(listed[0].Fault, step) {
		t.Errorf("list: %+v %v", listed, err)
	}
	_, err = w.aws.Launch(t.Context(), s)
	var refused *cloud.Error
	if !errors.As(err, &refused) || refused.Scope != cloud.ScopeRegion || !strings.Contains(refused.Message, step) {
		t.Errorf("the same launch again: %v", err)
	}
}

func FuzzDecodeNotice(f *testing.F) {
	for _, kind := range []string{aws.InterruptionWarning, aws.RebalanceRecommendation, aws.StateChange, "x"} {
		f.Add(payload(kind, "us-east-1", `{"instance-id":"i-0abc","state":"terminated"}`))
	}
	f.Add([]byte(`{"detail":[]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, _, err := aws.DecodeNotice(b)
		switch {
		case err != nil && !errors.Is(err, aws.ErrNotice):
			t.Errorf("%v", err)
		case err == nil && (n.EventID == "" || n.Region == "" || n.At.IsZero() || !strings.HasPrefix(n.Machine, "i-") || n.Kind == ""):
			t.Errorf("incomplete: %+v", n)
		}
	})
}
