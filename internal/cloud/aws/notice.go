package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Detail types of EventBridge events about machines, from the source aws.ec2.
const (
	InterruptionWarning     = "EC2 Spot Instance Interruption Warning"
	RebalanceRecommendation = "EC2 Instance Rebalance Recommendation"
	StateChange             = "EC2 Instance State-change Notification"
)

// ErrNotice means that a payload has none of these types.
var ErrNotice = errors.New("aws: not a notice about a machine")

// warnedAhead is the time between EC2's notice and the interruption (EC2 User Guide, "Spot Instance interruption
// notices").
const warnedAhead = 2 * time.Minute

// Notice is an EventBridge event about a machine whose owner is not yet known.
type Notice struct {
	EventID string // the same in every delivery of the event
	Region  string
	Machine string
	Kind    cloud.NoticeKind
	At      time.Time // when the machine will be, or was, taken
}

// envelope is EventBridge's message format (EventBridge User Guide, "AWS service event metadata").
type envelope struct {
	ID         string    `json:"id"`
	DetailType string    `json:"detail-type"`
	Source     string    `json:"source"`
	Region     string    `json:"region"`
	Time       time.Time `json:"time"`
	Detail     struct {
		Instance string `json:"instance-id"`
		Action   string `json:"instance-action"`
		State    string `json:"state"`
	} `json:"detail"`
}

var validInstance = regexp.MustCompile(`^i-[0-9a-f]{1,32}$`)

// DecodeNotice reads an EventBridge event. relevant is false for a state change that loses no machine. It fails with
// ErrNotice if the event has none of the three detail types, or is incomplete.
func DecodeNotice(payload []byte) (n Notice, relevant bool, err error) {
	var e envelope
	if err := json.Unmarshal(payload, &e); err != nil {
		return n, false, fmt.Errorf("%w: %w", ErrNotice, err)
	}
	if e.Source != "aws.ec2" || e.ID == "" || e.Region == "" || e.Time.IsZero() ||
		!validInstance.MatchString(e.Detail.Instance) {
		return n, false, fmt.Errorf("%w: %q of %q about %.40q", ErrNotice, e.DetailType, e.Source, e.Detail.Instance)
	}
	n = Notice{EventID: e.ID, Region: e.Region, Machine: e.Detail.Instance, At: e.Time.UTC()}
	switch e.DetailType {
	case InterruptionWarning:
		n.Kind, n.At = cloud.Interruption, n.At.Add(warnedAhead)
		return n, true, nil
	case RebalanceRecommendation:
		n.Kind = cloud.Rebalance
		return n, true, nil
	case StateChange:
		n.Kind = cloud.Taken
		return n, slices.Contains([]string{"stopping", "stopped", "shutting-down", "terminated"}, e.Detail.State), nil
	}
	return n, false, fmt.Errorf("%w: %q", ErrNotice, e.DetailType)
}

// Whose finds the cluster of a notice, and returns the event for the interrupt function. ours is false if the machine
// belongs to another deployment, or if the broker or a person ended it.
func (c *Cloud) Whose(ctx context.Context, n Notice) (e events.SpotInterrupted, ours bool, err error) {
	i, found, err := c.instance(ctx, n)
	if err != nil || !found {
		return e, false, Typed(err)
	}
	cluster := tagOf(i, tagCluster)
	if tagOf(i, tagDeployment) != c.cfg.Deployment || cluster == "" {
		return e, false, nil
	}
	if n.Kind == cloud.Taken {
		if code := endCode(i); code == "" || asked(code) {
			return e, false, nil
		}
	}
	job, _, _ := strings.Cut(cluster, ".") // as in broker.ClusterID
	e = events.SpotInterrupted{Cluster: cluster, Job: job, Machine: n.Machine, Kind: string(n.Kind), At: n.At}
	if n.Kind == cloud.Taken {
		e.Fault = fault(endCode(i))
	}
	return e, true, nil
}

// instance returns the machine that a notice is about.
func (c *Cloud) instance(ctx context.Context, n Notice) (i types.Instance, found bool, err error) {
	if !slices.Contains(c.cfg.Regions, n.Region) {
		return i, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	out, err := c.client(n.Region).ec2.DescribeInstances(ctx,
		&ec2.DescribeInstancesInput{InstanceIds: []string{n.Machine}})
	if isCode(err, "InvalidInstanceID.NotFound") || isCode(err, "InvalidInstanceID.Malformed") {
		return i, false, nil
	}
	if err != nil {
		return i, false, err
	}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			return i, true, nil
		}
	}
	return i, false, nil
}
