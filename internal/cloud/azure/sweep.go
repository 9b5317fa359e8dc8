package azure

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armresources/v3"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
)

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
	names, err := c.named(ctx, cluster)
	if err != nil {
		if missingGroup(err) {
			return nil // everything in it is gone as well
		}
		return err
	}
	if err := driver.Each(len(names), maxAtOnce, func(i int) error { return c.remove(ctx, names[i]) }); err != nil {
		return err
	}
	c.rememberWhole(cluster, false)
	part := c.base(cluster)
	if c.due() {
		part = c.prefix()
	}
	if _, err := c.sweep(ctx, part); err != nil { // leftovers cost little, and the next sweep removes them
		c.log.Warn("leftovers not removed yet", "cluster", cluster, "err", Typed(err))
	}
	return nil
}

// named returns the names of a cluster's machines. The first machine has the number of machines, so the names include
// machines that are not listed yet. If the first machine does not exist, named uses the list.
func (c *Cloud) named(ctx context.Context, cluster string) ([]string, error) {
	first, err := c.get(ctx, c.nameOf(cluster, 0))
	if err != nil {
		return nil, err
	}
	if first != nil {
		nodes, err := strconv.Atoi(tag(first, tagNodes))
		if err == nil && nodes > 0 {
			names := make([]string, nodes)
			for rank := range names {
				names[rank] = c.nameOf(cluster, rank)
			}
			return names, nil
		}
	}
	found, err := c.find(ctx, cluster)
	names := make([]string, len(found))
	for i, vm := range found {
		names[i] = text(vm.Name)
	}
	return names, err
}

// sweepEvery is the interval at which a process that terminates clusters or lists all machines sweeps the whole
// deployment.
const sweepEvery = 10 * time.Minute

// due reports whether it is time to sweep the deployment. If so, it records that the caller does it.
func (c *Cloud) due() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now.Sub(c.swept) >= sweepEvery {
		c.swept = now
		return true
	}
	return false
}

// Sweep deletes the interfaces, addresses and disks of the deployment's machines that no longer exist, and returns
// the names of the deleted resources. Errors are *cloud.Error.
func (c *Cloud) Sweep(ctx context.Context) ([]string, error) {
	removed, err := c.sweep(ctx, c.prefix())
	if err != nil {
		return removed, Typed(err)
	}
	return removed, nil
}

// Clean implements driver.Cleaner.
func (c *Cloud) Clean(ctx context.Context, tell func(deleted string)) error {
	removed, err := c.Sweep(ctx)
	for _, name := range removed {
		tell(name)
	}
	return err
}

// attached matches the names of a machine's resources: the machine's name with a suffix, to which Azure may add more.
var attached = regexp.MustCompile(`^(tw-[0-9a-f]{8}-[0-9a-f]{20}-[0-9]+)-(nic|ip|os)`)

// sweep deletes the resources whose name contains part and whose machine does not exist.
func (c *Cloud) sweep(ctx context.Context, part string) (removed []string, err error) {
	all, err := c.resourcesContaining(ctx, part)
	if err != nil {
		return nil, err
	}
	machines := map[string]bool{}
	var loose []*armresources.GenericResourceExpanded
	for _, r := range all {
		if strings.EqualFold(text(r.Type), typeMachine) {
			machines[strings.ToLower(text(r.Name))] = true
		} else if version(r) != "" && attached.MatchString(strings.ToLower(text(r.Name))) {
			loose = append(loose, r)
		}
	}
	// An address is deleted after its interface. All other resources are deleted in parallel, because each takes
	// seconds and a task whose machine was refused late waits for all of them.
	var errs []error
	for _, of := range []int{0, 1} {
		now := slices.DeleteFunc(slices.Clone(loose), func(r *armresources.GenericResourceExpanded) bool {
			return order(r) != of || machines[ownerOf(r)]
		})
		gone := make([]string, len(now))
		errs = append(errs, driver.Each(len(now), maxAtOnce, func(i int) (err error) {
			gone[i], err = c.discard(ctx, now[i])
			return err
		}))
		removed = append(removed, gone...)
	}
	return slices.DeleteFunc(removed, func(name string) bool { return name == "" }), errors.Join(errs...)
}

// ownerOf returns the name of the machine to which a resource belongs.
func ownerOf(r *armresources.GenericResourceExpanded) string {
	return attached.FindStringSubmatch(strings.ToLower(text(r.Name)))[1]
}

// discard deletes a leftover, unless its machine exists after all because the list was old. It returns the name if it
// deleted the resource.
func (c *Cloud) discard(ctx context.Context, r *armresources.GenericResourceExpanded) (string, error) {
	if vm, err := c.get(ctx, ownerOf(r)); err != nil || vm != nil {
		return "", err
	}
	if err := c.drop(ctx, r); err != nil {
		return "", fmt.Errorf("%s: %w", text(r.Name), err)
	}
	return text(r.Name), nil
}

const typeMachine = "Microsoft.Compute/virtualMachines"

// resourcesContaining lists all resources whose names contain part.
func (c *Cloud) resourcesContaining(ctx context.Context, part string) ([]*armresources.GenericResourceExpanded, error) {
	filter := "substringof('" + part + "', name)"
	var all []*armresources.GenericResourceExpanded
	pages := c.resources.NewListByResourceGroupPager(c.cfg.ResourceGroup,
		&armresources.ClientListByResourceGroupOptions{Filter: &filter})
	for pages.More() {
		call, cancel := context.WithTimeout(ctx, readWithin)
		page, err := pages.NextPage(call)
		cancel()
		if err != nil {
			return nil, err
		}
		all = append(all, page.Value...)
	}
	return all, nil
}

// drop deletes a resource and waits until the deletion has ended.
func (c *Cloud) drop(ctx context.Context, r *armresources.GenericResourceExpanded) error {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	poller, err := c.resources.BeginDeleteByID(ctx, text(r.ID), version(r), nil)
	if err != nil {
		return err
	}
	return done(ctx, poller, c)
}

// version returns the API version with which to delete a resource; empty if the resource does not belong to a
// machine.
func version(r *armresources.GenericResourceExpanded) string {
	switch kind := text(r.Type); {
	case strings.EqualFold(kind, typeInterface), strings.EqualFold(kind, typeAddress):
		return networkVersion
	case strings.EqualFold(kind, typeDisk):
		return diskVersion
	}
	return ""
}

func order(r *armresources.GenericResourceExpanded) int {
	if strings.EqualFold(text(r.Type), typeInterface) {
		return 0
	}
	return 1
}
