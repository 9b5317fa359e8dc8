package azure

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// States of a machine's provisioning.
const (
	stateSucceeded = "Succeeded"
	stateFailed    = "Failed"
	stateDeleting  = "Deleting"
)

// reasonExited is the reason for a machine that has shut itself down.
const reasonExited = "exited"

// Machines implements cloud.Cloud. One list covers all regions, because the deployment's machines are in one group.
// Listing the whole deployment also deletes machines that have shut themselves down, because Azure keeps and bills
// them.
func (c *Cloud) Machines(ctx context.Context, cluster string) ([]cloud.Machine, error) {
	if cluster != "" && !driver.ValidCluster(cluster) {
		return nil, ctx.Err()
	}
	found, err := c.list(ctx, cluster)
	if err != nil {
		return nil, Typed(err)
	}
	out := make([]cloud.Machine, 0, len(found))
	for _, vm := range found {
		m := c.describe(vm)
		if cluster == "" && stopped(vm) && text(vm.Properties.ProvisioningState) != stateDeleting {
			if err := c.remove(ctx, text(vm.Name)); err != nil {
				c.log.Warn("cannot delete a machine that has shut down", "machine", m.ID, "err", err)
			} else {
				m.State = cloud.Terminated
			}
		}
		out = append(out, m)
	}
	if cluster == "" && c.due() { // remove what machines have left that ended after Terminate had returned
		if _, err := c.sweep(ctx, c.prefix()); err != nil {
			c.log.Warn("leftovers not removed yet", "err", Typed(err))
		}
	}
	slices.SortFunc(out, func(a, b cloud.Machine) int {
		if d := strings.Compare(a.Cluster, b.Cluster); d != 0 {
			return d
		}
		return a.Rank - b.Rank
	})
	return out, nil
}

// list returns the machines of a cluster, or of the whole deployment, with their instance views.
func (c *Cloud) list(ctx context.Context, cluster string) ([]*armcompute.VirtualMachine, error) {
	found, err := c.find(ctx, cluster)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	if cluster != "" {
		return found, driver.Each(len(found), maxAtOnce, func(i int) error {
			now, err := c.get(ctx, text(found[i].Name))
			if now != nil {
				found[i].Properties = now.Properties
			}
			return err
		})
	}
	views, err := c.views(ctx)
	if cloud.KindOf(Typed(err)) == cloud.Auth && err != nil {
		c.log.Warn(
			"power states cannot be read without Microsoft.Compute/virtualMachines/read in the subscription",
			"err",
			err,
		)
		return found, nil
	}
	for _, vm := range found {
		if view := views[strings.ToLower(text(vm.ID))]; view != nil {
			vm.Properties.InstanceView = view
		}
	}
	return found, err
}

// find lists the machines of a cluster, or of the whole deployment, in any state.
func (c *Cloud) find(ctx context.Context, cluster string) ([]*armcompute.VirtualMachine, error) {
	var found []*armcompute.VirtualMachine
	pages := c.machines.NewListPager(c.cfg.ResourceGroup, nil)
	for pages.More() {
		call, cancel := context.WithTimeout(ctx, readWithin)
		page, err := pages.NextPage(call)
		cancel()
		if err != nil {
			return nil, err
		}
		for _, vm := range page.Value {
			mine := vm != nil && vm.Properties != nil && tag(vm, tagDeployment) == c.cfg.Deployment &&
				tag(vm, tagCluster) != ""
			if mine && (cluster == "" || tag(vm, tagCluster) == cluster) {
				found = append(found, vm)
			}
		}
	}
	return found, nil
}

// views returns the instance views of the subscription's machines by lower-case ID. A group's list does not contain
// them.
func (c *Cloud) views(ctx context.Context) (map[string]*armcompute.VirtualMachineInstanceView, error) {
	views := map[string]*armcompute.VirtualMachineInstanceView{}
	pages := c.machines.NewListAllPager(&armcompute.VirtualMachinesClientListAllOptions{StatusOnly: to.Ptr("true")})
	for pages.More() {
		call, cancel := context.WithTimeout(ctx, readWithin)
		page, err := pages.NextPage(call)
		cancel()
		if err != nil {
			return nil, err
		}
		for _, vm := range page.Value {
			if vm != nil && vm.Properties != nil {
				views[strings.ToLower(text(vm.ID))] = vm.Properties.InstanceView
			}
		}
	}
	return views, nil
}

// describe converts a machine to cloud.Machine. Its ID is the ID in attested documents.
func (c *Cloud) describe(vm *armcompute.VirtualMachine) cloud.Machine {
	p := vm.Properties
	m := cloud.Machine{
		ID: strings.ToLower(text(p.VMID)), Cluster: tag(vm, tagCluster),
		Account: strings.ToLower(c.cfg.Subscription), State: state(vm),
		Offer: apitypes.Offer{Cloud: Name, Region: text(vm.Location), Zone: tag(vm, tagZone)},
	}
	m.Rank, _ = strconv.Atoi(tag(vm, tagRank))
	if p.TimeCreated != nil {
		m.Launched = *p.TimeCreated
	}
	if p.HardwareProfile != nil {
		m.Offer.InstanceType = text(p.HardwareProfile.VMSize)
	}
	m.Offer.Spot = text(p.Priority) == string(armcompute.VirtualMachinePriorityTypesSpot)
	m.Offer.USDPerHour, _ = strconv.ParseFloat(tag(vm, tagUSD), 64)
	accelerator, count, _ := strings.Cut(tag(vm, tagAccel), ":")
	m.Offer.Accelerator = accelerator
	m.Offer.AccelCount, _ = strconv.ParseFloat(count, 64)
	if m.State == cloud.Terminating {
		switch code, _ := failed(vm); {
		case stopped(vm):
			m.Reason = reasonExited
		default:
			m.Reason = code
		}
	}
	return m
}

// state returns a machine's state. A machine that failed or has shut down is useless but must still be deleted.
func state(vm *armcompute.VirtualMachine) cloud.State {
	switch text(vm.Properties.ProvisioningState) {
	case stateDeleting, stateFailed:
		return cloud.Terminating
	case stateSucceeded:
		if stopped(vm) {
			return cloud.Terminating
		}
		return cloud.Running
	}
	if powered(vm) {
		return cloud.Running
	}
	return cloud.Pending
}

// statuses yields the platform's status codes of a machine: ProvisioningState/succeeded, PowerState/running.
func statuses(vm *armcompute.VirtualMachine, yield func(code, message string)) {
	if vm.Properties == nil || vm.Properties.InstanceView == nil {
		return
	}
	for _, s := range vm.Properties.InstanceView.Statuses {
		if s != nil {
			yield(text(s.Code), text(s.Message))
		}
	}
}

func power(vm *armcompute.VirtualMachine) (state string) {
	statuses(vm, func(code, _ string) {
		if after, ok := strings.CutPrefix(code, "PowerState/"); ok {
			state = after
		}
	})
	return state
}

func powered(vm *armcompute.VirtualMachine) bool { return power(vm) == "running" }

// stopped reports whether a machine has shut itself down or was shut down by someone.
func stopped(vm *armcompute.VirtualMachine) bool {
	if text(vm.Properties.ProvisioningState) != stateSucceeded {
		return false
	}
	switch power(vm) {
	case "stopped", "stopping", "deallocated", "deallocating":
		return true
	}
	return false
}

// failed returns why the creation of a machine failed.
func failed(vm *armcompute.VirtualMachine) (code, message string) {
	statuses(vm, func(status, text string) {
		if after, ok := strings.CutPrefix(status, "ProvisioningState/failed/"); ok {
			code, message = after, text
		}
	})
	return code, message
}

// failureOf returns the error for a machine whose creation failed, from the machine's statuses.
func failureOf(vm *armcompute.VirtualMachine) error {
	code, message := failed(vm)
	if code == "" {
		return fail(cloud.Transient, "ProvisioningFailed", "machine %s was not created, and Azure gives no reason",
			text(vm.Name))
	}
	kind, ok := kindOf(code, message)
	if !ok {
		kind = cloud.Transient
	}
	if message == "" {
		message = fmt.Sprintf("machine %s was not created", text(vm.Name))
	}
	return fail(kind, code, "%.1000s", message)
}

// tag returns the value of a machine's tag; the case of tag names differs between calls.
func tag(vm *armcompute.VirtualMachine, key string) string {
	if v, ok := vm.Tags[key]; ok {
		return text(v)
	}
	for k, v := range vm.Tags {
		if strings.EqualFold(k, key) {
			return text(v)
		}
	}
	return ""
}
