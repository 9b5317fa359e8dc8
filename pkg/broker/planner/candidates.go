package planner

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/broker"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// ErrInfeasible says that a job cannot be planned at all.
var ErrInfeasible = errors.New("infeasible")

// class is what all tasks that ask for the same resources share.
type class struct {
	matches []*match
	reason  string // why there is none
	// onDemandUSD is the lowest on-demand price of one machine by estimate key.
	cheapest map[string]float64
}

// match is an offer on a market that suits a class.
type match struct {
	catalog.Match
	id   string // with market
	rate float64
	usd  float64 // per hour: as last seen, or by the catalogue
}

func (m *match) planned() broker.Planned {
	o := cloud.Offer{
		Cloud: m.Cloud, Region: m.Region, Zone: m.Zone, InstanceType: m.InstanceType,
		Accelerator: m.Accelerator, AccelCount: m.AcceleratorCount, Spot: m.Market == catalog.Spot, USDPerHour: m.usd,
	}
	od, ok := m.Offer.USDPerHour(catalog.OnDemand)
	if !ok {
		od = m.usd
	}
	return broker.Planned{ID: m.id, Offer: o, VCPU: m.VCPU, OnDemandUSD: od}
}

// classOf finds, once for all tasks alike, the offers that suit a task.
func (b *builder) classOf(i int) (*class, error) {
	t := &b.in.Spec.Tasks[i]
	key, err := json.Marshal(struct {
		R []dag.Resources
		O bool
		K []string
	}{t.Resources, t.Ordered, estimateKeys(t)})
	if err != nil {
		return nil, err
	}
	if c, ok := b.classes[string(key)]; ok {
		return c, nil
	}
	c, err := b.newClass(t)
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", t.Name, err)
	}
	b.classes[string(key)] = c
	return c, nil
}

func estimateKeys(t *dag.Task) []string {
	keys := make([]string, 0, len(t.Time.On))
	for k := range t.Time.On {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// newClass asks the catalogue for each alternative. Ordered alternatives are taken in turn: the first one that is
// offered anywhere is the only one.
func (b *builder) newClass(t *dag.Task) (*class, error) {
	c := &class{cheapest: map[string]float64{}}
	found := map[string]bool{}
	var reasons []string
	for _, r := range t.Resources {
		var none error
		for _, q := range b.queries(t, r) {
			err := b.collect(c, found, q)
			if errors.Is(err, catalog.ErrNoOffer) {
				none = err
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		if none != nil {
			reasons = append(reasons, none.Error())
		}
		if t.Ordered && len(c.matches) > 0 {
			break
		}
	}
	if len(c.matches) == 0 {
		c.reason = strings.Join(slices.Compact(reasons), "; ")
		if c.reason == "" {
			c.reason = "every offer that suits it is blocked now"
		}
	}
	return c, nil
}

// queries turns an alternative into catalogue queries: one, and one more for each machine or number of accelerators that the
// author gave a time of its own, since the cheapest offer of a region is only the best among those that take the same time.
func (b *builder) queries(t *dag.Task, r dag.Resources) []catalog.Query {
	base := catalog.Query{
		VCPU: rangeOf(r.CPUs), MemoryGiB: rangeOf(r.Memory), Accelerator: r.Accelerator,
		AcceleratorCount: r.AcceleratorCount, InstanceType: r.InstanceType, Arch: catalog.Arch(r.Arch),
		Service: catalog.Service(r.Service), CheapestPer: catalog.PerRegion, Keep: b.keep,
	}
	if r.Cloud != "" {
		base.Clouds = []string{r.Cloud}
	} else {
		base.Clouds = b.p.opt.Clouds
	}
	if r.Region != "" {
		base.Regions = []string{r.Region}
	}
	if r.Zone != "" {
		base.Zones = []string{r.Zone}
	}
	switch r.Market {
	case dag.MarketSpot:
		base.Market = catalog.Spot
	case dag.MarketOnDemand:
		base.Market = catalog.OnDemand
	case dag.MarketAuto, "":
	}
	queries := []catalog.Query{base}
	for _, key := range estimateKeys(t) {
		q := base
		name, count, counted := strings.Cut(key, ":")
		switch {
		case r.Accelerator != "" && counted && name == r.Accelerator && r.AcceleratorCount == 0:
			n, err := strconv.ParseFloat(count, 64)
			if err != nil {
				continue
			}
			q.AcceleratorCount = n
		case !counted && r.InstanceType == "" && r.Accelerator == "" && strings.ContainsAny(key, ".-_"):
			q.InstanceType = key
		default:
			continue
		}
		queries = append(queries, q)
	}
	return queries
}

func rangeOf(r dag.Range) catalog.Range { return catalog.Range{Min: r.Min, Max: r.Max} }

// keep refuses what is blocked now, and what lies outside the regions a job allows.
func (b *builder) keep(m *catalog.Match) bool {
	o := cloud.Offer{
		Cloud: m.Cloud, Region: m.Region, Zone: m.Zone, InstanceType: m.InstanceType, Spot: m.Market == catalog.Spot,
	}
	for _, k := range b.in.Blocks {
		if k.Covers(o, b.in.Now) {
			return false
		}
	}
	if len(b.in.Spec.Regions) == 0 {
		return true
	}
	return slices.ContainsFunc(b.in.Spec.Regions, func(r string) bool {
		return r == m.Cloud || r == m.Cloud+":"+m.Region || r == m.Region
	})
}

func (b *builder) collect(c *class, found map[string]bool, q catalog.Query) error {
	matches, err := b.p.catalog.Load().Find(q)
	if err != nil {
		return err
	}
	for _, m := range matches {
		id := m.ID()
		if found[id] {
			continue
		}
		found[id] = true
		full := &match{Match: m, id: id, usd: m.USDPerHour}
		if m.Market == catalog.Spot {
			b.learn(full)
		} else {
			key := dag.AcceleratorKey(m.Accelerator, m.AcceleratorCount)
			if old, ok := c.cheapest[key]; !ok || m.USDPerHour < old {
				c.cheapest[key] = m.USDPerHour
			}
		}
		c.matches = append(c.matches, full)
	}
	return nil
}

// priorHours is how many machine hours of experience the prior rate of interruptions counts for.
const priorHours = 200

// learn takes the spot price last seen, and the rate of interruptions: the band's, or the assumed one, corrected by what
// was seen (the mean of a Gamma posterior).
func (b *builder) learn(m *match) {
	rate, known := m.Interruption.PreemptionsPerHour()
	if !known {
		rate = b.p.opt.PreemptionsPerHour
	}
	rec := b.in.Markets[m.Offer.ID()]
	m.rate = (rate*priorHours + float64(rec.Preemptions)) / (priorHours + rec.Hours)
	if rec.USD > 0 {
		m.usd = rec.USD + m.SurchargeUSD
	}
}

// candidates annotates the offers of a class with what a task costs and takes there.
func (b *builder) candidates(i int, c *class, gib float64) (optimizer.Task, []option) {
	t := &b.in.Spec.Tasks[i]
	done := 0.0
	if f := b.in.Tasks[i]; f != nil {
		done = f.Progress
	}
	nodes := float64(max(t.Nodes, 1))
	task := optimizer.Task{ID: t.Name}
	var options []option
	baseline := math.Inf(1)
	for _, m := range c.matches {
		whole := t.Time.For(m.InstanceType, m.Accelerator, m.AcceleratorCount)
		work := whole.Hours() * (1 - done)
		if m.Market == catalog.OnDemand {
			baseline = math.Min(baseline, work*m.usd*nodes)
		}
		cand, o, ok := b.annotate(t, m, work, nodes)
		if !ok {
			continue
		}
		task.Candidates = append(task.Candidates, cand)
		options = append(options, o)
	}
	if !math.IsInf(baseline, 1) {
		b.noted += baseline
	}
	return b.prune(task, options, gib)
}

func (b *builder) annotate(t *dag.Task, m *match, work, nodes float64) (optimizer.Candidate, option, bool) {
	cand := optimizer.Candidate{ID: m.id, Place: b.places[m.Place()], USD: work * m.usd * nodes, Hours: work}
	o := option{match: m, usd: cand.USD, expected: work}
	if m.Market != catalog.Spot {
		return cand, o, true
	}
	run := bidding.Run{Hours: work, RestartHours: b.p.opt.Restart.Hours(), PreemptionsPerHour: m.rate, Nodes: max(t.Nodes, 1)}
	if t.Checkpoint != nil || t.StandIn() {
		every := 15 * time.Minute
		if t.Checkpoint != nil && t.Checkpoint.Every > 0 {
			every = t.Checkpoint.Every
		}
		run.CheckpointHours = every.Hours()
	}
	q, ok := bidding.Spot(run)
	if !ok {
		return cand, o, false
	}
	cand.USD, cand.Hours = q.Held*m.usd*nodes, q.Hours
	o.usd, o.expected = cand.USD, q.Hours
	if b.in.DeadlineHours != nil {
		cand.Hours = math.Max(q.Hours, q.Guaranteed) // it must still be on time when it is taken at the worst moment
	}
	return cand, o, true
}

// prune leaves out candidates that another one beats by more than any difference in moving the task's data
// could make up for, in money and in time. They can be in no best plan.
func (b *builder) prune(task optimizer.Task, options []option, gib float64) (optimizer.Task, []option) {
	slackUSD, slackHours := gib*b.dearest, gib*b.slowest
	costOnly := b.model.Objective == optimizer.Cost && b.model.DeadlineHours == nil
	if len(task.Candidates) == 0 {
		return task, options
	}
	// The cheapest few stay all the same: they are the runners-up that explanations name.
	order := make([]int, len(task.Candidates))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(x, y int) int {
		a, b := task.Candidates[x], task.Candidates[y]
		return cmp.Or(cmp.Compare(a.USD, b.USD), cmp.Compare(a.Hours, b.Hours))
	})
	best := task.Candidates[order[0]]
	keep := make([]bool, len(order))
	for n, k := range order {
		c := task.Candidates[k]
		keep[k] = n <= runnersKept || c.USD <= best.USD+slackUSD || !costOnly && c.Hours < best.Hours+slackHours
	}
	kept, keptOptions := task.Candidates[:0:0], options[:0:0]
	for k, c := range task.Candidates {
		if keep[k] {
			kept, keptOptions = append(kept, c), append(keptOptions, options[k])
		}
	}
	task.Candidates = kept
	return task, keptOptions
}

func maxOf(m [][]float64) float64 {
	most := 0.0
	for _, row := range m {
		for _, v := range row {
			most = math.Max(most, v)
		}
	}
	return most
}

// PlaceOf is where a bucket lies: by its URL's region parameter, else where its cloud's buckets are made by default. Local
// files are nowhere in particular.
func PlaceOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return ""
	}
	region := u.Query().Get("region")
	clouds := map[string][2]string{
		"s3": {"aws", "us-east-1"}, "gs": {"gcp", "us-central1"}, "azblob": {"azure", "eastus"}, "az": {"azure", "eastus"},
	}
	c, ok := clouds[u.Scheme]
	if !ok {
		return ""
	}
	if region == "" {
		region = c[1]
	}
	return c[0] + ":" + region
}
