package gcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	compute "google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"

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
	if err := c.alive(ctx, spec.Cluster); err != nil {
		return nil, err
	}
	// An earlier call may have bought them, and its answer been lost.
	found, err := c.find(ctx, spec.Offer.Zone, spec.Cluster)
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
	c.settle(spec.Cluster, home{zone: spec.Offer.Zone, done: true})
	// It may have been terminated meanwhile.
	if err := c.alive(ctx, spec.Cluster); err != nil {
		return nil, errors.Join(err, c.sweep(context.WithoutCancel(ctx), spec.Offer.Zone, spec.Cluster))
	}
	return machines, nil
}

// maxAttempts bounds how often one cluster is bought in vain.
const maxAttempts = 8

// buy has Google make the machines, or finds that it is at it, or that it has done so. Operations that failed before in
// a way that is to be tried again are passed over.
func (c *Cloud) buy(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	in, err := c.request(ctx, spec)
	if err != nil {
		return nil, err
	}
	c.settle(spec.Cluster, home{zone: spec.Offer.Zone})
	for attempt := range maxAttempts {
		op, err := c.insert(ctx, spec, in, c.requestID(spec.Cluster, attempt))
		if isThere(err) { // by a request that Google has forgotten
			return c.collect(ctx, spec)
		}
		if err != nil {
			c.facts.doubt(Typed(err))
			return nil, err
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
		why := failure(op, others)
		kind := cloud.KindOf(why)
		if earlier && (kind == cloud.Transient || kind == cloud.Throttled) {
			continue
		}
		// Google has undone what it had made; what it has left is not for anybody.
		return nil, errors.Join(why, c.sweep(context.WithoutCancel(ctx), spec.Offer.Zone, spec.Cluster))
	}
	return nil, fail(cloud.Capacity, codeLost, "cluster %s has failed %d times", spec.Cluster, maxAttempts)
}

// Pauses between questions for what Google has not answered.
const (
	insertTries = 3
	pauseFor    = 250 * time.Millisecond
	waitPause   = time.Second
)

// insert asks for the machines. Where nobody says what became of it, the same is asked again: the same id is the same
// operation.
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

// wait returns an operation when it is over.
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
			return nil, fail(cloud.Transient, codeSlow, "operation %s in %s is not over yet", op.Name, zone)
		case err != nil && !unknown(err):
			return nil, err
		case err == nil:
			op = next
		}
		if op.Status != "DONE" {
			if err := clock.Pause(ctx, waitPause); err != nil {
				return nil, fail(cloud.Transient, codeSlow, "operation %s in %s is not over yet", op.Name, zone)
			}
		}
	}
	return op, nil
}

// group lists the operations of the single machines of one that failed without saying why.
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
	out, err := s.ZoneOperations.List(c.cfg.Project, zone).Filter(fmt.Sprintf("operationGroupId=%q", op.OperationGroupId)).
		MaxResults(maxPage).Context(ctx).Do()
	if err != nil {
		return nil, err
	}
	return out.Items, nil
}

// collect returns the machines of a cluster that was bought. Those that a list lacks are asked for by name, which is
// exact. A cluster that is not whole any more is ended.
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
			Fields(googleapi.Field(instanceFields[1 : len(instanceFields)-1])).Context(call).Do()
		cancel()
		if isGone(err) {
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

// sweep deletes all that a cluster has in a zone, or in all.
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
		return nil // there never was one
	}
	if err := c.terminate(ctx, cluster); err != nil {
		return Typed(err)
	}
	return nil
}

func (c *Cloud) terminate(ctx context.Context, cluster string) error {
	if err := c.graves.Bury(ctx, cluster); err != nil {
		return fmt.Errorf("terminate %s: %w", cluster, err)
	}
	release, err := c.locks.Take(ctx, cluster)
	if err != nil {
		return err
	}
	defer release()
	at := c.home(cluster)
	if !at.done { // somebody may be buying it
		if err := c.settled(ctx, at.zone, cluster); err != nil {
			return err
		}
	}
	if err := c.sweep(ctx, at.zone, cluster); err != nil {
		return err
	}
	c.settle(cluster, home{})
	return nil
}

// settled waits for the operations that are buying a cluster, in a zone or in all, whoever began them: what they make
// after a look around would stay.
func (c *Cloud) settled(ctx context.Context, zone, cluster string) error {
	ids := map[string]bool{}
	for attempt := range maxAttempts {
		ids[c.requestID(cluster, attempt)] = true
	}
	open, err := c.buying(ctx, zone)
	if err != nil {
		return err
	}
	for _, op := range open {
		if ids[op.ClientOperationId] {
			if _, err := c.wait(ctx, lastPart(op.Zone), op); err != nil {
				return err
			}
		}
	}
	return nil
}

const operationFields = "(name,zone,status,clientOperationId,operationType)"

// buying lists the operations that make machines and are not over.
func (c *Cloud) buying(ctx context.Context, zone string) ([]*compute.Operation, error) {
	s, err := c.Compute(ctx)
	if err != nil {
		return nil, err
	}
	const open = `(operationType="bulkInsert") AND (status!="DONE")`
	var found []*compute.Operation
	for token := ""; ; {
		call, cancel := context.WithTimeout(ctx, readWithin)
		if zone != "" {
			out, err := s.ZoneOperations.List(c.cfg.Project, zone).Filter(open).PageToken(token).
				Fields("nextPageToken", "items"+operationFields).Context(call).Do()
			cancel()
			if err != nil {
				return nil, err
			}
			found, token = append(found, out.Items...), out.NextPageToken
		} else {
			out, err := s.GlobalOperations.AggregatedList(c.cfg.Project).Filter(open).PageToken(token).
				Fields("nextPageToken", "items/*/operations"+operationFields).Context(call).Do()
			cancel()
			if err != nil {
				return nil, err
			}
			for scope, part := range out.Items {
				if strings.HasPrefix(scope, "zones/") {
					found = append(found, part.Operations...)
				}
			}
			token = out.NextPageToken
		}
		if token == "" {
			return found, nil
		}
	}
}
