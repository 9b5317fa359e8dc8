package gcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/api/googleapi"
	tpu "google.golang.org/api/tpu/v2"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
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

// Times of a request for TPUs. The request is queued, and Google reports nothing while no TPUs are available.
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

// isQueuedFor reports whether a request, by its ID, is for a node of a cluster: requests have the names of their nodes.
func (c *Cloud) isQueuedFor(id, cluster string) bool {
	rank, ok := strings.CutPrefix(id, strings.TrimSuffix(c.machineName(cluster, 0), "0"))
	_, err := strconv.ParseUint(rank, 10, 32)
	return ok && err == nil
}

// launchTPU requests the TPUs of a cluster, with one queued resource for each. In one request for several TPUs,
// Google chooses their names and ranks, which the TPUs do not learn (Cloud TPU API v2, NodeSpec.nodeId: "only
// specified when requesting a single node"). If one request gets no TPU, all are withdrawn. The requests are named
// after the cluster and the rank, and a name exists only once, so a repeated launch finds the same requests.
func (c *Cloud) launchTPU(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	if !c.cfg.TPUs {
		return nil, fail(cloud.Quota, codeNotSold, "TPUs are not switched on for this deployment")
	}
	if c.cfg.ServiceAccount == "" {
		return nil, fail(cloud.Quota, codeNoAccount, "without a service account Google would give TPUs the project's "+
			"default one, which may change everything in the project: "+
			"tradewind cloud add gcp --service-account ADDRESS")
	}
	in := make([]*tpu.QueuedResource, spec.Nodes)
	for rank := range in {
		var err error
		if in[rank], err = c.tpuRequest(spec, rank); err != nil {
			return nil, err
		}
	}
	s, err := c.tpuService(ctx)
	if err != nil {
		return nil, err
	}
	c.setHome(spec.Cluster, home{zone: spec.Offer.Zone, tpu: true})
	for rank, request := range in {
		if err := c.queueTPU(ctx, s, spec, rank, request); err != nil {
			if rank > 0 {
				err = errors.Join(err, c.endTPUs(context.WithoutCancel(ctx), spec.Offer.Zone, spec.Cluster))
			}
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, waitWithin)
	defer cancel()
	began := time.Now()
	for rank := range in {
		if err := c.awaitTPU(ctx, s, spec, rank, began); err != nil {
			return nil, err
		}
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

// queueTPU makes the request for one node, unless an earlier call has made it.
func (c *Cloud) queueTPU(ctx context.Context, s *tpu.Service, spec cloud.LaunchSpec, rank int,
	in *tpu.QueuedResource) error {
	name := c.machineName(spec.Cluster, rank)
	ctx, cancel := context.WithTimeout(ctx, insertWithin)
	defer cancel()
	_, err := s.Projects.Locations.QueuedResources.Create(c.location(spec.Offer.Zone), in).
		QueuedResourceId(name).RequestId(c.requestID(name, 0)).Context(ctx).Do()
	switch {
	case alreadyExists(err):
		return nil
	case err != nil && cloud.KindOf(Typed(err)) == cloud.Invalid && strings.Contains(err.Error(), "zone"):
		return fail(cloud.Quota, codeNoRegion, "%v", Typed(err))
	case err != nil && !unknown(err):
		return ofTPU(spec, err)
	}
	return nil
}

func (c *Cloud) tpuRequest(spec cloud.LaunchSpec, rank int) (*tpu.QueuedResource, error) {
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
	return in, nil
}

// awaitTPU waits until the request for a node has got its TPU. If it has got none for too long after the launch
// began, awaitTPU withdraws all requests of the cluster.
func (c *Cloud) awaitTPU(ctx context.Context, s *tpu.Service, spec cloud.LaunchSpec, rank int, began time.Time) error {
	name := c.location(spec.Offer.Zone) + "/queuedResources/" + c.machineName(spec.Cluster, rank)
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
			kind := cloud.Capacity
			if isQuotaMessage(words) {
				kind = cloud.Quota
			}
			return errors.Join(ofTPU(spec, fail(kind, "RESOURCE_EXHAUSTED", "%s", words)),
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

// findTPUs lists the TPU machines of a cluster, or of the whole deployment. It skips those of other deployments.
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

// terminateTPUs withdraws the requests of a cluster, in the cluster's zone or, if that is unknown, in any zone.
func (c *Cloud) terminateTPUs(ctx context.Context, at home, cluster string) error {
	if !c.cfg.TPUs || at.zone != "" && !at.tpu {
		return nil
	}
	return c.endTPUs(ctx, cmp.Or(at.zone, "-"), cluster)
}

// endTPUs withdraws the requests of a cluster in a zone, or in all zones if zone is "-", and ends their machines.
func (c *Cloud) endTPUs(ctx context.Context, zone, cluster string) error {
	s, err := c.tpuService(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	var names, away []string
	requests := s.Projects.Locations.QueuedResources.List(c.location(zone))
	requests.Fields("nextPageToken", "unreachable", "queuedResources/name")
	err = requests.Pages(ctx, func(page *tpu.ListQueuedResourcesResponse) error {
		for _, q := range page.QueuedResources {
			if c.isQueuedFor(lastPart(q.Name), cluster) {
				names = append(names, q.Name)
			}
		}
		away = append(away, page.Unreachable...)
		return nil
	})
	if err != nil {
		return err
	}
	err = driver.Each(len(names), maxAtOnce, func(n int) error { return c.endTPU(ctx, s, names[n]) })
	if err == nil && len(names) == 0 && len(away) > 0 { // the requests may be in one of these
		return fail(cloud.Transient, "UNREACHABLE", "%v cannot be reached", away)
	}
	return err
}

func (c *Cloud) endTPU(ctx context.Context, s *tpu.Service, name string) error {
	_, err := s.Projects.Locations.QueuedResources.Delete(name).Force(true).Context(ctx).Do()
	var answer *googleapi.Error
	switch {
	case notFound(err):
		return nil
	case errors.As(err, &answer) && answer.Code == http.StatusBadRequest: // not possible in its current state
		return fail(cloud.Transient, reason(answer), "%s", answer.Message)
	case err != nil:
		return fmt.Errorf("end the TPU of %s: %w", lastPart(name), err)
	}
	return nil
}
