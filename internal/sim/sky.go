package sim

import (
	"hash/fnv"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// sky is what comes and goes by itself: a zone's capacity, a cloud's credentials, prices.
type sky struct {
	w      *world
	fronts map[string]*front
	rules  []*rule
	until  map[string]time.Time // what a story has stalled or cut off
	prices random
	paths  map[string]course // of prices that have changed, by listing
	high   bool              // the tide of prices
	tidal  bool              // there is one
}

func newSky(w *world) *sky {
	return &sky{w: w, fronts: map[string]*front{}, until: map[string]time.Time{}, paths: map[string]course{},
		prices: newRandom(w.seed, "prices")}
}

// front is a sequence of spans, well and ill in turn, drawn as far as anybody has asked.
type front struct {
	random
	span
	turns []time.Time // ends of spans; the first is a well one, perhaps of no length
}

func (s *sky) front(name string, of span) *front {
	f, ok := s.fronts[name]
	if !ok {
		f = &front{random: newRandom(s.w.seed, name), span: of}
		first := beginning()
		if f.uniform(0, float64(of.Well+of.Ill)) < float64(of.Well) {
			first = first.Add(f.random.span(of.Well))
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
			f.turns = append(f.turns, f.turns[i-1].Add(f.random.span(mean)))
		}
		if t.Before(f.turns[i]) {
			return i%2 == 1, f.turns[i]
		}
	}
}

// market names one offer on one market.
func marketOf(o cloud.Offer) string {
	name := o.Cloud + "/" + o.Region + "/" + o.Zone + "/" + o.InstanceType
	if o.Spot {
		return name + "/spot"
	}
	return name + "/on-demand"
}

// capacity says whether a zone has machines of an offer to give, and until when that stays so.
func (s *sky) capacity(o cloud.Offer, nodes int) (has bool, until time.Time) {
	of := s.w.faults.OnDemand
	if o.Spot {
		if traces := s.w.opt.Traces; len(traces) > 0 && s.w.faults.Spot.Well > 0 {
			h := fnv.New64a()
			_, _ = h.Write([]byte(marketOf(o))) // never fails
			n := h.Sum64() + s.w.seed
			return traces[n%uint64(len(traces))].capacity(s.w.since()+time.Duration(n%1000)*time.Hour, s.w.now, nodes)
		}
		of = s.w.faults.Spot
	}
	if of.Well == 0 {
		return true, time.Time{}
	}
	ill, until := s.front(marketOf(o), of).ill(s.w.now)
	return !ill, until
}

// outage says whether a cloud takes nobody's credentials.
func (s *sky) outage(name string) bool {
	if s.w.faults.Outages.Well == 0 {
		return false
	}
	ill, _ := s.front("outage "+name, s.w.faults.Outages).ill(s.w.now)
	return ill
}

// stalled says whether a function's messages are not taken, and until when that stays so.
func (s *sky) stalled(fn string) (bool, time.Time) {
	if until := s.until[fn]; s.w.now.Before(until) {
		return true, until
	}
	if s.w.faults.Stalls.Well == 0 {
		return false, time.Time{}
	}
	return s.front("stall "+fn, s.w.faults.Stalls).ill(s.w.now)
}

// cut says whether a machine has no connection.
func (s *sky) cut(machine string) bool {
	if s.w.now.Before(s.until[machine]) {
		return true
	}
	if s.w.faults.Partition.Well == 0 {
		return false
	}
	ill, _ := s.front("partition "+machine, s.w.faults.Partition).ill(s.w.now)
	return ill
}

// rule is weather that a story ordered: what happens to calls that match, until a moment or for a number of calls.
type rule struct {
	match cloud.Offer // empty fields match everything
	any   bool        // both markets; else that of match
	what  string      // capacity, quota, auth, throttled, transient, unseen, hang
	until time.Time
	times int           // calls left; -1 is any number
	late  time.Duration // with hang: when the machines appear
}

func (r *rule) matches(o cloud.Offer, now time.Time) bool {
	return r.times != 0 && now.Before(r.until) &&
		(r.match.Cloud == "" || r.match.Cloud == o.Cloud) && (r.match.Region == "" || r.match.Region == o.Region) &&
		(r.match.Zone == "" || r.match.Zone == o.Zone) &&
		(r.match.InstanceType == "" || r.match.InstanceType == o.InstanceType) && (r.any || r.match.Spot == o.Spot)
}

// ordered returns what a story has happen to a launch, the zero rule for nothing.
func (s *sky) ordered(o cloud.Offer) rule {
	for _, r := range s.rules {
		if r.matches(o, s.w.now) {
			if r.times > 0 {
				r.times--
			}
			return *r
		}
	}
	return rule{}
}
