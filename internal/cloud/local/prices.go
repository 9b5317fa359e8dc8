package local

import (
	"errors"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// priceRule sets the price of spot machines from a time on, until a later rule that matches:
//
//	prices:
//	  - match: {cloud: aws, zone: "use1-*", instanceType: p3.2xlarge}
//	    at: 2h                                  # virtual time since the broker first started
//	    times: 5                                # the catalogue's spot price; or usd: 3.06, per hour
type priceRule struct {
	Match match    `yaml:"match"`
	At    duration `yaml:"at"`
	Times float64  `yaml:"times"`
	USD   float64  `yaml:"usd"`
}

func (r *priceRule) check() error {
	const most = 1e6
	switch {
	case (r.Times == 0) == (r.USD == 0):
		return errors.New("needs one of times and usd")
	case !(r.Times >= 0 && r.Times < most) || !(r.USD >= 0 && r.USD < most):
		return errors.New("times and usd must be positive numbers")
	case r.Match.Task != "" || len(r.Match.Labels) > 0 || r.Match.Market == "on-demand":
		return errors.New(
			"prices are for spot machines and the same for all tasks: match no task, label or other market",
		)
	}
	return r.Match.check()
}

// Priced reports whether the scenario sets a price for spot machines of an offer, now or later.
func (s *Scenario) Priced(o apitypes.Offer) bool {
	o.Spot = true
	for i := range s.prices {
		if s.prices[i].Match.holds(Request{Offer: o}) {
			return true
		}
	}
	return false
}

// Price returns the price of a spot machine of an offer in USD per hour, and the time since which it is valid. It is
// the price of the latest rule whose time has come, or else list.
func (s *Scenario) Price(o apitypes.Offer, list float64, since time.Duration) (usd float64, at time.Duration) {
	o.Spot = true
	usd, at = list, -1
	for i := range s.prices {
		r := &s.prices[i]
		if t := time.Duration(r.At); t > since || t < at || !r.Match.holds(Request{Offer: o}) {
			continue
		}
		at = time.Duration(r.At)
		usd = r.USD
		if r.Times > 0 {
			usd = r.Times * list
		}
	}
	return usd, max(at, 0)
}

// Age returns the virtual time since the first host on the directory started.
func (h *Host) Age() time.Duration { return h.cfg.Clock.Now().Sub(h.start) }
