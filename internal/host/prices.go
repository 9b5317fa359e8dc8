package host

import (
	"context"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/cloud/local"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// feed is the price feed of a scenario.
type feed struct {
	script *local.Scenario
	offers []priced
	now    func() time.Time     // virtual
	since  func() time.Duration // virtual time since the first host started on the state folder
}

// priced is an offer for which the scenario has prices.
type priced struct {
	id    string
	offer apitypes.Offer
	list  float64 // spot price in the catalogue
}

func newFeed(script *local.Scenario, c *catalog.Catalog, now func() time.Time, since func() time.Duration) *feed {
	f := &feed{script: script, now: now, since: since}
	for o := range c.All() {
		if !o.HasSpot {
			continue
		}
		as := apitypes.Offer{
			Cloud: o.Cloud, Region: o.Region, Zone: o.Zone, InstanceType: o.InstanceType,
			Accelerator: o.Accelerator, AccelCount: o.AcceleratorCount, Spot: true,
		}
		if script.Priced(as) {
			f.offers = append(f.offers, priced{id: o.ID(), offer: as, list: o.SpotUSD})
		}
	}
	return f
}

// SpotPrices implements broker.Prices.
func (f *feed) SpotPrices(context.Context) ([]events.PriceTick, error) {
	now, age := f.now(), f.since()
	ticks := make([]events.PriceTick, len(f.offers))
	for i, p := range f.offers {
		usd, at := f.script.Price(p.offer, p.list, age)
		ticks[i] = events.PriceTick{Offer: p.id, USD: usd, Since: now.Add(at - age)}
	}
	return ticks, nil
}

// tickLeast is the minimum interval for checking spot machines and prices, in wall time.
const tickLeast = 500 * time.Millisecond

// ticks emits a market tick at regular intervals.
func (h *Host) ticks(ctx context.Context) {
	ticker := time.NewTicker(max(h.clock.Wall(h.config().TickEvery), tickLeast))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		id := "tick-" + h.clock.Now().UTC().Format(time.RFC3339Nano)
		err := h.broker.Functions.Emit(ctx, "tradewind/schedule", id, events.MarketTicked{})
		if err != nil && ctx.Err() == nil {
			h.log.Warn("schedule", "err", err)
		}
	}
}
