package gcp

import (
	"context"
	"math"
	"regexp"
	"slices"
	"strings"

	billing "google.golang.org/api/cloudbilling/v1"

	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// computeEngine is the service in the price list (Cloud Billing documentation, "Get Google Cloud pricing information").
const computeEngine = "services/6F81-5844-456A"

// PricePart is a line of the price list for a part of machines: a processor or a GiB of memory of a family, or a GPU.
type PricePart struct {
	Family  string // n2; for a GPU its canonical name
	Kind    string // core, ram, gpu
	Market  catalog.Market
	Regions []string
	USD     float64 // per hour
}

// Prices are the prices of machine parts in each region. A nil Prices has none.
type Prices struct {
	usd map[priced]float64
}

type priced struct {
	region, family, kind string
	market               catalog.Market
}

// prices reads the price list.
func (r *Refresher) prices(ctx context.Context) (*Prices, error) {
	s, err := billing.NewService(context.WithoutCancel(ctx), r.Cloud.Options("/")...)
	if err != nil {
		return nil, err
	}
	p := &Prices{usd: map[priced]float64{}}
	err = s.Services.Skus.List(computeEngine).CurrencyCode("USD").PageSize(5000).Pages(ctx,
		func(page *billing.ListSkusResponse) error {
			for _, sku := range page.Skus {
				if part, ok := ParseSku(sku); ok {
					p.add(part)
				}
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Prices) add(part PricePart) {
	for _, region := range part.Regions {
		k := priced{region, part.Family, part.Kind, part.Market}
		// Lines for commitments and sole tenancy are cheaper but have other descriptions. Two lines with the same
		// description are from two lists, and the more expensive one is charged.
		p.usd[k] = max(p.usd[k], part.USD)
	}
}

// Patterns of the descriptions of parts: "N2 Instance Core running in Iowa", "Spot Preemptible E2 Instance Ram
// running in Iowa", "Nvidia L4 GPU attached to Spot Preemptible VMs running in Iowa".
var (
	machineLine = regexp.MustCompile(`^(?:Spot Preemptible )?([A-Z][0-9]+[A-Z]?)(?: AMD| Arm| Predefined)? Instance ` +
		`(Core|Ram) running in `)
	optimizedLine = regexp.MustCompile(`^(?:Spot Preemptible )?Compute optimized (Core|Ram) running in `)
	gpuLine       = regexp.MustCompile(`^(?:Spot Preemptible )?Nvidia (?:Tesla )?(.+?) GPU (?:attached to ` +
		`(?:Spot )?Preemptible VMs )?running in `)
)

// maxUSD is the highest plausible price of an hour.
const maxUSD = 1000

// ParseSku reads a line of the price list. ok is false unless it is the hourly price of a machine part in USD.
func ParseSku(s *billing.Sku) (p PricePart, ok bool) {
	if s == nil || s.Category == nil || s.Category.ResourceFamily != "Compute" {
		return p, false
	}
	switch s.Category.UsageType {
	case "OnDemand":
		p.Market = catalog.OnDemand
	case "Preemptible":
		p.Market = catalog.Spot
	default:
		return p, false
	}
	if m := machineLine.FindStringSubmatch(s.Description); m != nil {
		p.Family, p.Kind = strings.ToLower(m[1]), strings.ToLower(m[2])
	} else if m := optimizedLine.FindStringSubmatch(s.Description); m != nil {
		p.Family, p.Kind = "c2", strings.ToLower(m[1])
	} else if m := gpuLine.FindStringSubmatch(s.Description); m != nil {
		name, err := accel.Normalize(strings.ReplaceAll(m[1], " ", "-"))
		if err != nil {
			return p, false
		}
		p.Family, p.Kind = name, "gpu"
	} else {
		return p, false
	}
	p.Regions = s.ServiceRegions
	p.USD, ok = hourly(s, p.Kind)
	return p, ok && len(p.Regions) > 0
}

// hourly returns the price of a part for an hour.
func hourly(s *billing.Sku, kind string) (float64, bool) {
	if len(s.PricingInfo) == 0 {
		return 0, false
	}
	e := s.PricingInfo[len(s.PricingInfo)-1].PricingExpression // the latest
	unit := map[string]string{"ram": "GiBy.h"}[kind]
	if unit == "" {
		unit = "h"
	}
	if e == nil || e.UsageUnit != unit || len(e.TieredRates) == 0 {
		return 0, false
	}
	rate := e.TieredRates[len(e.TieredRates)-1] // the first may be free
	if rate.UnitPrice == nil || rate.UnitPrice.CurrencyCode != "USD" && rate.UnitPrice.CurrencyCode != "" {
		return 0, false
	}
	usd := float64(rate.UnitPrice.Units) + float64(rate.UnitPrice.Nanos)/1e9
	return usd, usd > 0 && usd < maxUSD && !math.IsNaN(usd)
}

// classes are classes of machine types with whole processors; types with shared processors are priced differently.
var classes = []string{"standard", "highmem", "highcpu", "highgpu", "ultragpu", "megagpu"}

// Machine returns the price of an hour of a machine; ok is false if a part has no price.
func (p *Prices) Machine(o *catalog.Offer, m catalog.Market) (usd float64, ok bool) {
	if p == nil {
		return 0, false
	}
	parts := strings.Split(o.InstanceType, "-")
	if len(parts) != 3 || !slices.Contains(classes, parts[1]) {
		return 0, false
	}
	core, okCore := p.usd[priced{o.Region, parts[0], "core", m}]
	ram, okRAM := p.usd[priced{o.Region, parts[0], "ram", m}]
	if !okCore || !okRAM {
		return 0, false
	}
	usd = core*o.VCPU + ram*o.MemoryGiB
	if o.Accelerator != "" {
		gpu, okGPU := p.usd[priced{o.Region, o.Accelerator, "gpu", m}]
		if !okGPU {
			return 0, false
		}
		usd += gpu * o.AcceleratorCount
	}
	return usd, true
}
