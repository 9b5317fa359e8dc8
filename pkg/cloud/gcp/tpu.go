package gcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/api/googleapi"
	tpu "google.golang.org/api/tpu/v2"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
)

// tpuOffer matches the catalogue's name of a slice: tpu-v3-8. The number counts cores up to v4 and for v5p, otherwise
// chips.
var tpuOffer = regexp.MustCompile(`^tpu-(v[0-9]+[a-z]*)-([0-9]+)$`)

// maxTPU is the largest slice with a single host, in all generations. The broker supports one agent per machine.
const maxTPU = 8

// runtimes are the software versions that TPU machines boot, by generation (Cloud TPU documentation, "TPU software
// versions").
var runtimes = map[string]string{
	"v2": "tpu-ubuntu2204-base", "v3": "tpu-ubuntu2204-base", "v4": "tpu-ubuntu2204-base",
	"v5litepod": "v2-alpha-tpuv5-lite", "v5p": "v2-alpha-tpuv5", "v6e": "v2-alpha-tpuv6e",
}

func isTPU(o apitypes.Offer) bool { return strings.HasPrefix(o.InstanceType, "tpu-") }

// Times of a request for TPUs. It is queued, and Google reports nothing while no TPUs are available.
const (
	tpuQueueFor = 60 * time.Second       // after this time the driver treats it as a stock-out
	tpuPause    = 250 * time.Millisecond // the first pause; each is twice the one before
	tpuMaxPause = 5 * time.Second
)

// tpuService is the driver's client for TPUs.
func (c *Cloud) tpuService(ctx context.Context) (*tpu.Service, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tpus != nil {
		return c.tpus, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := tpu.NewService(context.WithoutCancel(ctx), c.Options("/")...)
	if err != nil {
		return nil, &cloud.Error{Kind: cloud.Auth, Cloud: Name, Code: codeCredentials, Message: err.Error(), Err: err}
	}
	c.tpus = s
	return s, nil
}

func (c *Cloud) location(zone string) string {
	return "projects/" + c.cfg.Project + "/locations/" + zone
}

// queuedName is the name of the request for a cluster; its nodes have the rank appended.
func (c *Cloud) queuedName(cluster string) string {
	return strings.TrimSuffix(c.machineName(cluster, 0), "-0")
}

// launchTPU asks for all TPUs of a cluster at once, with one queued resource: it gets them all, or waits. It is named
// after the cluster, and a name exists only once, so a repeated launch finds the same request.
func (c *Cloud) launchTPU(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	if !c.cfg.TPUs {
		return nil, fail(cloud.Quota, codeNotSold, "TPUs are not switched on for this deployment")
	}
	in, err := c.tpuRequest(spec)
	if err != nil {
		return nil, err
	}
	s, err := c.tpuService(ctx)
	if err != nil {
		return nil, err
	}
	c.setHome(spec.Cluster, home{zone: spec.Offer.Zone, tpu: true})
	call, cancel := context.WithTimeout(ctx, insertWithin)
	_, err = s.Projects.Locations.QueuedResources.Create(c.location(spec.Offer.Zone), in).
		QueuedResourceId(c.queuedName(spec.Cluster)).RequestId(c.requestID(spec.Cluster, 0)).Context(call).Do()
	cancel()
	switch {
	case alreadyExists(err): // requested before
	case err != nil && cloud.KindOf(Typed(err)) == cloud.Invalid && strings.Contains(err.Error(), "zone"):
		return nil, fail(cloud.Quota, codeNoRegion, "%v", Typed(err))
	case err != nil && !unknown(err):
		return nil, err
	}
	if err := c.awaitTPUs(ctx, s, spec); err != nil {
		return nil, err
	}
	machines, err := c.tpuMachines(ctx, s, spec)
	if err != nil {
		return nil, err
	}
	c.setHome(spec.Cluster, home{zone: spec.Offer.Zone, tpu: true, done: true})
	if err := driver.CheckNotTerminated(ctx, Name, c.graves, spec.Cluster); err != nil {
		return nil, errors.Join(err, c.endTPUs(context.WithoutCancel(ctx), spec.Offer.Zone, spec.Cluster))
	}
	return machines, nil
}

func (c *Cloud) tpuRequest(spec cloud.LaunchSpec) (*tpu.QueuedResource, error) {
	parts := tpuOffer.FindStringSubmatch(spec.Offer.InstanceType)
	if parts == nil {
		return nil, fail(cloud.Invalid, driver.CodeBadSpec, "%q is not a TPU", spec.Offer.InstanceType)
	}
	generation := parts[1]
	if n, err := strconv.Atoi(parts[2]); err != nil || n > maxTPU {
		return nil, fail(cloud.Capacity, codeNotSold, "%s has several hosts, which this driver does not support",
			spec.Offer.InstanceType)
	}
	runtime := runtimes[generation]
	for _, own := range []string{c.cfg.Images["tpu-"+generation], spec.Image} {
		if own != "" {
			runtime = own
		}
	}
	if runtime == "" {
		return nil, fail(cloud.Quota, codeNoImage, "no runtime version is known for %s: set image tpu-%s",
			spec.Offer.InstanceType, generation)
	}
	in := &tpu.QueuedResource{Tpu: &tpu.Tpu{}, QueueingPolicy: &tpu.QueueingPolicy{
		ValidUntilDuration: strconv.Itoa(int(tpuQueueFor/time.Second)) + "s",
	}}
	if spec.Offer.Spot {
		in.Spot = &tpu.Spot{}
	}
	for rank := range spec.Nodes {
		// Google chooses the name of its machine, which does not end in the rank.
		data, err := c.cfg.Agents.UserData(Name, spec, "amd64", &rank, c.cfg.Environment)
		if err != nil {
			return nil, err
		}
		script, err := bootstrap.Plain(data)
		if err != nil {
			return nil, fail(cloud.Invalid, driver.CodeBadSpec, "%v", err)
		}
		n := &tpu.Node{
			AcceleratorType: generation + "-" + parts[2], RuntimeVersion: runtime, Description: describe(spec),
			Labels: c.labels(spec), Tags: []string{NetworkTag},
			Metadata: map[string]string{"startup-script": string(script), "block-project-ssh-keys": "TRUE"},
			NetworkConfig: &tpu.NetworkConfig{
				Network:           path(c.cfg.Network, "projects/"+c.cfg.Project+"/global/networks/"),
				EnableExternalIps: !c.cfg.NoPublicAddress,
				Subnetwork: path(c.cfg.Subnetwork,
					"projects/"+c.cfg.Project+"/regions/"+spec.Offer.Region+"/subnetworks/"),
			},
		}
		if c.cfg.ServiceAccount != "" {
			n.ServiceAccount = &tpu.ServiceAccount{Email: c.cfg.ServiceAccount, Scope: []string{scopeEmail}}
		}
		in.Tpu.NodeSpec = append(in.Tpu.NodeSpec, &tpu.NodeSpec{
			Parent: c.location(spec.Offer.Zone), NodeId: c.machineName(spec.Cluster, rank), Node: n,
		})
	}
	return in, nil
}

// awaitTPUs waits until a request has its machines, and withdraws it if it has none for too long.
func (c *Cloud) awaitTPUs(ctx context.Context, s *tpu.Service, spec cloud.LaunchSpec) error {
	ctx, cancel := context.WithTimeout(ctx, waitWithin)
	defer cancel()
	began := time.Now()
	name := c.location(spec.Offer.Zone) + "/queuedResources/" + c.queuedName(spec.Cluster)
	for n := 0; ; n++ {
		call, done := context.WithTimeout(ctx, readWithin)
		q, err := s.Projects.Locations.QueuedResources.Get(name).Context(call).Do()
		done()
		if err != nil && !unknown(err) && !notFound(err) {
			return err
		}
		state, words := "", "no TPUs became available in time"
		if err == nil && q.State != nil {
			state = q.State.State
			if f := q.State.FailedData; f != nil && f.Error != nil {
				words = f.Error.Message
			}
		}
		waiting := state == "WAITING_FOR_RESOURCES" || state == "ACCEPTED"
		switch {
		case state == "ACTIVE":
			return nil
		case state == "FAILED" || waiting && time.Since(began) > tpuQueueFor:
			return errors.Join(fail(cloud.Capacity, "RESOURCE_EXHAUSTED", "%s", words),
				c.endTPUs(context.WithoutCancel(ctx), spec.Offer.Zone, spec.Cluster))
		case state == "SUSPENDED" || state == "SUSPENDING" || state == "DELETING":
			return errors.Join(
				fail(cloud.Capacity, codeLost, "the TPUs of cluster %s have been interrupted", spec.Cluster),
				c.endTPUs(context.WithoutCancel(ctx), spec.Offer.Zone, spec.Cluster),
			)
		}
		if err := clock.Pause(ctx, min(tpuPause<<min(n, 8), tpuMaxPause)); err != nil {
			return fail(cloud.Transient, codeSlow, "the TPUs of cluster %s are not ready yet: %s", spec.Cluster, state)
		}
	}
}

// tpuMachines returns the machines of an active request.
func (c *Cloud) tpuMachines(ctx context.Context, s *tpu.Service, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	var machines []cloud.Machine
	for rank := range spec.Nodes {
		call, cancel := context.WithTimeout(ctx, readWithin)
		n, err := s.Projects.Locations.Nodes.Get(
			c.location(spec.Offer.Zone) + "/nodes/" + c.machineName(spec.Cluster, rank)).Context(call).Do()
		cancel()
		if err != nil && !notFound(err) {
			return nil, err
		}
		if err != nil || tpuState(n.State) == cloud.Terminated {
			return nil, errors.Join(fail(cloud.Capacity, codeLost, "cluster %s has lost the TPU of rank %d",
				spec.Cluster, rank), c.endTPUs(context.WithoutCancel(ctx), spec.Offer.Zone, spec.Cluster))
		}
		machines = append(machines, c.tpuMachine(n))
	}
	return machines, nil
}

func tpuState(state string) cloud.State {
	switch state {
	case "CREATING":
		return cloud.Pending
	case "READY", "RESTARTING", "REPAIRING", "STARTING", "REIMAGING":
		return cloud.Running
	case "PREEMPTED":
		return cloud.Terminated
	}
	return cloud.Terminating
}

func (c *Cloud) tpuMachine(n *tpu.Node) cloud.Machine {
	about := parseDescription(n.Description)
	parts := strings.Split(n.Name, "/") // projects/P/locations/Z/nodes/N
	zone := ""
	if len(parts) == 6 {
		zone = parts[3]
	}
	m := cloud.Machine{
		ID: strconv.FormatInt(n.Id, 10), Cluster: about.Cluster, Rank: rankOf(n.Name), Account: c.cfg.Project,
		State: tpuState(n.State),
		Offer: apitypes.Offer{
			Cloud: Name, Region: regionOf(zone), Zone: zone, InstanceType: "tpu-" + n.AcceleratorType,
			Spot: about.Spot, Accelerator: about.Accelerator, AccelCount: about.Count, USDPerHour: about.USDPerHour,
		},
	}
	m.Launched, _ = time.Parse(time.RFC3339Nano, n.CreateTime)
	if n.State == "PREEMPTED" {
		m.Reason = "spot-interruption"
	}
	return m
}

// findTPUs lists the TPU machines of a cluster, or of the whole deployment; it skips those of other deployments.
func (c *Cloud) findTPUs(ctx context.Context, cluster string) ([]cloud.Machine, error) {
	if at := c.home(cluster); !c.cfg.TPUs || cluster != "" && at.zone != "" && !at.tpu {
		return nil, nil
	}
	s, err := c.tpuService(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	var machines []cloud.Machine
	err = s.Projects.Locations.Nodes.List(c.location("-")).Fields("nextPageToken", "unreachable",
		"nodes(id,name,state,description,acceleratorType,createTime,labels)").Pages(ctx,
		func(page *tpu.ListNodesResponse) error {
			if len(page.Unreachable) > 0 {
				return fail(cloud.Transient, "UNREACHABLE", "%v cannot be reached", page.Unreachable)
			}
			for _, n := range page.Nodes {
				if n.Labels[labelDeployment] == c.deploymentLabel() &&
					(cluster == "" || n.Labels[labelCluster] == c.clusterLabel(cluster)) {
					machines = append(machines, c.tpuMachine(n))
				}
			}
			return nil
		})
	return machines, err
}

// terminateTPUs withdraws the request of a cluster, in the cluster's zone or, if that is unknown, in any zone.
func (c *Cloud) terminateTPUs(ctx context.Context, at home, cluster string) error {
	if !c.cfg.TPUs || at.zone != "" && !at.tpu {
		return nil
	}
	if at.zone != "" {
		return c.endTPUs(ctx, at.zone, cluster)
	}
	s, err := c.tpuService(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	var zones, away []string
	requests := s.Projects.Locations.QueuedResources.List(c.location("-"))
	requests.Fields("nextPageToken", "unreachable", "queuedResources/name")
	err = requests.Pages(ctx, func(page *tpu.ListQueuedResourcesResponse) error {
		for _, q := range page.QueuedResources {
			if parts := strings.Split(q.Name, "/"); len(parts) == 6 && parts[5] == c.queuedName(cluster) {
				zones = append(zones, parts[3])
			}
		}
		away = append(away, page.Unreachable...)
		return nil
	})
	switch {
	case err != nil:
		return err
	case len(zones) == 0 && len(away) > 0: // the request may be in one of these
		return fail(cloud.Transient, "UNREACHABLE", "%v cannot be reached", away)
	}
	for _, zone := range slices.Compact(zones) {
		if err := c.endTPUs(ctx, zone, cluster); err != nil {
			return err
		}
	}
	return nil
}

// endTPUs withdraws a request and ends its machines.
func (c *Cloud) endTPUs(ctx context.Context, zone, cluster string) error {
	s, err := c.tpuService(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	name := c.location(zone) + "/queuedResources/" + c.queuedName(cluster)
	_, err = s.Projects.Locations.QueuedResources.Delete(name).Force(true).Context(ctx).Do()
	var answer *googleapi.Error
	switch {
	case notFound(err):
		return nil
	case errors.As(err, &answer) && answer.Code == http.StatusBadRequest: // not possible in its current state
		return fail(cloud.Transient, reason(answer), "%s", answer.Message)
	case err != nil:
		return fmt.Errorf("end the TPUs of %s: %w", cluster, err)
	}
	return nil
}
