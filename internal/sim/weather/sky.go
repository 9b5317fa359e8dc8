package weather

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Sky has the changing conditions of a world: zones' capacity, clouds' credentials, prices.
type Sky struct {
	time   *timeline.Timeline
	faults *Faults  // current
	traces []*Trace // if any, the availability of spot machines
	// rises is called when the spot price of a listing has changed.
	onPrice func(id string, usd float64)
	fronts  map[string]*front
	Rules   []*Rule
	Until   map[string]time.Time // end of stalls and cuts that a story ordered
	prices  timeline.Random
	Paths   map[string]Course // of prices that have changed, by listing
	high    bool              // the tide of prices is high
	tidal   bool              // prices have tides
}

// New returns the sky of a world with the current faults. rises is called when the spot price of a listing changes.
func New(t *timeline.Timeline, faults *Faults, traces []*Trace, rises func(id string, usd float64)) *Sky {
	return &Sky{time: t, faults: faults, traces: traces, onPrice: rises, fronts: map[string]*front{},
		Until: map[string]time.Time{}, Paths: map[string]Course{},
		prices: timeline.NewRandom(t.Seed, "prices")}
}

// front is a sequence of alternating well and ill times, drawn as far as needed.
type front struct {
	timeline.Random
	Span
	turns []time.Time // ends of times; the first is well, and may be empty
}

func (s *Sky) front(name string, of Span) *front {
	f, ok := s.fronts[name]
	if !ok {
		f = &front{Random: timeline.NewRandom(s.time.Seed, name), Span: of}
		first := timeline.Beginning()
		if f.Uniform(0, float64(of.Good+of.Bad)) < float64(of.Good) {
			first = first.Add(f.Random.Span(of.Good))
		}
		f.turns = []time.Time{first}
		s.fronts[name] = f
	}
	return f
}

// ill reports whether a time is ill, and until when.
func (f *front) ill(t time.Time) (ill bool, until time.Time) {
	for i := 0; ; i++ {
		if i == len(f.turns) {
			mean := f.Good
			if i%2 == 1 {
				mean = f.Bad
			}
			f.turns = append(f.turns, f.turns[i-1].Add(f.Random.Span(mean)))
		}
		if t.Before(f.turns[i]) {
			return i%2 == 1, f.turns[i]
		}
	}
}

// MarketOf returns the name of an offer with its market.
func MarketOf(o apitypes.Offer) string {
	name := o.Cloud + "/" + o.Region + "/" + o.Zone + "/" + o.InstanceType
	if o.Spot {
		return name + "/spot"
	}
	return name + "/on-demand"
}

// Capacity reports whether a zone has capacity for the machines of an offer, and until when that stays so.
func (s *Sky) Capacity(o apitypes.Offer, nodes int) (has bool, until time.Time) {
	of := s.faults.OnDemand
	if o.Spot {
		if len(s.traces) > 0 && s.faults.Spot.Good > 0 {
			h := fnv.New64a()
			_, _ = h.Write([]byte(MarketOf(o))) // never fails
			n := h.Sum64() + s.time.Seed
			trace := s.traces[n%uint64(len(s.traces))]
			return trace.capacity(s.time.Since()+time.Duration(n%1000)*time.Hour, s.time.Now, nodes)
		}
		of = s.faults.Spot
	}
	if of.Good == 0 {
		return true, time.Time{}
	}
	ill, until := s.front(MarketOf(o), of).ill(s.time.Now)
	return !ill, until
}

// Outage reports whether a cloud accepts no credentials.
func (s *Sky) Outage(name string) bool {
	if s.faults.Outages.Good == 0 {
		return false
	}
	ill, _ := s.front("outage "+name, s.faults.Outages).ill(s.time.Now)
	return ill
}

// Stalled reports whether a function handles no messages, and until when.
func (s *Sky) Stalled(fn string) (bool, time.Time) {
	if until := s.Until[fn]; s.time.Now.Before(until) {
		return true, until
	}
	if s.faults.Stalls.Good == 0 {
		return false, time.Time{}
	}
	return s.front("stall "+fn, s.faults.Stalls).ill(s.time.Now)
}

// Cut reports whether a machine has no connection.
func (s *Sky) Cut(machine string) bool {
	if s.time.Now.Before(s.Until[machine]) {
		return true
	}
	if s.faults.Partition.Good == 0 {
		return false
	}
	ill, _ := s.front("partition "+machine, s.faults.Partition).ill(s.time.Now)
	return ill
}

// Closed reports whether no agent reaches the broker, for at most half an hour.
func (s *Sky) Closed() bool {
	if s.faults.Closed.Good == 0 {
		return false
	}
	f := s.front("closed", s.faults.Closed)
	ill, until := f.ill(s.time.Now)
	if !ill {
		return false
	}
	began := f.turns[slices.Index(f.turns, until)-1]
	return s.time.Now.Sub(began) < closedMost
}

// closedMost is the longest outage of the endpoint.
const closedMost = 30 * time.Minute

// Rule is a condition ordered by a story: the fate of matching launches, until a time or for a number of calls.
type Rule struct {
	Match apitypes.Offer // empty fields match everything
	Any   bool           // both markets; otherwise that of Match
	What  string         // capacity, quota, auth, throttled, transient, unseen, hang
	Until time.Time
	Times int           // remaining calls; -1 is unlimited
	Late  time.Duration // with hang: when the machines appear
}

func (r *Rule) matches(o apitypes.Offer, now time.Time) bool {
	return r.Times != 0 && now.Before(r.Until) &&
		(r.Match.Cloud == "" || r.Match.Cloud == o.Cloud) && (r.Match.Region == "" || r.Match.Region == o.Region) &&
		(r.Match.Zone == "" || r.Match.Zone == o.Zone) &&
		(r.Match.InstanceType == "" || r.Match.InstanceType == o.InstanceType) && (r.Any || r.Match.Spot == o.Spot)
}

// Ordered returns the rule that applies to a launch, the zero rule for none.
func (s *Sky) Ordered(o apitypes.Offer) Rule {
	for _, r := range s.Rules {
		if r.matches(o, s.time.Now) {
			if r.Times > 0 {
				r.Times--
			}
			return *r
		}
	}
	return Rule{}
}
