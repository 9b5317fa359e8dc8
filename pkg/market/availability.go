package market

import (
	"math"
	"time"
)

// States are distinguished by age. The age limits double: under 12 minutes, under 24, and so on; the last is open.
const (
	ages     = 8
	youngest = 0.2 // hours
)

// Band is the share of machines of a type that a cloud reports as interrupted in a month, as in AWS's Spot Advisor.
type Band string

// The bands of the Spot Advisor. bandUnknown means that the cloud reports nothing.
const (
	bandUnknown Band = ""
	band5       Band = "<5%"
	band10      Band = "5-10%"
	band15      Band = "10-15%"
	band20      Band = "15-20%"
	bandMore    Band = ">20%"
)

// Priors of the rates of change, per hour, and their weight in observed hours. Without observations, machines are
// expected to run about a day before they are interrupted, and capacity is expected back after an hour. If the band
// is known, it determines the first of these rates.
const (
	priorLost   = 0.05
	priorBack   = 1.0
	priorHours  = 12.0
	monthsHours = 730.0
)

// lost returns the prior rate of interruptions, per hour: the rate that reaches the middle of the band in a month.
func (b Band) lost() float64 {
	share, ok := map[Band]float64{band5: 0.025, band10: 0.075, band15: 0.125, band20: 0.175, bandMore: 0.3}[b]
	if !ok {
		return priorLost
	}
	return -math.Log(1-share) / monthsHours
}

// Availability is what was learned about one machine type in one zone: how long capacity stays available and how long
// it stays unavailable. It is a semi-Markov chain: the rate of change depends on the age of the state, because short
// outages end soon and long ones do not. Counts fade with a half-life. The zero value has no observations.
type Availability struct {
	// Band sets the prior.
	Band Band
	// HalfLife is the observed time after which an observation counts half. 0 means that observations never fade.
	HalfLife time.Duration
	// Kin are similar markets, such as other zones with the same machine type. Their rates supplement few
	// observations.
	Kin []*Availability

	up      bool
	known   bool
	age     float64 // hours in the current state
	watched [2][ages]float64
	changed [2][ages]float64
	weight  float64 // weight of a new observation; it grows, which has the same effect as fading the old ones
	changes int
}

// Observe records that machines were available, or not, for a span of time. Probes, failed and successful launches,
// running machines and interruptions are all such observations.
func (a *Availability) Observe(up bool, span time.Duration) {
	if a.weight == 0 {
		a.weight = 1
	}
	hours := span.Hours()
	switch {
	case !a.known:
		a.known, a.up, a.age = true, up, 0
	case up != a.up:
		a.changed[index(a.up)][bucket(a.age)] += a.weight
		a.up, a.age = up, 0
		a.changes++
	}
	a.watched[index(a.up)][bucket(a.age)] += a.weight * hours
	a.age += hours
	if a.HalfLife > 0 {
		a.weight *= math.Exp2(hours / a.HalfLife.Hours())
		if a.weight > 1e100 {
			a.rescale()
		}
	}
}

func (a *Availability) rescale() {
	for i := range a.watched {
		for j := range a.watched[i] {
			a.watched[i][j] /= a.weight
			a.changed[i][j] /= a.weight
		}
	}
	a.weight = 1
}

// Changes returns the number of observed state changes.
func (a *Availability) Changes() int { return a.changes }

// Now returns the current state and its age in hours. known is false without observations.
func (a *Availability) Now() (up bool, age float64, known bool) { return a.up, a.age, a.known }

func index(up bool) int {
	if up {
		return 1
	}
	return 0
}

func bucket(age float64) int {
	b := 0
	for edge := youngest; age >= edge-1e-9 && b < ages-1; edge *= 2 {
		b++
	}
	return b
}

// Rate returns the rate per hour at which a state of the given age ends; up means that machines are available. If an
// age bucket has few observations, the estimate leans on the kin's rate at that age (or, without kin, on the market's
// rate over all ages), and that rate in turn leans on the prior.
func (a *Availability) Rate(up bool, age float64) float64 { return a.rate(index(up), bucket(age)) }

func (a *Availability) rate(state, b int) float64 {
	like, weight := a.expectedRate(state, b), max(a.weight, 1)
	// The expected rate gets the weight of leanWeight observed changes.
	lean := leanWeight * weight / max(like, 0.02)
	return (a.changed[state][b] + like*lean) / (a.watched[state][b] + lean)
}

// expectedRate returns the expected rate at an age from other data: the kin's rate at this age, or the market's rate
// over all ages.
func (a *Availability) expectedRate(state, b int) float64 {
	changed, hours := a.kinChanges(state)
	if changed == 0 {
		return a.meanRate(state)
	}
	mean := changed / hours
	changed, hours = 0, 0
	for _, k := range a.Kin {
		if k.weight > 0 {
			changed += k.changed[state][b] / k.weight
			hours += k.watched[state][b] / k.weight
		}
	}
	return (changed + 1) / (hours + 1/mean)
}

// kinChanges returns how many ends of a state the kin have observed, and in how many hours.
func (a *Availability) kinChanges(state int) (changed, hours float64) {
	for _, k := range a.Kin {
		if k.weight > 0 {
			c, h := k.seen(state)
			changed, hours = changed+c/k.weight, hours+h/k.weight
		}
	}
	return changed, hours
}

// seen returns how often a state ended and how many hours it was observed, over all ages.
func (a *Availability) seen(state int) (changed, hours float64) {
	for b := range ages {
		changed += a.changed[state][b]
		hours += a.watched[state][b]
	}
	return changed, hours
}

// leanWeight is the weight of the expected rate in the rate of one age, in changes.
const leanWeight = 0.25

// MeanRate returns the rate per hour at which a state ends, over all ages; up means that machines are available.
func (a *Availability) MeanRate(up bool) float64 { return a.meanRate(index(up)) }

func (a *Availability) meanRate(state int) float64 {
	prior := priorBack
	if state == 1 {
		prior = a.Band.lost()
	}
	if changed, hours := a.kinChanges(state); hours > 0 {
		prior = (changed + prior*priorHours) / (hours + priorHours)
	}
	weight := max(a.weight, 1)
	changed, watched := a.seen(state)
	return (changed + prior*priorHours*weight) / (watched + priorHours*weight)
}

// Share returns the share of the observed time in which machines were available, or 0.5 without observations.
func (a *Availability) Share() float64 {
	_, none := a.seen(0)
	_, some := a.seen(1)
	if none+some == 0 {
		return 0.5
	}
	return some / (none + some)
}

// States is the number of states of the chain: one for each age, with and without machines available.
const States = 2 * ages

// State returns the chain's state: 0 … ages−1 if machines are available, by age, then those without machines.
func State(up bool, age float64) int {
	if up {
		return bucket(age)
	}
	return ages + bucket(age)
}

// StateUp reports whether machines are available in a state of the chain.
func StateUp(state int) bool { return state < ages }

// Matrix returns the transition matrix for steps of a fixed length, by rows: P[s·States+q]. A state moves to the next
// age at the rate whose mean is the width of its age bucket.
func (a *Availability) Matrix(step time.Duration) []float32 {
	p := make([]float32, States*States)
	h := step.Hours()
	for _, up := range []bool{true, false} {
		width := youngest
		base, other := 0, ages
		if !up {
			base, other = ages, 0
		}
		for b := range ages {
			end := 1 - math.Exp(-a.rate(index(up), b)*h)
			older := 0.0
			if b < ages-1 {
				older = min(1, h/width)
			}
			if b > 0 {
				width *= 2
			}
			row := p[(base+b)*States : (base+b+1)*States]
			row[other] = float32(end)
			row[base+min(b+1, ages-1)] += float32((1 - end) * older)
			row[base+b] += float32((1 - end) * (1 - older))
		}
	}
	return p
}
