package azure

import (
	"context"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armresources/v3"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
)

// Types of resources other than machines, and the versions of their APIs. Networks are written by the generic
// resources API, because the network SDK alone is as large as all the rest.
const (
	typeNetwork   = "Microsoft.Network/virtualNetworks"
	typeFilter    = "Microsoft.Network/networkSecurityGroups"
	typeInterface = "Microsoft.Network/networkInterfaces"
	typeAddress   = "Microsoft.Network/publicIPAddresses"
	typeDisk      = "Microsoft.Compute/disks"

	networkVersion = "2024-05-01"
	diskVersion    = "2024-03-02"
)

// addresses is the address range of a region's network. Networks of regions are not connected, so all can have the
// same range.
const addresses = "10.128.0.0/16"

// Network returns the resources of a region's network: a security group without rules, which admits no inbound
// traffic from outside, and a network with one subnet that uses it. If outbound is true, machines without a public
// address reach the internet by Azure's default outbound access, which new networks have only if they ask for it.
func Network(region, filterID string, tags map[string]*string, outbound bool) (
	filter, network armresources.GenericResource) {
	filter = armresources.GenericResource{
		Location:   &region,
		Tags:       tags,
		Properties: map[string]any{"securityRules": []any{}},
	}
	network = armresources.GenericResource{Location: &region, Tags: tags, Properties: map[string]any{
		"addressSpace": map[string]any{"addressPrefixes": []string{addresses}},
		"subnets": []any{map[string]any{"name": subnetName, "properties": map[string]any{
			"addressPrefix": addresses, "networkSecurityGroup": map[string]any{"id": filterID},
			"defaultOutboundAccess": outbound,
		}}},
	}}
	return filter, network
}

const subnetName = "machines"

// subnet returns the ID of the subnet for a region's machines. It creates the network if it is missing.
func (c *Cloud) subnet(ctx context.Context, region string) (string, error) {
	if own := c.cfg.Subnets[region]; own != "" {
		return own, nil
	}
	c.mu.Lock()
	known := c.subnets[region]
	c.mu.Unlock()
	if known != "" {
		return known, nil
	}
	release, err := c.locks.Take(ctx, "network "+region)
	if err != nil {
		return "", err
	}
	defer release()
	name := c.prefix() + "-" + region
	id := c.idOf(typeNetwork, name)
	call, cancel := context.WithTimeout(ctx, readWithin)
	_, err = c.resources.GetByID(call, id, networkVersion, nil)
	cancel()
	if gone(err) {
		tags := map[string]*string{tagDeployment: &c.cfg.Deployment}
		for k, v := range c.cfg.Tags {
			tags[k] = to.Ptr(v)
		}
		filterID := c.idOf(typeFilter, name)
		filter, network := Network(region, filterID, tags, c.cfg.NoPublicAddress)
		if err = c.put(ctx, filterID, filter); err == nil {
			err = c.put(ctx, id, network)
		}
	}
	if err != nil {
		return "", err
	}
	id += "/subnets/" + subnetName
	c.mu.Lock()
	c.subnets[region] = id
	c.mu.Unlock()
	return id, nil
}

// doubt forgets a region's network if an error shows that it was removed.
func (c *Cloud) doubt(region string, err error) {
	if isCode(err, 0, "InvalidResourceReference") || isCode(err, 0, "ParentResourceNotFound") {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.subnets, region)
	}
}

// put creates a resource and waits until it exists.
func (c *Cloud) put(ctx context.Context, id string, body armresources.GenericResource) error {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	poller, err := c.resources.BeginCreateOrUpdateByID(ctx, id, networkVersion, body, nil)
	if err != nil {
		return err
	}
	return done(ctx, poller, c)
}

// done waits for an operation.
func done[T any](ctx context.Context, poller *runtime.Poller[T], c *Cloud) error {
	for !poller.Done() {
		if err := clock.Pause(ctx, c.pause/4); err != nil {
			return err
		}
		if _, err := poller.Poll(ctx); err != nil {
			return err
		}
	}
	_, err := poller.Result(ctx)
	if isCode(err, http.StatusNotFound, "") { // deleted, so its state cannot be read
		return nil
	}
	return err
}
