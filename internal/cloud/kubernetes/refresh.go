package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// DefaultUSDPerVCPU is the price of an hour of one vCPU of nodes with unknown prices: about the clouds' price of a
// machine with four GiB per vCPU.
const DefaultUSDPerVCPU = 0.04

// Source lists the nodes of clusters. *kubernetes.Cloud implements it.
type Source interface {
	Sells(ctx context.Context) (sold []Sold, failed map[string]error)
}

// Refresher adds the offers of Kubernetes clusters to the catalogue: parts of their nodes, each at the same part of
// the node's price. The price of a node is the catalogue's price of its type in its cloud (intercloud-broker paper,
// §4.2: a catalogue that is renewed from its sources). If the catalogue does not have the type, it is the price in
// the settings.
type Refresher struct {
	Source    Source
	Snapshots driver.Snapshots
	// Base is the catalogue to merge over if there is no snapshot yet; catalog.Default when nil.
	Base *catalog.Catalog
	// USD is the price of an hour of a node by type. It takes precedence over the catalogue. PerVCPU is the price per
	// vCPU of types that are in neither; 0 means DefaultUSDPerVCPU.
	USD     map[string]float64
	PerVCPU float64
}

// Refresh requests the nodes of the clusters and writes the next snapshot. A cluster that does not answer keeps its
// old offers.
func (r *Refresher) Refresh(ctx context.Context) (driver.Refreshed, error) {
	var res driver.Refreshed
	base, _, err := renew.Last(ctx, r.Snapshots, r.Base)
	if err != nil {
		return res, err
	}
	sold, failed := r.Source.Sells(ctx)
	if err := ctx.Err(); err != nil {
		return res, err
	}
	of := func(o *catalog.Offer) bool { return o.Cloud == Name }
	before := renew.Collect(base, of)
	var offers []catalog.Offer
	for _, o := range before {
		if failed[o.Region] != nil {
			offers = append(offers, o)
		}
	}
	for place, err := range failed {
		res.Kept = append(res.Kept, place+": "+err.Error())
	}
	prices := pricesOf(base, sold)
	for _, s := range sold {
		offers = append(offers, r.offers(s, prices)...)
	}
	slices.SortFunc(offers, byID)
	slices.Sort(res.Kept)
	res.Offers = len(offers)
	if len(failed) > 0 && len(sold) == 0 {
		return res, fmt.Errorf("no cluster answers: %s", strings.Join(res.Kept, "; "))
	}
	if slices.EqualFunc(offers, slices.SortedFunc(maps.Values(before), byID), func(a, b catalog.Offer) bool {
		return a.ID() == b.ID() && a.OnDemandUSD == b.OnDemandUSD && a.HasSpot == b.HasSpot && a.SpotUSD == b.SpotUSD
	}) {
		return res, nil // an unchanged snapshot would only cause needless replanning
	}
	next, err := base.Replace(of, offers)
	if err != nil {
		return res, err
	}
	return res, renew.Save(ctx, r.Snapshots, next)
}

func byID(a, b catalog.Offer) int { return strings.Compare(a.ID(), b.ID()) }

// price is the price of an hour of a whole node.
type price struct{ onDemand, spot float64 }

type nodeType struct{ cloud, region, kind string }

// pricesOf looks up the prices of nodes in their own region or, if it has none, in the region in which the type is
// cheapest.
func pricesOf(c *catalog.Catalog, sold []Sold) map[nodeType]price {
	wanted := map[string]bool{}
	for _, s := range sold {
		wanted[strings.ToLower(s.Node.Type)] = true
	}
	found := map[nodeType]price{}
	note := func(k nodeType, o *catalog.Offer) {
		p, there := found[k]
		if !there || o.OnDemandUSD < p.onDemand {
			p.onDemand = o.OnDemandUSD
		}
		if o.HasSpot && (p.spot == 0 || o.SpotUSD < p.spot) {
			p.spot = o.SpotUSD
		}
		found[k] = p
	}
	for o := range c.All() {
		kind := strings.ToLower(o.InstanceType)
		if o.Cloud == Name || !wanted[kind] {
			continue
		}
		note(nodeType{o.Cloud, o.Region, kind}, &o)
		note(nodeType{o.Cloud, "", kind}, &o)
		note(nodeType{"", "", kind}, &o)
	}
	return found
}

func (r *Refresher) price(n Node, known map[nodeType]price) price {
	if usd, told := r.USD[n.Type]; told {
		return price{onDemand: usd}
	}
	kind := strings.ToLower(n.Type)
	for _, k := range []nodeType{{n.Provider, n.Region, kind}, {n.Provider, "", kind}, {"", "", kind}} {
		if p, ok := known[k]; ok {
			return p
		}
	}
	perVCPU := cmp.Or(r.PerVCPU, DefaultUSDPerVCPU)
	return price{onDemand: perVCPU * float64(n.Whole.MilliCPU) / 1000}
}

// least is the smallest price in the catalogue, USD per hour.
const least = 1e-6

// offers returns the parts of a node as offers.
func (r *Refresher) offers(s Sold, known map[nodeType]price) (all []catalog.Offer) {
	p := r.price(s.Node, known)
	for _, shape := range s.Shapes() {
		o := catalog.Offer{
			Cloud: Name, Region: s.Place, Zone: s.Node.Zone, InstanceType: shape.Type(), VCPU: shape.VCPU,
			MemoryGiB: shape.GiB, Arch: archOf(s.Node.Arch), OnDemandUSD: max(p.onDemand*shape.Share(), least),
		}
		if shape.GPUs > 0 {
			o.Accelerator, o.AcceleratorCount = accelerator(s.Node.Accelerator),
				hundredths(float64(shape.GPUs)*cmp.Or(s.Node.OfGPU, 1))
		}
		if s.Spot {
			o.HasSpot, o.SpotUSD = true, max(min(cmp.Or(p.spot, p.onDemand), p.onDemand)*shape.Share(), least)
		}
		all = append(all, o)
	}
	return all
}

func archOf(label string) catalog.Arch {
	if label == "arm64" {
		return "arm64"
	}
	return "amd64"
}

// accelerator returns a GPU's name in the catalogue: NVIDIA-A100-SXM4-80GB is A100-80GB, nvidia-tesla-v100 is V100.
func accelerator(label string) string {
	text := strings.ToUpper(label)
	for _, prefix := range []string{"NVIDIA-", "TESLA-", "GEFORCE-"} {
		text = strings.TrimPrefix(text, prefix)
	}
	parts := strings.Split(text, "-")
	last := parts[len(parts)-1]
	for _, spelling := range []string{text, parts[0] + "-" + last, parts[0]} {
		if name, err := accel.Normalize(spelling); err == nil {
			return name
		}
	}
	return text
}

// hundredths rounds a number of GPUs to two decimal places: two of seven slices are 0.29.
func hundredths(x float64) float64 { return math.Round(x*100) / 100 }
