package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Launch implements cloud.Cloud.
func (c *Cloud) Launch(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	machines, err := c.launch(ctx, spec)
	if err != nil {
		return nil, Typed(err)
	}
	return machines, nil
}

func (c *Cloud) launch(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	if err := driver.Check(Name, spec); err != nil {
		return nil, err
	}
	release, err := c.locks.Take(ctx, spec.Cluster)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := driver.CheckNotTerminated(ctx, Name, c.graves, spec.Cluster); err != nil {
		return nil, err
	}
	r, err := c.at(ctx, spec.Offer.Region)
	if err != nil {
		return nil, err
	}
	// An earlier call may have bought them and lost the answer.
	if machines, err := r.existing(ctx, spec); err != nil || len(machines) > 0 {
		return machines, err
	}
	c.setHome(spec.Cluster, r.name) // all its machines are in this region, so Terminate calls no other region
	machines, err := r.run(ctx, spec)
	if err != nil {
		return nil, err
	}
	return c.confirm(ctx, r, spec, machines)
}

// existing returns the machines of an earlier launch, or nil if there was none. It ends a cluster that is no longer
// whole.
func (r *region) existing(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	found, err := r.find(ctx, spec.Cluster)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	live := living(found)
	switch {
	case len(live) >= spec.Nodes:
		return r.keepOneLaunch(ctx, spec, live)
	case len(found) < spec.Nodes && r.cloud.young(found): // the list of a new cluster is not complete yet
		return nil, fail(cloud.Transient, codeLost, "%d of %d machines of cluster %s are listed", len(found),
			spec.Nodes, spec.Cluster)
	case len(live) > 0: // some were interrupted since: all or nothing
		if err := r.terminate(ctx, live); err != nil {
			return nil, err
		}
	}
	return nil, ended(spec.Cluster, found)
}

// listedWithin is the maximum time in which EC2 lists all machines that were launched together.
const listedWithin = 5 * time.Minute

// young reports whether all machines were launched within listedWithin.
func (c *Cloud) young(found []types.Instance) bool {
	return !slices.ContainsFunc(found, func(i types.Instance) bool {
		return time.Since(awssdk.ToTime(i.LaunchTime)) > listedWithin
	})
}

// ended returns the error for a cluster that was launched before and has ended.
func ended(cluster string, found []types.Instance) error {
	for _, i := range found {
		if code := endCode(i); code != "" && !asked(code) {
			err := cloud.Errorf(Name, cloud.Capacity, codeLost, "machine %s of cluster %s ended: %s",
				awssdk.ToString(i.InstanceId), cluster, cmp.Or(fault(code), code))
			if fault(code) != "" {
				err.Scope = cloud.ScopeRegion // the default key and the quotas of EBS are those of a region
			}
			return err
		}
	}
	return driver.Terminated(Name, cluster)
}

// run buys the machines. The SDK does not retry this call. Before a retry, the caller searches for machines.
func (r *region) run(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	in, err := r.request(ctx, spec)
	if err != nil {
		return nil, err
	}
	call, cancel := context.WithTimeout(ctx, launchWithin)
	defer cancel()
	out, err := r.ec2.RunInstances(call, in, func(o *ec2.Options) { o.Retryer = awssdk.NopRetryer{} })
	if err == nil {
		r.facts.owned(out.OwnerId)
		return r.machines(ctx, out.Instances)
	}
	r.facts.doubt(Typed(err))
	if !unknown(err) || ctx.Err() != nil {
		return nil, ofLaunch(spec, err)
	}
	// The outcome is unknown. If machines are not listed yet, the next launch finds them by the token or the tag.
	machines, findErr := r.existing(ctx, spec)
	if findErr != nil {
		return nil, errors.Join(err, findErr)
	}
	if len(machines) > 0 {
		return machines, nil
	}
	return nil, err
}

// confirm checks after the purchase whether another call has bought the same cluster, too, or has terminated it.
func (c *Cloud) confirm(ctx context.Context, r *region, spec cloud.LaunchSpec,
	machines []cloud.Machine) ([]cloud.Machine, error) {
	if err := driver.CheckNotTerminated(ctx, Name, c.graves, spec.Cluster); err != nil {
		return nil, errors.Join(err, r.terminateIDs(context.WithoutCancel(ctx), idsOf(machines)))
	}
	found, err := r.find(ctx, spec.Cluster)
	if err != nil || len(living(found)) <= spec.Nodes {
		r.rank(ctx, machines)
		return machines, nil // reconcile later finds machines that are not listed now
	}
	return r.keepOneLaunch(ctx, spec, living(found))
}

// keepOneLaunch ends all but one launch of a cluster, if an endpoint that ignores tokens ran several. It keeps the
// first launch, so that every caller keeps the same one.
func (r *region) keepOneLaunch(
	ctx context.Context,
	spec cloud.LaunchSpec,
	live []types.Instance,
) ([]cloud.Machine, error) {
	if len(live) == spec.Nodes {
		return r.machines(ctx, live)
	}
	slices.SortFunc(live, func(a, b types.Instance) int {
		return cmp.Or(awssdk.ToTime(a.LaunchTime).Compare(awssdk.ToTime(b.LaunchTime)),
			strings.Compare(awssdk.ToString(a.InstanceId), awssdk.ToString(b.InstanceId)))
	})
	keep := map[int32]types.Instance{}
	var extra []types.Instance
	for _, i := range live {
		rank := awssdk.ToInt32(i.AmiLaunchIndex)
		if _, taken := keep[rank]; taken {
			extra = append(extra, i)
		} else {
			keep[rank] = i
		}
	}
	if err := r.terminate(ctx, extra); err != nil {
		return nil, err
	}
	var kept []types.Instance
	for rank := range int32(len(keep)) { //nolint:gosec // no more than were listed
		kept = append(kept, keep[rank])
	}
	if len(kept) != spec.Nodes {
		return nil, fail(cloud.Transient, codeLost, "cluster %s has %d machines of %d", spec.Cluster, len(kept),
			spec.Nodes)
	}
	return r.machines(ctx, kept)
}

// maxTagged is the maximum size of a cluster whose machines are tagged one by one, because a launch cannot wait for a
// thousand calls.
const maxTagged = 64

// rank tags each machine of a cluster with its rank, for people; the code uses the launch index. A single machine
// gets its tag at launch.
func (r *region) rank(ctx context.Context, machines []cloud.Machine) {
	if len(machines) < 2 || len(machines) > maxTagged {
		return
	}
	for _, m := range machines {
		_, err := r.ec2.CreateTags(ctx,
			&ec2.CreateTagsInput{Resources: []string{m.ID}, Tags: []types.Tag{tag(tagRank, fmt.Sprint(m.Rank))}})
		if err != nil {
			r.cloud.log.Warn("rank not tagged", "machine", m.ID, "err", err)
			return
		}
	}
}

// Terminate implements cloud.Cloud.
func (c *Cloud) Terminate(ctx context.Context, cluster string) error {
	if !driver.ValidCluster(cluster) {
		return nil // no cluster can have this name
	}
	if err := c.terminateCluster(ctx, cluster); err != nil {
		return Typed(err)
	}
	return nil
}

func (c *Cloud) terminateCluster(ctx context.Context, cluster string) error {
	release, err := driver.BeginTerminate(ctx, c.graves, &c.locks, cluster)
	if err != nil {
		return err
	}
	defer release()
	if home := c.home(cluster); home != "" {
		if err := c.client(home).end(ctx, cluster); err != nil {
			return err
		}
		c.setHome(cluster, "")
		return nil
	}
	names, err := c.usable(ctx)
	if err != nil {
		return err
	}
	// A cluster is in one region. Once it is found, errors of other regions do not matter.
	found, silent := make([]bool, len(names)), make([]error, len(names))
	err = driver.Each(len(names), maxAtOnce, func(i int) error {
		name := names[i]
		r := c.client(name)
		all, err := r.find(ctx, cluster)
		if err != nil {
			silent[i] = fmt.Errorf("region %s: %w", name, err)
			return nil
		}
		found[i] = len(all) > 0
		return r.terminate(ctx, living(all))
	})
	if err != nil || slices.Contains(found, true) {
		return err
	}
	return errors.Join(silent...)
}

// end terminates a cluster's machines in a region.
func (r *region) end(ctx context.Context, cluster string) error {
	found, err := r.find(ctx, cluster)
	if err != nil {
		return err
	}
	return r.terminate(ctx, living(found))
}

func (r *region) terminate(ctx context.Context, machines []types.Instance) error {
	ids := make([]string, len(machines))
	for i, m := range machines {
		ids[i] = awssdk.ToString(m.InstanceId)
	}
	return r.terminateIDs(ctx, ids)
}

// terminateTries limits the retries for listed machines that a part of EC2 does not know yet.
const (
	terminateTries = 4
	terminatePause = 250 * time.Millisecond
)

func (r *region) terminateIDs(ctx context.Context, ids []string) error {
	for n := 1; len(ids) > 0; n++ {
		call, cancel := context.WithTimeout(ctx, readWithin)
		_, err := r.ec2.TerminateInstances(call, &ec2.TerminateInstancesInput{InstanceIds: ids})
		cancel()
		if err == nil || n == terminateTries || !isCode(err, "InvalidInstanceID.NotFound") {
			return err
		}
		if err := clock.Pause(ctx, terminatePause<<n); err != nil {
			return err
		}
	}
	return nil
}

func idsOf(machines []cloud.Machine) []string {
	ids := make([]string, len(machines))
	for i, m := range machines {
		ids[i] = m.ID
	}
	return ids
}
