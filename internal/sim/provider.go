package sim

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/catalog/quotas"
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
	"github.com/tradewind-broker/tradewind/internal/sim/check"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// provider is one cloud of a world.
type provider struct {
	w        *world
	name     string
	clusters map[string]*fleet
	order    []*fleet // by first launch
	serial   int
}

var _ cloud.Cloud = (*provider)(nil)

// fleet is the machines that were launched under one name.
type fleet struct {
	name          string
	machines      []*machine // including ended ones
	terminated    bool       // terminated: nothing is launched under the name again
	outOfCapacity bool       // its launch ran out of capacity after some machines were created
}

func newProvider(w *world, name string) *provider {
	return &provider{w: w, name: name, clusters: map[string]*fleet{}}
}

func (c *provider) find(cluster string) *fleet { return c.clusters[cluster] }

func (c *provider) fleet(name string) *fleet {
	f, ok := c.clusters[name]
	if !ok {
		f = &fleet{name: name}
		c.clusters[name] = f
		c.order = append(c.order, f)
	}
	return f
}

// Name implements cloud.Cloud.
func (c *provider) Name() string { return c.name }

// spend makes a call take time.
func (c *provider) spend(lo, hi time.Duration) {
	if p := c.w.running; p != nil {
		p.wait(c.w.rand.cloud.Spread(lo, hi))
	}
}

// Launch implements cloud.Cloud.
func (c *provider) Launch(_ context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	c.w.before("launch " + spec.Cluster)
	c.spend(c.w.pace.launch[0], c.w.pace.launch[1])
	machines, err := c.launch(spec)
	if err != nil {
		c.w.Say(c.name, "refuses", fmt.Sprintf("%s in %s: %v", spec.Cluster, weather.MarketOf(spec.Offer), err))
		c.w.check.LaunchFailed(spec, cloud.KindOf(err), err)
	}
	c.w.after("launch " + spec.Cluster)
	return machines, err
}

func (c *provider) launch(spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	w, r := c.w, c.w.rand.cloud
	ordered := w.sky.Ordered(spec.Offer)
	if ordered.What == "auth" || w.sky.Outage(c.name) {
		w.Count("cloud outage")
		return nil, cloud.Errorf(c.name, cloud.Auth, "AuthFailure", "the credentials were not accepted")
	}
	if ordered.What == "throttled" || r.Chance(w.faults.CloudThrottles) {
		w.Count("cloud throttled")
		return nil, cloud.Errorf(c.name, cloud.Throttled, "RequestLimitExceeded", "too many requests")
	}
	f := c.fleet(spec.Cluster)
	switch {
	case f.terminated && w.opt.Break != breaks.NoToken:
		return nil, cloud.Errorf(c.name, cloud.Invalid, "IdempotentInstanceTerminated", "%s was terminated",
			spec.Cluster)
	case f.outOfCapacity:
		return nil, c.ranDry(spec)
	case len(f.machines) > 0 && w.opt.Break != breaks.NoToken:
		return f.list(), nil // the previous answer, although some of its machines may have ended
	}
	if err := c.scarce(spec, ordered); err != nil {
		return nil, err
	}
	if ordered.What == "transient" || r.Chance(w.faults.LaunchFails) {
		w.Count("launch fails")
		return nil, cloud.Errorf(c.name, cloud.Transient, "InternalError", "an internal error has occurred")
	}
	if ordered.What == "hang" || r.Chance(w.faults.LaunchHangs) {
		w.Count("launch hangs")
		late := ordered.Late
		if late == 0 {
			late = r.Spread(10*time.Second, 6*time.Minute)
		}
		w.After(late, func() { c.appear(spec) })
		c.spend(30*time.Second, 2*time.Minute)
		return nil, cloud.Errorf(c.name, cloud.Transient, "RequestTimeout", "no answer")
	}
	if r.Chance(w.faults.LaunchHalf) {
		return nil, c.half(spec)
	}
	c.create(spec, spec.Nodes)
	if ordered.What == "unseen" || r.Chance(w.faults.LaunchUnseen) {
		w.Count("launch unseen")
		return nil, cloud.Errorf(c.name, cloud.Transient, "ConnectionReset", "the connection was reset")
	}
	return f.list(), nil
}

// scarce returns an error if there is no capacity, the bid is too low or the quota is exceeded.
func (c *provider) scarce(spec cloud.LaunchSpec, ordered weather.Rule) error {
	w := c.w
	if has, _ := w.sky.Capacity(spec.Offer, spec.Nodes); !has || ordered.What == "capacity" {
		w.Count("no capacity")
		return cloud.Errorf(c.name, cloud.Capacity, "InsufficientInstanceCapacity", "no %s in %s",
			spec.Offer.InstanceType, spec.Offer.Zone)
	}
	usd := w.sky.Market(weather.ListingOf(spec.Offer)).Now().USD
	if spec.Offer.Spot && usd > weather.BidOf(spec)+check.Rounding {
		w.Count("bid too low")
		return cloud.Errorf(c.name, cloud.Capacity, "SpotMaxPriceTooLow", "%s costs %.4f USD in %s",
			spec.Offer.InstanceType, usd, spec.Offer.Zone)
	}
	if q := w.faults.QuotaMachines; ordered.What == "quota" || q > 0 && c.held(spec.Offer)+
		spec.Nodes > max(q, spec.Nodes) {
		w.Count("no quota")
		group := quotaOf(spec.Offer)
		err := cloud.Errorf(c.name, cloud.Quota, "VcpuLimitExceeded", "quota of %s in %s", group, spec.Offer.Region)
		err.Class = quotas.Regional(spec.Offer)
		return err
	}
	return nil
}

// quotaOf returns the name of the quota that the machines of an offer share with other machines of the region and
// market.
func quotaOf(o apitypes.Offer) string {
	return cmp.Or(quotas.Regional(o), record.Family(o.InstanceType))
}

// held returns the number of machines that count towards the same quota.
func (c *provider) held(o apitypes.Offer) int {
	n := 0
	for _, f := range c.order {
		for _, m := range f.machines {
			if m.Alive() && m.Offer.Region == o.Region && m.Offer.Spot == o.Spot &&
				quotaOf(m.Offer) == quotaOf(o) {
				n++
			}
		}
	}
	return n
}

// appear completes a launch that hung: its machines are created after all, unless a repeated launch has already
// created them. A terminate call in between does not prevent this, because the launch was requested earlier.
func (c *provider) appear(spec cloud.LaunchSpec) {
	if f := c.fleet(spec.Cluster); len(f.machines) == 0 || c.w.opt.Break == breaks.NoToken {
		c.create(spec, spec.Nodes)
	}
}

// half is a launch that the cloud accepted, but for which it runs out of capacity: some machines are created and run
// before that. The driver ends them again, unless that fails, too.
func (c *provider) half(spec cloud.LaunchSpec) error {
	w, r := c.w, c.w.rand.cloud
	w.Count("late stock-out")
	f := c.fleet(spec.Cluster)
	f.outOfCapacity = true
	c.create(spec, 1+r.IntN(spec.Nodes))
	c.spend(5*time.Second, 90*time.Second)
	if w.opt.Break == breaks.Careless {
		return cloud.Errorf(c.name, cloud.Capacity, "ZONE_RESOURCE_POOL_EXHAUSTED", "no more %s",
			spec.Offer.InstanceType)
	}
	if !r.Chance(w.faults.TerminateFails) {
		for _, m := range f.machines {
			m.end("taken back")
		}
	}
	return c.ranDry(spec)
}

func (c *provider) ranDry(spec cloud.LaunchSpec) error {
	err := cloud.Errorf(c.name, cloud.Capacity, "ZONE_RESOURCE_POOL_EXHAUSTED", "no more %s in %s after some were made",
		spec.Offer.InstanceType, spec.Offer.Zone)
	err.Late = len(c.fleet(spec.Cluster).machines)
	return err
}

// create creates the first machines of a cluster, all of them or fewer.
func (c *provider) create(spec cloud.LaunchSpec, nodes int) {
	f := c.fleet(spec.Cluster)
	for rank := range nodes {
		c.serial++
		m := newMachine(c, f, fmt.Sprintf("%s-%04d", c.name, c.serial), rank, spec)
		f.machines = append(f.machines, m)
	}
	c.w.Say(c.name, "launches", fmt.Sprintf("%s: %d in %s", spec.Cluster, nodes, weather.MarketOf(spec.Offer)))
	c.w.check.Launched(spec, f.bought(), nodes)
}

// bought returns the machines as the checker knows them.
func (f *fleet) bought() []*check.Machine {
	out := make([]*check.Machine, len(f.machines))
	for i, m := range f.machines {
		out[i] = &m.Machine
	}
	return out
}

func (f *fleet) list() []cloud.Machine {
	out := make([]cloud.Machine, len(f.machines))
	for i, m := range f.machines {
		out[i] = m.view()
	}
	return out
}

// Terminate implements cloud.Cloud.
func (c *provider) Terminate(_ context.Context, cluster string) error {
	c.w.before("terminate " + cluster)
	c.spend(300*time.Millisecond, 10*time.Second)
	if c.w.sky.Outage(c.name) {
		c.w.Count("cloud outage")
		c.w.check.Unended(cluster)
		return cloud.Errorf(c.name, cloud.Auth, "AuthFailure", "the credentials were not accepted")
	}
	fails := c.w.rand.cloud.Chance(c.w.faults.TerminateFails)
	if fails {
		c.w.Count("terminate fails")
		if c.w.rand.cloud.Chance(0.5) {
			return cloud.Errorf(c.name, cloud.Transient, "InternalError", "an internal error has occurred")
		}
	}
	if c.w.opt.Break != breaks.NoTerminate {
		f := c.fleet(cluster)
		f.terminated = true
		for _, m := range f.machines {
			m.end("terminated")
		}
	}
	c.w.after("terminate " + cluster)
	if fails {
		return cloud.Errorf(c.name, cloud.Transient, "ConnectionReset", "the connection was reset")
	}
	return nil
}

// listedFor is the time for which a list still shows machines that have ended.
const listedFor = 10 * time.Minute

// Machines implements cloud.Cloud.
func (c *provider) Machines(_ context.Context, cluster string) ([]cloud.Machine, error) {
	c.w.before("list")
	c.spend(100*time.Millisecond, 3*time.Second)
	if c.w.sky.Outage(c.name) {
		return nil, cloud.Errorf(c.name, cloud.Auth, "AuthFailure", "the credentials were not accepted")
	}
	if c.w.rand.cloud.Chance(c.w.faults.ListFails) {
		c.w.Count("list fails")
		return nil, cloud.Errorf(c.name, cloud.Throttled, "RequestLimitExceeded", "too many requests")
	}
	var out []cloud.Machine
	for _, f := range c.order {
		if cluster != "" && f.name != cluster {
			continue
		}
		for _, m := range f.machines {
			if m.listed.After(c.w.Now) || !m.Alive() && c.w.Now.Sub(m.Ended) > listedFor {
				continue
			}
			out = append(out, m.view())
		}
	}
	return out, nil
}
