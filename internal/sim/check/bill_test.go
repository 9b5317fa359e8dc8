package check

import (
	"math"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
)

// A job may exceed its budget only by prices that rose and fell again between two price checks. A price that rises
// after the last check is no excuse, because leases reserve money for that.
func TestUnknownPricesDoNotOverspend(t *testing.T) {
	const listing = "aws/r/z/t"
	begin := timeline.Beginning()
	at := func(hour int, usd float64) weather.Quote {
		return weather.Quote{At: begin.Add(time.Duration(hour) * time.Hour), USD: usd}
	}
	real := weather.Course{{USD: 1}, at(2, 5), at(3, 2), at(6, 9)}
	for name, heard := range map[string]struct {
		quotes []weather.Quote
		want   float64
	}{
		"two prices of three":      {[]weather.Quote{at(0, 1), at(3, 2)}, 4},
		"all but the last":         {[]weather.Quote{at(0, 1), at(2, 5), at(3, 2)}, 0},
		"all":                      {[]weather.Quote{at(0, 1), at(2, 5), at(3, 2), at(6, 9)}, 0},
		"only the first":           {[]weather.Quote{at(0, 1)}, 0},
		"more than the real price": {[]weather.Quote{at(0, 8), at(3, 2)}, 0},
		"nothing":                  {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Checker{
				Timeline: timeline.New(1, 10, nil), heardOf: map[string][]heardOf{},
				sky: &weather.Sky{Paths: map[string]weather.Course{listing: real}},
			}
			for _, q := range heard.quotes {
				c.heardOf[listing] = append(c.heardOf[listing], heardOf{q, q.At})
			}
			m := &Machine{Bid: 10, Launched: begin}
			m.Cluster, m.Offer.Spot = "j.0.1", true
			s := &Job{machines: []*Machine{m}}
			if usd := c.missedSpikes(s, "j.0.1", listing); math.Abs(usd-heard.want) > 1e-9 {
				t.Errorf("%v USD, want %v", usd, heard.want)
			}
		})
	}
}
