package gcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	compute "google.golang.org/api/compute/v1"

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
	slices.SortFunc(machines, byRank)
	return machines, nil
}

func (c *Cloud) launch(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	if err := driver.Check(Name, spec); err != nil {
		return nil, err
	}
	if err := c.serves(spec.Offer); err != nil {
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
	if isTPU(spec.Offer) {
		return c.launchTPU(ctx, spec)
	}
	// An earlier call may have bought them and lost the answer.
	found, err := c.find(ctx, spec.Offer.Zone, spec.Cluster)
	if err != nil && cloud.KindOf(Typed(err)) == cloud.Invalid { // the zone does not exist
		return nil, fail(cloud.Quota, codeNoRegion, "%v", Typed(err))
	}
	if err != nil {
		return nil, err
	}
	if running := keep(found, up); len(running) == spec.Nodes {
		return c.machines(running), nil
	}
	machines, err := c.buy(ctx, spec)
	if err != nil {
		return nil, err
	}
	c.setHome(spec.Cluster, home{zone: spec.Offer.Zone, done: true})
	// It may have been terminated in the meantime.
	if err := driver.CheckNotTerminated(ctx, Name, c.graves, spec.Cluster); err != nil {
		return nil, errors.Join(err, c.sweep(context.WithoutCancel(ctx), spec.Offer.Zone, spec.Cluster))
	}
	return machines, nil
}

// maxAttempts is the maximum number of failed operations for one cluster.
const maxAttempts = 8

// buy makes the machines with a new operation, or waits for the operation of an earlier call. It skips earlier
// operations that failed with a temporary error.
func (c *Cloud) buy(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	in, err := c.request(ctx, spec)
	if err != nil {
		return nil, err
	}
	c.setHome(spec.Cluster, home{zone: spec.Offer.Zone})
	for attempt := range maxAttempts {
		op, err := c.insert(ctx, spec, in, c.requestID(spec.Cluster, attempt))
		if alreadyExists(err) { // made by a request that Google has forgotten
			return c.collect(ctx, spec)
		}
		if err != nil {
			c.facts.doubt(Typed(err))
			if notFound(err) { // a network, or an account: not the task's fault
				return nil, cloud.OfRegion(fail(cloud.Quota, "notFound", "%s", message(err)))
			}
			return nil, ofQuota(spec, ofImage(spec, err))
		}
		earlier := op.Status == "DONE"
		if op, err = c.wait(ctx, spec.Offer.Zone, op); err != nil {
			return nil, err
		}
		if op.Error == nil {
			return c.collect(ctx, spec)
		}
		others, err := c.group(ctx, spec.Offer.Zone, op)
		if err != nil {
			return nil, err
		}
		why := ofQuota(spec, ofImage(spec, failure(op, others)))
		kind := cloud.KindOf(why)
		if earlier && (kind == cloud.Transient || kind == cloud.Throttled) {
			continue
		}
		// Google has removed the machines that it made. sweep ends any that remain.
		why = driver.WithMade(why, made(op, spec.Nodes))
		return nil, errors.Join(why, c.sweep(context.WithoutCancel(ctx), spec.Offer.Zone, spec.Cluster))
	}
	return nil, fail(cloud.Capacity, codeLost, "cluster %s has failed %d times", spec.Cluster, maxAttempts)
}

// made returns the number of machines that a failed operation had made, including those that Google has removed
// since.
func made(op *compute.Operation, nodes int) (n int) {
	if op.InstancesBulkInsertOperationMetadata == nil {
		return 0
	}
	for _, at := range op.InstancesBulkInsertOperationMetadata.PerLocationStatus {
		n += int(max(at.CreatedVmCount, at.DeletedVmCount))
	}
	return min(n, nodes)
}

// Pauses before retrying calls without a definite answer.
const (
	insertTries = 3
	pauseFor    = 250 * time.Millisecond
	waitPause   = time.Second
)

// insert requests the machines. If the outcome is unknown, it retries with the same ID, for which Google returns the
// same operation.
func (c *Cloud) insert(ctx context.Context, spec cloud.LaunchSpec, in *compute.BulkInsertInstanceResource,
	id string) (*compute.Operation, error) {
	s, err := c.Compute(ctx)
	if err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		call, cancel := context.WithTimeout(ctx, insertWithin)
		op, err := s.Instances.BulkInsert(c.cfg.Project, spec.Offer.Zone, in).RequestId(id).Context(call).Do()
		cancel()
		if err == nil || !unknown(err) || n == insertTries || ctx.Err() != nil {
			return op, err
		}
		if err := clock.Pause(ctx, pauseFor<<n); err != nil {
			return nil, err
		}
	}
}

// wait returns an operation once it has finished.
func (c *Cloud) wait(ctx context.Context, zone string, op *compute.Operation) (*compute.Operation, error) {
	s, err := c.Compute(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, waitWithin)
	defer cancel()
	for op.Status != "DONE" {
		next, err := s.ZoneOperations.Wait(c.cfg.Project, zone, op.Name).Context(ctx).Do()
		switch {
		case ctx.Err() != nil:
			return nil, fail(cloud.Transient, codeSlow, "operation %s in %s has not finished yet", op.Name, zone)
		case err != nil && !unknown(err):
			return nil, err
		case err == nil:
			op = next
		}
		if op.Status != "DONE" {
			if err := clock.Pause(ctx, waitPause); err != nil {
				return nil, fail(cloud.Transient, codeSlow, "operation %s in %s has not finished yet", op.Name, zone)
			}
		}
	}
	return op, nil
}

// group lists the operations of the single machines of an operation that failed without a cause.
func (c *Cloud) group(ctx context.Context, zone string, op *compute.Operation) ([]*compute.Operation, error) {
	if op.OperationGroupId == "" || !slices.ContainsFunc(op.Error.Errors, func(e *compute.OperationErrorErrors) bool {
		return e.Code == "VM_MIN_COUNT_NOT_REACHED"
	}) {
		return nil, nil
	}
	s, err := c.Compute(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	return zoneOperations(ctx, s.ZoneOperations.List(c.cfg.Project, zone).
		Filter(fmt.Sprintf("operationGroupId=%q", op.OperationGroupId)).MaxResults(maxPage))
}

// zoneOperations reads all pages of a list: pages of a filtered list may be short or empty before the end.
func zoneOperations(ctx context.Context, list *compute.ZoneOperationsListCall) (all []*compute.Operation, err error) {
	err = list.Pages(ctx, func(page *compute.OperationList) error {
		all = append(all, page.Items...)
		return nil
	})
	return all, err
}

// collect returns the machines of a bought cluster. It gets machines that are missing in the list by name, which is
// exact. It ends a cluster that is no longer whole.
func (c *Cloud) collect(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	found, err := c.find(ctx, spec.Offer.Zone, spec.Cluster)
	if err != nil {
		return nil, err
	}
	s, err := c.Compute(ctx)
	if err != nil {
		return nil, err
	}
	listed := map[string]bool{}
	for _, i := range found {
		listed[i.Name] = true
	}
	for rank := range spec.Nodes {
		name := c.machineName(spec.Cluster, rank)
		if listed[name] {
			continue
		}
		call, cancel := context.WithTimeout(ctx, readWithin)
		i, err := s.Instances.Get(c.cfg.Project, spec.Offer.Zone, name).
			Fields(oneInstance).Context(call).Do()
		cancel()
		if notFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, i)
	}
	if live := keep(found, usable); len(live) == spec.Nodes {
		return c.machines(live), nil
	}
	return nil, errors.Join(fail(cloud.Capacity, codeLost, "cluster %s has %d machines of %d: the others have ended",
		spec.Cluster, len(keep(found, usable)), spec.Nodes), c.remove(context.WithoutCancel(ctx), found))
}

func keep(all []*compute.Instance, want func(*compute.Instance) bool) []*compute.Instance {
	return slices.DeleteFunc(slices.Clone(all), func(i *compute.Instance) bool { return !want(i) })
}

// sweep deletes all machines of a cluster in a zone, or in all zones if zone is empty.
func (c *Cloud) sweep(ctx context.Context, zone, cluster string) error {
	found, err := c.find(ctx, zone, cluster)
	if err != nil {
		return err
	}
	return c.remove(ctx, found)
}

// Terminate implements cloud.Cloud.
func (c *Cloud) Terminate(ctx context.Context, cluster string) error {
	if !driver.ValidCluster(cluster) {
		return nil // no cluster can have this name
	}
	if err := c.terminate(ctx, cluster); err != nil {
		return Typed(err)
	}
	return nil
}

func (c *Cloud) terminate(ctx context.Context, cluster string) error {
	release, err := driver.BeginTerminate(ctx, c.graves, &c.locks, cluster)
	if err != nil {
		return err
	}
	defer release()
	at := c.home(cluster)
	if err := c.terminateTPUs(ctx, at, cluster); err != nil {
		return err
	}
	if at.tpu {
		c.setHome(cluster, home{})
		return nil
	}
	found, err := c.find(ctx, at.zone, cluster)
	if err != nil &&
		len(found) == 0 { // a cluster is in one zone: once it is found, errors of other zones do not matter
		return err
	}
	if !at.done && !complete(found) { // another process may be buying it, or the list lags
		bought, err := c.bought(ctx, at.zone, cluster)
		if err != nil {
			return err
		}
		listed := map[string]bool{}
		for _, i := range found {
			listed[i.Name] = true
		}
		for _, i := range bought {
			if !listed[i.Name] {
				found = append(found, i)
			}
		}
	}
	if err := c.remove(ctx, found); err != nil {
		return err
	}
	c.setHome(cluster, home{})
	return nil
}

// complete reports whether these are all the machines with which the cluster was launched.
func complete(found []*compute.Instance) bool {
	return len(found) > 0 && len(found) == parseDescription(found[0].Description).Nodes
}

// bought returns the names of the machines that operations of any process made for a cluster, in a zone or in all
// zones. It waits for unfinished operations, because machines that they make later would be missed.
func (c *Cloud) bought(ctx context.Context, zone, cluster string) ([]*compute.Instance, error) {
	var made []*compute.Instance
	for attempt := range maxAttempts {
		ops, err := c.operations(ctx, zone, c.requestID(cluster, attempt))
		if err != nil || len(ops) == 0 {
			return made, err
		}
		for _, op := range ops {
			if op, err = c.wait(ctx, lastPart(op.Zone), op); err != nil {
				return nil, err
			}
			for rank := range targets(op) {
				made = append(made, &compute.Instance{Name: c.machineName(cluster, rank), Zone: op.Zone})
			}
		}
	}
	return made, nil
}

// targets returns how many machines an operation was to make.
func targets(op *compute.Operation) (n int) {
	if m := op.InstancesBulkInsertOperationMetadata; m != nil {
		for _, s := range m.PerLocationStatus {
			n += int(s.TargetVmCount)
		}
	}
	return n
}

// operations lists the operations with a request ID.
func (c *Cloud) operations(ctx context.Context, zone, id string) ([]*compute.Operation, error) {
	s, err := c.Compute(ctx)
	if err != nil {
		return nil, err
	}
	want := fmt.Sprintf("clientOperationId=%q", id)
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	if zone != "" {
		return zoneOperations(ctx, s.ZoneOperations.List(c.cfg.Project, zone).Filter(want))
	}
	var found []*compute.Operation
	err = s.GlobalOperations.AggregatedList(c.cfg.Project).Filter(want).Pages(ctx,
		func(page *compute.OperationAggregatedList) error {
			for _, part := range page.Items {
				found = append(found, part.Operations...)
			}
			return nil
		})
	return found, err
}
