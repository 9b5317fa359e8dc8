package gcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	compute "google.golang.org/api/compute/v1"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Machines implements cloud.Cloud. One call lists all zones. If a zone does not answer, Machines fails, because the
// list would be incomplete.
func (c *Cloud) Machines(ctx context.Context, cluster string) ([]cloud.Machine, error) {
	if cluster != "" && !driver.ValidCluster(cluster) {
		return nil, ctx.Err()
	}
	found, err := c.find(ctx, c.home(cluster).zone, cluster)
	if err != nil {
		return nil, Typed(err)
	}
	tpus, err := c.findTPUs(ctx, cluster)
	if err != nil {
		return nil, Typed(err)
	}
	machines := append(c.machines(found), tpus...)
	slices.SortFunc(machines, byRank)
	return machines, nil
}

// Fields of machines that are read. Metadata is never read, because it has the start-up script with the tokens.
const (
	oneInstance    = "id,name,zone,status,description,machineType,creationTimestamp,scheduling/provisioningModel"
	instanceFields = "(" + oneInstance + ")"
)

// maxPage is the largest page that lists return.
const maxPage = 500

func (c *Cloud) pageSize() int64 {
	if c.page > 0 {
		return c.page
	}
	return maxPage
}

// find lists the instances of a cluster in a zone. An empty cluster means the whole deployment, and an empty zone all
// zones.
func (c *Cloud) find(ctx context.Context, zone, cluster string) ([]*compute.Instance, error) {
	s, err := c.Compute(ctx)
	if err != nil {
		return nil, err
	}
	want := fmt.Sprintf("labels.%s=%q", labelDeployment, c.deploymentLabel())
	if cluster != "" {
		want = fmt.Sprintf("labels.%s=%q", labelCluster, c.clusterLabel(cluster))
	}
	var found []*compute.Instance
	var away error
	for token := ""; ; {
		call, cancel := context.WithTimeout(ctx, readWithin)
		var page []*compute.Instance
		if zone != "" {
			page, token, err = c.listZone(call, s, zone, want, token)
		} else {
			page, token, err = c.listAll(call, s, want, token)
		}
		cancel()
		found = append(found, page...)
		if errors.Is(err, errUnreachable) {
			away = err
		} else if err != nil {
			return nil, err
		}
		if token == "" {
			return found, away
		}
	}
}

func (c *Cloud) listZone(ctx context.Context, s *compute.Service, zone, filter, token string) ([]*compute.Instance,
	string, error) {
	out, err := s.Instances.List(c.cfg.Project, zone).Filter(filter).MaxResults(c.pageSize()).PageToken(token).
		Fields("nextPageToken", "items"+instanceFields).Context(ctx).Do()
	if err != nil {
		return nil, "", err
	}
	return out.Items, out.NextPageToken, nil
}

func (c *Cloud) listAll(ctx context.Context, s *compute.Service, filter, token string) ([]*compute.Instance, string,
	error) {
	out, err := s.Instances.AggregatedList(c.cfg.Project).Filter(filter).MaxResults(c.pageSize()).PageToken(token).
		Fields("nextPageToken", "unreachables", "items/*/instances"+instanceFields, "items/*/warning/code").
		Context(ctx).Do()
	if err != nil {
		return nil, "", err
	}
	away := slices.Clone(out.Unreachables)
	var found []*compute.Instance
	for scope, part := range out.Items {
		if part.Warning != nil && part.Warning.Code == "UNREACHABLE" {
			away = append(away, scope)
		}
		found = append(found, part.Instances...)
	}
	if len(away) > 0 {
		err = &cloud.Error{Kind: cloud.Transient, Cloud: Name, Code: "UNREACHABLE", Err: errUnreachable,
			Message: fmt.Sprintf("%v cannot be reached", away)}
	}
	return found, out.NextPageToken, err
}

// errUnreachable means that the result lacks the machines of some zones.
var errUnreachable = errors.New("a zone cannot be reached")

// machines converts instances to cloud.Machine.
func (c *Cloud) machines(found []*compute.Instance) []cloud.Machine {
	out := make([]cloud.Machine, 0, len(found))
	for _, i := range found {
		about := parseDescription(i.Description)
		zone := lastPart(i.Zone)
		m := cloud.Machine{
			ID: strconv.FormatUint(i.Id, 10), Cluster: about.Cluster, Rank: rankOf(i.Name), Account: c.cfg.Project,
			State: state(i.Status),
			Offer: apitypes.Offer{
				Cloud: Name, Region: regionOf(zone), Zone: zone, InstanceType: lastPart(i.MachineType),
				Spot:        i.Scheduling != nil && i.Scheduling.ProvisioningModel == "SPOT",
				Accelerator: about.Accelerator, AccelCount: about.Count, USDPerHour: about.USDPerHour,
			},
		}
		m.Launched, _ = time.Parse(time.RFC3339, i.CreationTimestamp)
		if i.Status == "TERMINATED" || i.Status == "STOPPED" {
			m.Reason = reasonExited
		}
		out = append(out, m)
	}
	return out
}

// reasonExited is the reason for a machine that has shut itself down. An interrupted machine leaves no trace.
const reasonExited = "exited"

// state converts a status. A stopped machine is useless but must still be deleted, because its disk costs money.
func state(status string) cloud.State {
	switch status {
	case "PENDING", "PROVISIONING", "STAGING":
		return cloud.Pending
	case "RUNNING", "REPAIRING":
		return cloud.Running
	}
	return cloud.Terminating
}

func up(i *compute.Instance) bool { return state(i.Status) == cloud.Running }

func usable(i *compute.Instance) bool { return state(i.Status) != cloud.Terminating }

// remove deletes machines, several at a time. It returns when Google has accepted the requests. A machine that is
// being deleted costs nothing more, so remove does not wait until it disappears from lists.
func (c *Cloud) remove(ctx context.Context, found []*compute.Instance) error {
	s, err := c.Compute(ctx)
	if err != nil {
		return err
	}
	return driver.Each(len(found), maxAtOnce, func(n int) error {
		i := found[n]
		call, cancel := context.WithTimeout(ctx, readWithin)
		defer cancel()
		_, err := s.Instances.Delete(c.cfg.Project, lastPart(i.Zone), i.Name).Context(call).Do()
		if notFound(err) {
			return nil
		}
		return err
	})
}

// maxAtOnce is the maximum number of parallel calls.
const maxAtOnce = 8
