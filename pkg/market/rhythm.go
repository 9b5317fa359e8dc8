package market

import (
	"math"
	"time"
)

// Rhythm is by how much the hours of the day and the weekend lie off a market's level. Hours are counted from the
// beginning of a Monday (WeekHour). The zero value is no rhythm.
type Rhythm struct {
	// Daily is the factor of each hour of the day, Weekend that of Saturdays and Sundays over the other days; 0 is not
	// learned, as 1.
	Daily   [24]float64
	Weekend float64
}

// Factor is by what to multiply a level's price for an hour.
func (r *Rhythm) Factor(hour int) float64 {
	factor := 1.0
	if f := r.Daily[hourOfDay(hour)]; f > 0 {
		factor = f
	}
	if r.Weekend > 0 && weekend(hour) {
		factor *= r.Weekend
	}
	return factor
}

// WeekHour is the hour in which a time lies, counted from the beginning of a Monday, UTC: modulo 24 the hour of the
// day, modulo 168 that of the week.
func WeekHour(at time.Time) int {
	const mondayBeforeEpoch = 3 * 24 // 1970 began on a Thursday
	return int(math.Floor(float64(at.Unix())/3600)) + mondayBeforeEpoch
}

func hourOfDay(hour int) int { return (hour%24 + 24) % 24 }

func weekend(hour int) bool { return (hour%week+week)%week >= 5*24 }

const week = 168

// The learning of the factors: how fast the past of the daily ones fades, how far one hour may lie off the mean of the
// day or week around it (so that spikes do not count as rhythm), and how many observations the prior of no rhythm is
// worth. Hours of one weekend are much alike, so there it takes two whole weekends.
const (
	dailyHalfLife = 500.0
	rhythmMost    = 1.0 // a factor of e
	dailyPrior    = 2.0
	weekendPrior  = 96.0
)

// daily is the mean factor by which each hour of the day lies off the day around it.
func daily(hourly []float64) (factor [24]float64) {
	var sum, weight [24]float64
	around(hourly, 12, func(i int, off float64) {
		w := math.Exp2(-float64(len(hourly)-1-i) / dailyHalfLife)
		sum[i%24] += w * off
		weight[i%24] += w
	})
	for h := range factor {
		factor[h] = math.Exp(sum[h] / (weight[h] + dailyPrior))
	}
	return factor
}

// weekly is the mean factor of the weekends of some markets over their other days.
func weekly(pasts []Past) float64 {
	var work, free, hours, weekends float64
	for _, p := range pasts {
		around(p.USD, week/2, func(i int, off float64) {
			if weekend(p.First + i) {
				free, weekends = free+off, weekends+1
			} else {
				work, hours = work+off, hours+1
			}
		})
	}
	if hours == 0 || weekends == 0 {
		return 1
	}
	return math.Exp((free/weekends - work/hours) * weekends / (weekends + weekendPrior))
}

// around tells of each hour by how much the logarithm of its price is off the mean of the hours half a span before and
// after it.
func around(hourly []float64, half int, tell func(i int, off float64)) {
	total := make([]float64, len(hourly)+1)
	for i, p := range hourly {
		total[i+1] = total[i] + math.Log(p)
	}
	for i := half; i+half < len(hourly); i++ {
		off := math.Log(hourly[i]) - (total[i+half]-total[i-half])/float64(2*half)
		tell(i, max(-rhythmMost, min(rhythmMost, off)))
	}
}
