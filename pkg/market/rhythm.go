package market

import (
	"math"
	"time"
)

// Rhythm holds the factors by which the hours of the day and the weekend differ from a market's price level. Hours
// are counted from a Monday at 00:00 (see WeekHour). The zero value has no rhythm: all factors are 1.
type Rhythm struct {
	// Daily is the factor of each hour of the day. Weekend is the factor of Saturdays and Sundays relative to the
	// other days. 0 means not learned and counts as 1.
	Daily   [24]float64
	Weekend float64
}

// Factor returns the factor that turns a level's price into the price of that hour.
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

// WeekHour returns the number of the hour that contains a time, counted from a Monday at 00:00 UTC. Modulo 24 it is
// the hour of the day, modulo 168 the hour of the week.
func WeekHour(at time.Time) int {
	const mondayBeforeEpoch = 3 * 24 // 1970 began on a Thursday
	return int(math.Floor(float64(at.Unix())/3600)) + mondayBeforeEpoch
}

func hourOfDay(hour int) int { return (hour%24 + 24) % 24 }

func weekend(hour int) bool { return (hour%week+week)%week >= 5*24 }

const week = 168

// Constants for learning the factors: the half-life of the daily factors in hours; the maximum distance, in
// logarithms, of one hour from the mean of the day or week around it, so that spikes do not count as rhythm; and the
// weight of the prior (no rhythm) in observations. The hours of one weekend are much alike, so the weekend prior is
// worth two whole weekends.
const (
	dailyHalfLife = 500.0
	maxOff        = 1.0 // a factor of e
	dailyPrior    = 2.0
	weekendPrior  = 96.0
)

// daily returns, for each hour of the day, the mean ratio of its price to the prices of the day around it.
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

// weekly returns the mean ratio of weekend prices to the prices of the other days, over several markets.
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

// around calls tell for each hour with the difference between the logarithm of its price and the mean logarithm of
// the hours from half before it to half after it.
func around(hourly []float64, half int, tell func(i int, off float64)) {
	total := make([]float64, len(hourly)+1)
	for i, p := range hourly {
		total[i+1] = total[i] + math.Log(p)
	}
	for i := half; i+half < len(hourly); i++ {
		off := math.Log(hourly[i]) - (total[i+half]-total[i-half])/float64(2*half)
		tell(i, max(-maxOff, min(maxOff, off)))
	}
}
