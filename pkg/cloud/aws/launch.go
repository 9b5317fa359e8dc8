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

	"github.com/tradewind-broker/tradewind/pkg/clock"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
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
	if err := driver.Alive(ctx, Name, c.graves, spec.Cluster); err != nil {
		return nil, err
	}
	r, err := c.at(ctx, spec.Offer.Region)
	if err != nil {
		return nil, err
	}
	// An earlier call may have bought them, and its answer been lost.
	if machines, err := r.existing(ctx, spec); err != nil || len(machines) > 0 {
		return machines, err
	}
	c.settled(spec.Cluster, r.name) // whatever is bought is there: to end it no other region is asked
	machines, err := r.run(ctx, spec)
	if err != nil {
		return nil, err
	}
	return c.confirm(ctx, r, spec, machines)
}

// existing returns the machines of an earlier launch, nil when there was none. One that is not whole any more is ended.
func (r *region) existing(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	found, err := r.find(ctx, spec.Cluster)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	live := living(found)
	switch {
	case len(live) >= spec.Nodes:
		return r.sole(ctx, spec, live)
	case len(found) < spec.Nodes && r.cloud.young(found): // what was just launched is not listed in full yet
		return nil, fail(cloud.Transient, codeLost, "%d of %d machines of cluster %s are listed", len(found),
			spec.Nodes, spec.Cluster)
	case len(live) > 0: // some were taken meanwhile: whole or nothing
		if err := r.terminate(ctx, live); err != nil {
			return nil, err
		}
	}
	return nil, ended(spec.Cluster, found)
}

// listedWithin is how long EC2 may take to list all that was launched together.
const listedWithin = 5 * time.Minute

// young says that machines were launched a moment ago.
func (c *Cloud) young(found []types.Instance) bool {
	return !slices.ContainsFunc(found, func(i types.Instance) bool {
		return time.Since(awssdk.ToTime(i.LaunchTime)) > listedWithin
	})
}

// ended types why a cluster that was launched before is not there any more.
func ended(cluster string, found []types.Instance) error {
	for _, i := range found {
		if code := endCode(i); code != "" && !asked(code) {
			return fail(cloud.Capacity, codeLost, "machine %s of cluster %s ended: %s", awssdk.ToString(i.InstanceId),
				cluster, code)
		}
	}
	return driver.Terminated(Name, cluster)
}

// run buys the machines. The SDK does not repeat this call: whoever repeats it looks for them first.
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
		return nil, ofImage(spec, err)
	}
	// Whether it was done nobody said. What is not listed yet, the next launch gets by its token or by its tag.
	machines, findErr := r.existing(ctx, spec)
	if findErr != nil {
		return nil, errors.Join(err, findErr)
	}
	if len(machines) > 0 {
		return machines, nil
	}
	return nil, err
}

// confirm looks, once machines are bought, whether another call bought the same cluster or terminated it meanwhile.
func (c *Cloud) confirm(ctx context.Context, r *region, spec cloud.LaunchSpec,
	machines []cloud.Machine) ([]cloud.Machine, error) {
	if err := driver.Alive(ctx, Name, c.graves, spec.Cluster); err != nil {
		return nil, errors.Join(err, r.terminateIDs(context.WithoutCancel(ctx), idsOf(machines)))
	}
	found, err := r.find(ctx, spec.Cluster)
	if err != nil || len(living(found)) <= spec.Nodes {
		r.rank(ctx, machines)
		return machines, nil // what cannot be seen now reconcile sees later
	}
	return r.sole(ctx, spec, living(found))
}

// sole keeps one launch of a cluster where an endpoint that honours no tokens ran several: the first, which is the same
// one whoever looks.
func (r *region) sole(ctx context.Context, spec cloud.LaunchSpec, live []types.Instance) ([]cloud.Machine, error) {
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

// maxTagged is how many machines of a cluster are tagged one by one: a launch does not wait for a thousand calls.
const maxTagged = 64

// rank tags each machine of several with its rank, for people: the launch index is what counts. A single one has its
// tag from the launch.
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
		return nil // there never was one
	}
	if err := c.terminateCluster(ctx, cluster); err != nil {
		return Typed(err)
	}
	return nil
}

func (c *Cloud) terminateCluster(ctx context.Context, cluster string) error {
	release, err := driver.End(ctx, c.graves, &c.locks, cluster)
	if err != nil {
		return err
	}
	defer release()
	if home := c.home(cluster); home != "" {
		if err := c.client(home).end(ctx, cluster); err != nil {
			return err
		}
		c.settled(cluster, "")
		return nil
	}
	names, err := c.usable(ctx)
	if err != nil {
		return err
	}
	// A cluster is in one region. Where it was found, it does not matter what others did not answer.
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

// terminateTries is for machines that one part of EC2 lists and another does not know yet.
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
