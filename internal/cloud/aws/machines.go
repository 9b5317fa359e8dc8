package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Tags of everything that is launched. The right to terminate is limited to machines with the first tag.
const (
	// TagDeployment holds the name of the deployment that a machine belongs to.
	TagDeployment = tagPrefix + "deployment"

	tagPrefix     = "tradewind:"
	tagDeployment = TagDeployment
	tagCluster    = tagPrefix + "cluster"
	tagRank       = tagPrefix + "rank"
	tagUSD        = tagPrefix + "usd-per-hour"
	tagAccel      = tagPrefix + "accelerator"
)

// Machines implements cloud.Cloud. It lists the machines of all regions of the deployment. If one region does not
// answer, Machines fails, because the list would be incomplete.
func (c *Cloud) Machines(ctx context.Context, cluster string) ([]cloud.Machine, error) {
	if cluster != "" && !driver.ValidCluster(cluster) {
		return nil, ctx.Err()
	}
	machines, err := c.list(ctx, cluster)
	if err != nil {
		return nil, Typed(err)
	}
	slices.SortFunc(machines, func(a, b cloud.Machine) int {
		if d := strings.Compare(a.Cluster, b.Cluster); d != 0 {
			return d
		}
		return a.Rank - b.Rank
	})
	return machines, nil
}

func (c *Cloud) list(ctx context.Context, cluster string) ([]cloud.Machine, error) {
	names, err := c.usable(ctx)
	if err != nil {
		return nil, err
	}
	if home := c.home(cluster); home != "" {
		names = []string{home}
	}
	parts := make([][]cloud.Machine, len(names))
	err = driver.Each(len(names), maxAtOnce, func(i int) error {
		name := names[i]
		r := c.client(name)
		found, err := r.find(ctx, cluster)
		if err == nil {
			parts[i], err = r.machines(ctx, found)
		}
		if err != nil {
			return fmt.Errorf("region %s: %w", name, err)
		}
		return nil
	})
	return slices.Concat(parts...), err
}

// find lists the instances of a cluster, in any state. If cluster is empty, it lists those of the whole deployment.
func (r *region) find(ctx context.Context, cluster string) ([]types.Instance, error) {
	filters := []types.Filter{filter("tag:"+tagDeployment, r.cloud.cfg.Deployment)}
	if cluster == "" {
		filters = append(filters, filter("tag-key", tagCluster))
	} else {
		filters = append(filters, filter("tag:"+tagCluster, cluster))
	}
	var found []types.Instance
	pages := ec2.NewDescribeInstancesPaginator(r.ec2,
		&ec2.DescribeInstancesInput{Filters: filters, MaxResults: awssdk.Int32(r.cloud.pageSize())})
	for pages.HasMorePages() {
		call, cancel := context.WithTimeout(ctx, readWithin)
		page, err := pages.NextPage(call)
		cancel()
		if err != nil {
			return nil, err
		}
		for _, reservation := range page.Reservations {
			r.facts.owned(reservation.OwnerId)
			found = append(found, reservation.Instances...)
		}
	}
	return found, nil
}

// maxPage is the largest page that DescribeInstances returns.
const maxPage = 1000

func (c *Cloud) pageSize() int32 {
	if c.page > 0 {
		return c.page
	}
	return maxPage
}

// machines converts instances to cloud.Machine.
func (r *region) machines(ctx context.Context, instances []types.Instance) ([]cloud.Machine, error) {
	out := make([]cloud.Machine, 0, len(instances))
	for _, i := range instances {
		m := cloud.Machine{
			ID: awssdk.ToString(i.InstanceId), Cluster: tagOf(i, tagCluster),
			Rank: int(awssdk.ToInt32(i.AmiLaunchIndex)), Account: r.facts.account(), State: state(i.State),
			Launched: awssdk.ToTime(i.LaunchTime),
			Offer: apitypes.Offer{
				Cloud: Name, Region: r.name, InstanceType: string(i.InstanceType),
				Spot: i.InstanceLifecycle == types.InstanceLifecycleTypeSpot,
			},
		}
		m.Offer.USDPerHour, _ = strconv.ParseFloat(tagOf(i, tagUSD), 64)
		accelerator, count, _ := strings.Cut(tagOf(i, tagAccel), ":")
		m.Offer.Accelerator = accelerator
		m.Offer.AccelCount, _ = strconv.ParseFloat(count, 64)
		if i.Placement != nil {
			zone, err := r.zoneID(ctx, i.Placement)
			if err != nil {
				return nil, err
			}
			m.Offer.Zone = zone
		}
		if m.State == cloud.Terminated || m.State == cloud.Terminating {
			m.Reason, m.Fault = reason(endCode(i)), fault(endCode(i))
		}
		out = append(out, m)
	}
	return out, nil
}

func state(s *types.InstanceState) cloud.State {
	if s == nil {
		return cloud.Pending
	}
	switch s.Name {
	case types.InstanceStateNamePending:
		return cloud.Pending
	case types.InstanceStateNameRunning:
		return cloud.Running
	case types.InstanceStateNameTerminated:
		return cloud.Terminated
	default: // a stopped one was stopped by someone else and is useless, but must still be terminated
		return cloud.Terminating
	}
}

// living returns the instances that have not ended and still need a termination.
func living(all []types.Instance) []types.Instance {
	return slices.DeleteFunc(slices.Clone(all), func(i types.Instance) bool {
		return i.State != nil && (i.State.Name == types.InstanceStateNameTerminated ||
			i.State.Name == types.InstanceStateNameShuttingDown)
	})
}

// Reasons why machines end without a request.
const (
	reasonSpot     = "spot-interruption"
	reasonExited   = "exited"
	reasonCapacity = "capacity"
)

// endCode returns the API's code for the end of an instance, such as Server.SpotInstanceTermination or
// Client.UserInitiatedShutdown. If there is no code, it derives the initiator from the text of the transition.
func endCode(i types.Instance) string {
	if i.StateReason != nil {
		if code := awssdk.ToString(i.StateReason.Code); code != "" {
			return code
		}
	}
	transition := awssdk.ToString(i.StateTransitionReason)
	switch {
	case strings.HasPrefix(transition, "Server."), strings.HasPrefix(transition, "Client."):
		code, _, _ := strings.Cut(transition, ":")
		return strings.TrimSpace(code)
	case strings.HasPrefix(transition, "User initiated"):
		return "Client.UserInitiatedShutdown"
	case strings.HasPrefix(transition, "Service initiated") && i.InstanceLifecycle == types.InstanceLifecycleTypeSpot:
		return "Server.SpotInstanceTermination"
	}
	return transition
}

// asked reports whether an instance ended because of a request.
func asked(code string) bool { return code == "Client.UserInitiatedShutdown" }

func reason(code string) string {
	switch code {
	case "Server.SpotInstanceTermination", "Server.SpotInstanceShutdown":
		return reasonSpot
	case "Client.InstanceInitiatedShutdown":
		return reasonExited
	case "Server.InsufficientInstanceCapacity":
		return reasonCapacity
	}
	if asked(code) {
		return ""
	}
	return code
}

// State reasons of instances that could not start (EC2 API, StateReason).
const (
	// codeInternal means that the volume is encrypted with a key that the launch may not use.
	codeInternal = "Client.InternalError"
	// codeVolumes means that the account's quota of EBS volumes or storage is used up.
	codeVolumes = "Client.VolumeLimitExceeded"
)

// fault returns, if the account's settings prevented the start of a machine, the cause and the next step (EC2 User
// Guide, "Troubleshoot an Amazon EC2 instance that terminates immediately": the launch may not use the KMS key of an
// encrypted volume).
func fault(code string) string {
	switch code {
	case codeVolumes:
		return "EC2 ended the machine while it started (" + codeVolumes + "): the account's quota of EBS volumes is " +
			"used up. Delete volumes, or ask for more: aws service-quotas list-service-quotas --service-code ebs"
	case codeInternal:
	default:
		return ""
	}
	return "EC2 ended the machine while it started (" + codeInternal + "): the broker may not use the KMS key that " +
		"encrypts its volume. `tradewind deploy aws --kms-keys KEY-ARN` gives a deployment the right; docs/aws.md, " +
		"\"Customer keys\", lists what else a key needs"
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: awssdk.String(name), Values: values}
}

func tag(key, value string) types.Tag {
	return types.Tag{Key: awssdk.String(key), Value: awssdk.String(value)}
}

func tagOf(i types.Instance, key string) string { return tagValue(i.Tags, key) }

func tagValue(tags []types.Tag, key string) string {
	for _, t := range tags {
		if awssdk.ToString(t.Key) == key {
			return awssdk.ToString(t.Value)
		}
	}
	return ""
}

func isCode(err error, code string) bool {
	var api smithy.APIError
	return errors.As(err, &api) && api.ErrorCode() == code
}

// maxAtOnce is the maximum number of regions called in parallel.
const maxAtOnce = 8
