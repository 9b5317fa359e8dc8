package market

import (
	"math"
	"time"
)

// Ages of a state are told apart by doubling: younger than 12 minutes, than 24, and so on; the last is open.
const (
	ages     = 8
	youngest = 0.2 // hours
)

// Band is how often a cloud says that machines of a type are taken in a month, as in AWS's Spot Advisor.
type Band string

// The bands of the Spot Advisor, and none where nothing is known.
const (
	BandUnknown Band = ""
	Band5       Band = "<5%"
	Band10      Band = "5-10%"
	Band15      Band = "10-15%"
	Band20      Band = "15-20%"
	BandMore    Band = ">20%"
)

// Priors of the rates of change, per hour, where nothing was seen yet, and the hours of watching that they are worth:
// machines that are kept for a day, and are to be had again after an hour. Where a band is known it says how long they
// are kept.
const (
	priorLost   = 0.05
	priorBack   = 1.0
	priorHours  = 12.0
	monthsHours = 730.0
)

// lost is the prior rate at which a machine is taken, per hour: that at which the middle of the band is reached in a
// month.
func (b Band) lost() float64 {
	share, ok := map[Band]float64{Band5: 0.025, Band10: 0.075, Band15: 0.125, Band20: 0.175, BandMore: 0.3}[b]
	if !ok {
		return priorLost
	}
	return -math.Log(1-share) / monthsHours
}

// Availability is what was learned of whether a zone has machines of a type: how long it stays so, and how long it
// stays otherwise. It is a semi-Markov chain: the rate of change depends on the age of the state, as short outages end
// soon and long ones do not. Watched counts fade with a half-life. The zero value knows nothing.
type Availability struct {
	// Band is the prior.
	Band Band
	// HalfLife is after how much watching an observation counts half; 0 is never.
	HalfLife time.Duration
	// Kin are others of its kind, as zones with the same type of machine, by whose rates little of one's own is judged.
	Kin []*Availability

	up      bool
	known   bool
	age     float64 // hours in the present state
	watched [2][ages]float64
	changed [2][ages]float64
	weight  float64 // of a new observation; grows instead of the old ones fading
	changes int
}

// Observe takes in that for a span machines were to be had, or not: a probe, a launch that failed or went well, a
// machine held, a machine taken.
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

// Changes is how many changes of state were seen.
func (a *Availability) Changes() int { return a.changes }

// Now is the present state and for how many hours it has been so; known is false where nothing was seen.
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

// Rate is at what rate per hour a state of that age ends: of having machines, or of having none. The rate of a bucket
// with little to go by leans on that of its kin at that age, or without kin on that of all ages, and that on the prior.
func (a *Availability) Rate(up bool, age float64) float64 { return a.rate(index(up), bucket(age)) }

func (a *Availability) rate(state, b int) float64 {
	like, weight := a.expected(state, b), max(a.weight, 1)
	// What is expected counts like a watch in which leaning changes would have been seen.
	lean := leaning * weight / max(like, 0.02)
	return (a.changed[state][b] + like*lean) / (a.watched[state][b] + lean)
}

// expected is the rate of an age by what else is known: that of its kin at this age, or its own over all ages.
func (a *Availability) expected(state, b int) float64 {
	changed, hours := a.ofKin(state)
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

// ofKin is how many changes of a state its kin had seen, in how many hours.
func (a *Availability) ofKin(state int) (changed, hours float64) {
	for _, k := range a.Kin {
		if k.weight > 0 {
			c, h := k.seen(state)
			changed, hours = changed+c/k.weight, hours+h/k.weight
		}
	}
	return changed, hours
}

// seen is how often a state ended, and how many hours it was watched, over all ages.
func (a *Availability) seen(state int) (changed, hours float64) {
	for b := range ages {
		changed += a.changed[state][b]
		hours += a.watched[state][b]
	}
	return changed, hours
}

// leaning is how many changes the mean rate is worth in the rate of one age.
const leaning = 0.25

// MeanRate is the rate per hour at which having machines ends, or having none, over all ages.
func (a *Availability) MeanRate(up bool) float64 { return a.meanRate(index(up)) }

func (a *Availability) meanRate(state int) float64 {
	prior := priorBack
	if state == 1 {
		prior = a.Band.lost()
	}
	if changed, hours := a.ofKin(state); hours > 0 {
		prior = (changed + prior*priorHours) / (hours + priorHours)
	}
	weight := max(a.weight, 1)
	changed, watched := a.seen(state)
	return (changed + prior*priorHours*weight) / (watched + priorHours*weight)
}

// Share is the share of time in which there were machines, of the time watched.
func (a *Availability) Share() float64 {
	_, none := a.seen(0)
	_, some := a.seen(1)
	if none+some == 0 {
		return 0.5
	}
	return some / (none + some)
}

// States is the number of states of the chain: each age of having machines, and each of having none.
const States = 2 * ages

// State is the chain's state: 0 … ages−1 with machines, by age, then those without.
func State(up bool, age float64) int {
	if up {
		return bucket(age)
	}
	return ages + bucket(age)
}

// StateUp says whether a state of the chain has machines.
func StateUp(state int) bool { return state < ages }

// Matrix is the chain with steps of a fixed length: P[s·States+q] by rows. A state grows older at the rate that takes
// it through its bucket in the mean.
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
