package apitest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Cloud launches all clusters, except in the zones in which a test makes it refuse them.
type Cloud struct {
	mu       sync.Mutex
	refuses  []string
	machines []cloud.Machine
}

// Refuse makes launches in a zone fail for lack of capacity.
func (c *Cloud) Refuse(zone string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuses = append(c.refuses, zone)
}

// Everywhere returns this cloud under all cloud names that the planner knows.
func (c *Cloud) Everywhere() map[string]cloud.Cloud {
	return map[string]cloud.Cloud{"aws": c, "gcp": c, "azure": c, "lambda": c}
}

// Name returns the name of the cloud.
func (c *Cloud) Name() string { return "test" }

// Launch starts machines.
func (c *Cloud) Launch(_ context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.refuses, spec.Offer.Zone) {
		return nil, cloud.Errorf(spec.Offer.Cloud, cloud.Capacity, "InsufficientInstanceCapacity",
			"there is not enough capacity for %s in %s", spec.Offer.InstanceType, spec.Offer.Zone)
	}
	var out []cloud.Machine
	for rank := range spec.Nodes {
		m := cloud.Machine{ID: fmt.Sprintf("m-%s-%d", spec.Cluster, rank), Cluster: spec.Cluster, Rank: rank,
			State: cloud.Running, Offer: spec.Offer}
		out = append(out, m)
	}
	c.machines = append(c.machines, out...)
	return out, nil
}

// Terminate ends machines.
func (c *Cloud) Terminate(_ context.Context, cluster string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.machines = slices.DeleteFunc(c.machines, func(m cloud.Machine) bool { return m.Cluster == cluster })
	return nil
}

// Machines lists machines.
func (c *Cloud) Machines(_ context.Context, cluster string) ([]cloud.Machine, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []cloud.Machine
	for _, m := range c.machines {
		if cluster == "" || m.Cluster == cluster {
			out = append(out, m)
		}
	}
	return out, nil
}

// Planner chooses for each task the first offer that is not blocked. Offers are sorted by price.
type Planner struct{}

// offer is an entry of the planner's catalogue.
type offer struct {
	apitypes.Offer
	vcpu, onDemand float64
}

func gpuOffers() []offer {
	return []offer{
		{
			apitypes.Offer{
				Cloud:        "gcp",
				Region:       "us-central1",
				Zone:         "us-central1-a",
				InstanceType: "n1-standard-8+V100:1",
				Accelerator:  "V100",
				AccelCount:   1,
				Spot:         true,
				USDPerHour:   0.82,
			},
			8,
			2.86,
		},
		{apitypes.Offer{Cloud: "aws", Region: "us-east-1", Zone: "use1-az1", InstanceType: "p3.2xlarge",
			Accelerator: "V100", AccelCount: 1, Spot: true, USDPerHour: 0.92}, 8, 3.06},
		{apitypes.Offer{Cloud: "azure", Region: "eastus", InstanceType: "Standard_NC6s_v3", Accelerator: "V100",
			AccelCount: 1, USDPerHour: 3.06}, 6, 3.06},
	}
}

func cpuOffers() []offer {
	return []offer{
		{apitypes.Offer{Cloud: "aws", Region: "us-east-2", Zone: "use2-az3", InstanceType: "c7i.2xlarge", Spot: true,
			USDPerHour: 0.128}, 8, 0.357},
		{apitypes.Offer{Cloud: "gcp", Region: "us-central1", Zone: "us-central1-f", InstanceType: "c3-standard-8",
			Spot: true, USDPerHour: 0.146}, 8, 0.419},
		{
			apitypes.Offer{Cloud: "azure", Region: "eastus", InstanceType: "Standard_D8s_v5", USDPerHour: 0.384},
			8,
			0.384,
		},
	}
}

func (o offer) id() string {
	id := o.Cloud + "/" + o.Region + "/"
	if o.Zone != "" {
		id += o.Zone + "/"
	}
	if o.Spot {
		return id + o.InstanceType + "/spot"
	}
	return id + o.InstanceType + "/on-demand"
}

// Reserves implements broker.Planner.
func (Planner) Reserves(context.Context) bool { return false }

// Plan makes a plan. A job with a budget below a cent is infeasible.
func (Planner) Plan(_ context.Context, in planinput.Input) (*record.Plan, error) {
	if b := in.Spec.Budget; b > 0 && b < 0.01 {
		return &record.Plan{Status: record.PlanInfeasible, Message: "no plan costs less than 0.01 USD"}, nil
	}
	p := &planning{&record.Plan{
		Status: "optimal", Choice: make([]int32, len(in.Spec.Tasks)), Millis: 1.5, Runners: map[int][]apitypes.Runner{},
		TaskUSD: make([]float64, len(in.Spec.Tasks)), TaskHours: make([]float64, len(in.Spec.Tasks)),
	}}
	known := map[string]int32{}
	finish := make([]float64, len(in.Spec.Tasks))
	g := in.Spec.Graph()
	for _, i := range in.Spec.Order() {
		t := &in.Spec.Tasks[i]
		options := open(offersFor(t), in)
		if len(options) == 0 {
			return &record.Plan{Status: record.PlanInfeasible, Message: "no place is left for task " + t.Name}, nil
		}
		o := options[0]
		id := o.id()
		if _, ok := known[id]; !ok {
			known[id] = int32(len(p.Offers)) //nolint:gosec // a handful
			p.Offers = append(p.Offers, record.Planned{ID: id, Offer: o.Offer, VCPU: o.vcpu, OnDemandUSD: o.onDemand})
		}
		p.Choice[i] = known[id]
		if f := in.Tasks; i < len(f) && f[i] != nil && f[i].Done {
			continue
		}
		p.set(i, t, o, options[1:])
		for _, parent := range g.Parents(i) {
			finish[i] = max(finish[i], finish[parent])
		}
		finish[i] += p.TaskHours[i]
		p.Hours = max(p.Hours, finish[i])
	}
	p.Objective, p.Bound = p.USD, p.USD
	return p.Plan, nil
}

// planning is a plan being made.
type planning struct{ *record.Plan }

// set assigns an offer to a task.
func (p *planning) set(i int, t *dag.Task, o offer, rest []offer) {
	h, nodes := t.TimeOn(o.InstanceType, o.Accelerator, o.AccelCount, o.Speed, t.Nodes).Hours(), float64(t.Nodes)
	p.TaskHours[i], p.TaskUSD[i] = h, h*o.USDPerHour*nodes
	p.USD += p.TaskUSD[i]
	p.OnDemandUSD += h * o.onDemand * nodes
	for _, r := range rest {
		p.Runners[i] = append(p.Runners[i], apitypes.Runner{ID: r.id(), USD: h * r.USDPerHour * nodes, Hours: h,
			Adds: h * (r.USDPerHour - o.USDPerHour) * nodes})
	}
}

func offersFor(t *dag.Task) []offer {
	for _, r := range t.Resources {
		if r.Accelerator != "" {
			return gpuOffers()
		}
	}
	return cpuOffers()
}

// open removes the blocked offers.
func open(offers []offer, in planinput.Input) []offer {
	return slices.DeleteFunc(offers, func(o offer) bool {
		return slices.ContainsFunc(in.Blocks, func(b apitypes.Block) bool { return record.Covers(b, o.Offer, in.Now) })
	})
}
