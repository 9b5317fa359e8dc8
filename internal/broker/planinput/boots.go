package planinput

import "math"

// BootKey is the key of a machine type in Input.Boots.
func BootKey(cloud, instanceType string) string { return cloud + "/" + instanceType }

const (
	// measuredBoots is the number of observed boots that have the same weight as the catalogue's boot times.
	measuredBoots = 4
	// slowSigma is the distance of the slow end from the median, in standard deviations. 95 % of the machines boot
	// faster than the slow end.
	slowSigma = 1.645
)

// Boot returns the median and the slow end of the boot times of a machine type, in seconds. It combines the
// catalogue's times (0 if unknown) with the boots in earlier jobs of the same name. Both are taken as lognormal, and
// the catalogue counts as four boots.
func (in *Input) Boot(cloud, instanceType string, typical, slow float64) (float64, float64) {
	seen, ok := in.Boots[BootKey(cloud, instanceType)]
	if !ok || seen.Runs <= 0 {
		return typical, slow
	}
	mean, spread := seen.Log+math.Log(secondsPerHour), math.Sqrt(seen.Var)
	if typical > 0 {
		prior, apart := math.Log(max(slow, typical)/typical)/slowSigma, math.Log(typical)-mean
		w := measuredBoots / float64(measuredBoots+seen.Runs)
		mean += w * apart
		spread = math.Sqrt(w*prior*prior + (1-w)*seen.Var + w*(1-w)*apart*apart) // spread of the mixture of both
	}
	return math.Exp(mean), math.Exp(mean + slowSigma*spread)
}

const secondsPerHour = 3600
