package weather

import (
	"hash/fnv"
	"time"

	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Sky is what comes and goes by itself: a zone's capacity, a cloud's credentials, prices.
type Sky struct {
	time   *timeline.Timeline
	faults *Faults  // in force now
	traces []*Trace // if any, when spot machines can be had
	// rises is called when the spot price of a listing has changed.
	rises  func(id string, usd float64)
	fronts map[string]*front
	Rules  []*Rule
	Until  map[string]time.Time // what a story has stalled or cut off
	prices timeline.Random
	Paths  map[string]Course // of prices that have changed, by listing
	high   bool              // the tide of prices
	tidal  bool              // there is one
}

// New makes the sky of a world whose faults are those in force. rises is called when the spot price of a listing
// changes.
func New(t *timeline.Timeline, faults *Faults, traces []*Trace, rises func(id string, usd float64)) *Sky {
	return &Sky{time: t, faults: faults, traces: traces, rises: rises, fronts: map[string]*front{},
		Until: map[string]time.Time{}, Paths: map[string]Course{},
		prices: timeline.NewRandom(t.Seed, "prices")}
}

// front is a sequence of spans, well and ill in turn, drawn as far as anybody has asked.
type front struct {
	timeline.Random
	Span
	turns []time.Time // ends of spans; the first is a well one, perhaps of no length
}

func (s *Sky) front(name string, of Span) *front {
	f, ok := s.fronts[name]
	if !ok {
		f = &front{Random: timeline.NewRandom(s.time.Seed, name), Span: of}
		first := timeline.Beginning()
		if f.Uniform(0, float64(of.Well+of.Ill)) < float64(of.Well) {
			first = first.Add(f.Random.Span(of.Well))
		}
		f.turns = []time.Time{first}
		s.fronts[name] = f
	}
	return f
}

// ill says whether a moment lies in an ill span, and when the span it lies in ends.
func (f *front) ill(t time.Time) (ill bool, until time.Time) {
	for i := 0; ; i++ {
		if i == len(f.turns) {
			mean := f.Well
			if i%2 == 1 {
				mean = f.Ill
			}
			f.turns = append(f.turns, f.turns[i-1].Add(f.Random.Span(mean)))
		}
		if t.Before(f.turns[i]) {
			return i%2 == 1, f.turns[i]
		}
	}
}

// MarketOf names one offer on one market.
func MarketOf(o apitypes.Offer) string {
	name := o.Cloud + "/" + o.Region + "/" + o.Zone + "/" + o.InstanceType
	if o.Spot {
		return name + "/spot"
	}
	return name + "/on-demand"
}

// Capacity says whether a zone has machines of an offer to give, and until when that stays so.
func (s *Sky) Capacity(o apitypes.Offer, nodes int) (has bool, until time.Time) {
	of := s.faults.OnDemand
	if o.Spot {
		if len(s.traces) > 0 && s.faults.Spot.Well > 0 {
			h := fnv.New64a()
			_, _ = h.Write([]byte(MarketOf(o))) // never fails
			n := h.Sum64() + s.time.Seed
			trace := s.traces[n%uint64(len(s.traces))]
			return trace.capacity(s.time.Since()+time.Duration(n%1000)*time.Hour, s.time.Now, nodes)
		}
		of = s.faults.Spot
	}
	if of.Well == 0 {
		return true, time.Time{}
	}
	ill, until := s.front(MarketOf(o), of).ill(s.time.Now)
	return !ill, until
}

// Outage says whether a cloud takes nobody's credentials.
func (s *Sky) Outage(name string) bool {
	if s.faults.Outages.Well == 0 {
		return false
	}
	ill, _ := s.front("outage "+name, s.faults.Outages).ill(s.time.Now)
	return ill
}

// Stalled says whether a function's messages are not taken, and until when that stays so.
func (s *Sky) Stalled(fn string) (bool, time.Time) {
	if until := s.Until[fn]; s.time.Now.Before(until) {
		return true, until
	}
	if s.faults.Stalls.Well == 0 {
		return false, time.Time{}
	}
	return s.front("stall "+fn, s.faults.Stalls).ill(s.time.Now)
}

// Cut says whether a machine has no connection.
func (s *Sky) Cut(machine string) bool {
	if s.time.Now.Before(s.Until[machine]) {
		return true
	}
	if s.faults.Partition.Well == 0 {
		return false
	}
	ill, _ := s.front("partition "+machine, s.faults.Partition).ill(s.time.Now)
	return ill
}

// Rule is weather that a story ordered: what happens to calls that match, until a moment or for a number of calls.
type Rule struct {
	Match apitypes.Offer // empty fields match everything
	Any   bool           // both markets; else that of match
	What  string         // capacity, quota, auth, throttled, transient, unseen, hang
	Until time.Time
	Times int           // calls left; -1 is any number
	Late  time.Duration // with hang: when the machines appear
}

func (r *Rule) matches(o apitypes.Offer, now time.Time) bool {
	return r.Times != 0 && now.Before(r.Until) &&
		(r.Match.Cloud == "" || r.Match.Cloud == o.Cloud) && (r.Match.Region == "" || r.Match.Region == o.Region) &&
		(r.Match.Zone == "" || r.Match.Zone == o.Zone) &&
		(r.Match.InstanceType == "" || r.Match.InstanceType == o.InstanceType) && (r.Any || r.Match.Spot == o.Spot)
}

// Ordered returns what a story has happen to a launch, the zero rule for nothing.
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
