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

	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
)

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
	release, err := driver.End(ctx, c.graves, &c.locks, cluster)
	if err != nil {
		return err
	}
	defer release()
	names, err := c.named(ctx, cluster)
	if err != nil {
		if missingGroup(err) {
			return nil // with all that was in it
		}
		return err
	}
	if err := driver.Each(len(names), maxAtOnce, func(i int) error { return c.remove(ctx, names[i]) }); err != nil {
		return err
	}
	c.note(cluster, false)
	part := c.base(cluster)
	if c.due() {
		part = c.prefix()
	}
	if _, err := c.sweep(ctx, part); err != nil { // it costs little, and goes the next time
		c.log.Warn("leftovers stay for now", "cluster", cluster, "err", err)
	}
	return nil
}

// named are the names of a cluster's machines. The first says how many there are, so that those count too which no list
// has yet; where it is gone, lists have to do.
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

// sweepEvery is how often the whole deployment is swept by a process that terminates.
const sweepEvery = 10 * time.Minute

// due says whether the deployment is to be swept, and takes that on.
func (c *Cloud) due() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now.Sub(c.swept) >= sweepEvery {
		c.swept = now
		return true
	}
	return false
}

// Sweep deletes the interfaces, addresses and disks of the deployment's machines that are not there any more, and
// returns what it deleted. Errors are *cloud.Error.
func (c *Cloud) Sweep(ctx context.Context) ([]string, error) {
	removed, err := c.sweep(ctx, c.prefix())
	if err != nil {
		return removed, Typed(err)
	}
	return removed, nil
}

// what comes with a machine is named after it, with more after that where Azure adds to the name.
var attached = regexp.MustCompile(`^(tw-[0-9a-f]{8}-[0-9a-f]{20}-[0-9]+)-(nic|ip|os)`)

// sweep deletes what has a name with part in it and no machine.
func (c *Cloud) sweep(ctx context.Context, part string) (removed []string, err error) {
	all, err := c.resembling(ctx, part)
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
	// An address goes after the interface that holds it; else all at once, as each takes seconds and a task whose
	// machine was refused late waits for them.
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

// ownerOf is the machine that something came with.
func ownerOf(r *armresources.GenericResourceExpanded) string {
	return attached.FindStringSubmatch(strings.ToLower(text(r.Name)))[1]
}

// discard deletes what a machine has left, unless the list was older than the machine. It returns its name where it
// was deleted.
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

// resembling lists whatever has part in its name.
func (c *Cloud) resembling(ctx context.Context, part string) ([]*armresources.GenericResourceExpanded, error) {
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

// drop deletes a resource and waits until it is gone.
func (c *Cloud) drop(ctx context.Context, r *armresources.GenericResourceExpanded) error {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	poller, err := c.resources.BeginDeleteByID(ctx, text(r.ID), version(r), nil)
	if err != nil {
		return err
	}
	return done(ctx, poller, c)
}

// version is of the API that deletes a resource, empty for what does not come with machines.
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
