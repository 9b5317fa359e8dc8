package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

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
	if !slices.Contains(c.cfg.Regions, spec.Offer.Region) {
		return nil, cloud.OfRegion(fail(cloud.Quota, codeNoRegion,
			"region %q is not among the regions of this deployment: %v", spec.Offer.Region, c.cfg.Regions))
	}
	release, err := c.locks.Take(ctx, spec.Cluster)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := driver.CheckNotTerminated(ctx, Name, c.graves, spec.Cluster); err != nil {
		return nil, err
	}
	bound, cancel := context.WithTimeout(ctx, launchWithin)
	defer cancel()
	found, err := c.look(bound, spec)
	if err != nil {
		return nil, err
	}
	// An earlier call may have made all or some of them.
	if err := c.ended(spec, found); err != nil {
		return nil, errors.Join(err, c.undo(ctx, spec))
	}
	machines, made, err := c.buy(bound, spec, found)
	switch {
	case err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return nil, fail(cloud.Transient, codeSlow, "the machines of cluster %s are still being made after %v",
			spec.Cluster, launchWithin)
	case err != nil && canContinue(err): // the next launch finds the machines that exist
		return nil, err
	case err != nil:
		return nil, errors.Join(driver.WithMade(ofQuota(spec, ofImage(spec, Typed(err))), made), c.undo(ctx, spec))
	}
	if err := driver.CheckNotTerminated(ctx, Name, c.graves, spec.Cluster); err != nil { // terminated during the launch
		return nil, errors.Join(err, c.undo(ctx, spec))
	}
	c.rememberWhole(spec.Cluster, true)
	return machines, nil
}

// broken is the error of a machine that was created and failed.
type broken struct{ error }

func (b broken) Unwrap() error { return b.error }

// canContinue reports whether a launch that failed with err can be repeated with the machines that exist. A broken
// machine prevents that.
func canContinue(err error) bool {
	var b broken
	if errors.As(err, &b) {
		return false
	}
	switch cloud.KindOf(Typed(err)) {
	case cloud.Transient, cloud.Throttled:
		return true
	default:
		return false
	}
}

// look gets every machine of a cluster by its name. A missing machine is nil.
func (c *Cloud) look(ctx context.Context, spec cloud.LaunchSpec) ([]*armcompute.VirtualMachine, error) {
	found := make([]*armcompute.VirtualMachine, spec.Nodes)
	err := driver.Each(spec.Nodes, maxAtOnce, func(rank int) error {
		vm, err := c.get(ctx, c.nameOf(spec.Cluster, rank))
		found[rank] = vm
		return err
	})
	return found, err
}

// get returns a machine with its instance view; nil if it does not exist.
func (c *Cloud) get(ctx context.Context, name string) (*armcompute.VirtualMachine, error) {
	call, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	out, err := c.machines.Get(call, c.cfg.ResourceGroup, name,
		&armcompute.VirtualMachinesClientGetOptions{Expand: to.Ptr(armcompute.InstanceViewTypesInstanceView)})
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &out.VirtualMachine, nil
}

// young is the time after the creation of a cluster's first machine for which the cluster may be incomplete, because
// a process may still be creating it.
const young = 10 * time.Minute

// ended returns an error if the existing machines of a cluster can no longer become the cluster: one has failed, was
// ended, or is missing.
func (c *Cloud) ended(spec cloud.LaunchSpec, found []*armcompute.VirtualMachine) error {
	living, oldest := 0, c.now()
	for _, vm := range found {
		if vm == nil || vm.Properties == nil {
			continue
		}
		switch state := text(vm.Properties.ProvisioningState); {
		case state == stateDeleting:
			return driver.Terminated(Name, spec.Cluster)
		case state == stateFailed:
			return failureOf(vm)
		case stopped(vm):
			return fail(cloud.Capacity, codeLost, "machine %s of cluster %s has shut itself down", text(vm.Name),
				spec.Cluster)
		}
		living++
		if at := vm.Properties.TimeCreated; at != nil && at.Before(oldest) {
			oldest = *at
		}
	}
	whole := c.isWhole(spec.Cluster)
	if living < spec.Nodes && (whole || living > 0 && c.now().Sub(oldest) > young) {
		return fail(
			cloud.Capacity,
			codeLost,
			"%d of %d machines of cluster %s have ended",
			spec.Nodes-living,
			spec.Nodes,
			spec.Cluster,
		)
	}
	return nil
}

// buy creates the missing machines, and waits until all have power. It creates the first machine alone, so that
// nothing has to be undone after an immediate refusal. made is the number of machines that Azure accepted, even if
// they failed later.
func (c *Cloud) buy(ctx context.Context, spec cloud.LaunchSpec,
	found []*armcompute.VirtualMachine) (machines []cloud.Machine, made int, err error) {
	t, err := c.prepare(ctx, spec)
	if err != nil {
		return nil, 0, err
	}
	var taken atomic.Int32
	pending := make([]*making, spec.Nodes)
	begin := func(rank int) (err error) {
		pending[rank] = &making{name: c.nameOf(spec.Cluster, rank)}
		if found[rank] == nil {
			pending[rank].poller, err = c.create(ctx, t, rank)
		}
		if err == nil {
			taken.Add(1)
		}
		return err
	}
	err = begin(0)
	if err != nil && c.learn(spec, err) {
		if t, err = c.prepare(ctx, spec); err == nil {
			err = begin(0)
		}
	}
	if err == nil {
		var refused atomic.Bool // then it is useless to make more
		err = driver.Each(spec.Nodes-1, maxAtOnce, func(i int) error {
			if refused.Load() {
				return nil
			}
			err := begin(i + 1)
			if err != nil && cloud.KindOf(Typed(err)) != cloud.Transient {
				refused.Store(true)
			}
			return err
		})
	}
	if err != nil {
		c.doubt(spec.Offer.Region, err)
		return nil, int(taken.Load()), err
	}
	machines = make([]cloud.Machine, spec.Nodes)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err = driver.Each(spec.Nodes, maxAtOnce, func(rank int) error {
		vm, err := c.await(ctx, pending[rank])
		if err != nil {
			cancel(err) // do not wait for the others
			return err
		}
		machines[rank] = c.describe(vm)
		return nil
	})
	var first broken
	if cause := context.Cause(ctx); errors.As(cause, &first) {
		return nil, spec.Nodes, first
	}
	return machines, spec.Nodes, err
}

// making is a machine in creation. If an earlier call began it, it has no poller.
type making struct {
	name   string
	poller *runtime.Poller[armcompute.VirtualMachinesClientCreateOrUpdateResponse]
}

// create creates a machine unless it exists.
func (c *Cloud) create(ctx context.Context, t *template, rank int) (
	*runtime.Poller[armcompute.VirtualMachinesClientCreateOrUpdateResponse], error) {
	body, err := c.machine(t, rank)
	if err != nil {
		return nil, err
	}
	name := c.nameOf(t.spec.Cluster, rank)
	call, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	poller, err := c.machines.BeginCreateOrUpdate(once(call), c.cfg.ResourceGroup, name, body,
		&armcompute.VirtualMachinesClientBeginCreateOrUpdateOptions{IfNoneMatch: to.Ptr("*")})
	switch {
	case err == nil:
		return poller, nil
	case isCode(err, http.StatusPreconditionFailed, codeExists): // another call was faster
		return nil, nil
	case !unknown(err) || ctx.Err() != nil:
		return nil, err
	}
	// The outcome is unknown.
	if vm, findErr := c.get(ctx, name); findErr != nil || vm == nil {
		return nil, errors.Join(err, findErr)
	}
	return nil, nil
}

// await waits until a machine has power. It fails with broken if the machine fails.
func (c *Cloud) await(ctx context.Context, m *making) (*armcompute.VirtualMachine, error) {
	for {
		if m.poller != nil && !m.poller.Done() {
			if _, err := m.poller.Poll(ctx); err != nil {
				return nil, err
			}
			if m.poller.Done() {
				if _, err := m.poller.Result(ctx); err != nil && !gone(err) {
					return nil, broken{err}
				}
			}
		}
		vm, err := c.get(ctx, m.name)
		switch {
		case err != nil:
			return nil, err
		case vm == nil:
			return nil, broken{fail(cloud.Capacity, codeLost, "machine %s was interrupted before it ran", m.name)}
		case text(vm.Properties.ProvisioningState) == stateFailed:
			return nil, broken{failureOf(vm)}
		case text(vm.Properties.ProvisioningState) == stateDeleting:
			return nil, broken{fail(cloud.Invalid, codeTerminated, "machine %s is being deleted", m.name)}
		case powered(vm) || text(vm.Properties.ProvisioningState) == stateSucceeded:
			return vm, nil
		}
		if err := clock.Pause(ctx, c.pause); err != nil {
			return nil, err
		}
	}
}

// undo deletes the machines of a failed launch, without waiting for the end of the deletion. A sweep removes
// leftovers later.
func (c *Cloud) undo(ctx context.Context, spec cloud.LaunchSpec) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoWithin)
	defer cancel()
	c.rememberWhole(spec.Cluster, false)
	return driver.Each(spec.Nodes, maxAtOnce, func(rank int) error {
		return c.remove(ctx, c.nameOf(spec.Cluster, rank))
	})
}

// remove deletes a machine; a missing one is not an error.
func (c *Cloud) remove(ctx context.Context, name string) error {
	call, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	// A clean shutdown is not needed: when the broker terminates a machine, it already has the machine's results.
	_, err := c.machines.BeginDelete(call, c.cfg.ResourceGroup, name,
		&armcompute.VirtualMachinesClientBeginDeleteOptions{ForceDeletion: to.Ptr(true)})
	if err == nil || isCode(err, http.StatusNotFound, "ResourceNotFound") {
		return nil
	}
	return fmt.Errorf("delete %s: %w", name, err)
}

// isWhole reports whether this process has seen a cluster with all its machines.
func (c *Cloud) isWhole(cluster string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.whole[cluster]
}

// maxWhole is the maximum number of remembered clusters.
const maxWhole = 10_000

func (c *Cloud) rememberWhole(cluster string, whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !whole {
		delete(c.whole, cluster)
		return
	}
	if len(c.whole) >= maxWhole {
		clear(c.whole)
	}
	c.whole[cluster] = true
}

// maxAtOnce is the maximum number of parallel calls.
const maxAtOnce = 16
