package drawn

import (
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
)

// reservedKinds is the fraction of the catalogue of which an account has some machines reserved.
const reservedKinds = 0.4

// Reserved draws the number of machines that an account has reserved, by listing ID. It draws this for some listings,
// or with all for every listing. With single, the number is one, so that no gang fits.
func Reserved(r timeline.Random, all, single bool) map[string]int {
	machines := map[string]int{}
	for _, l := range weather.Catalogue() {
		if r.Chance(reservedKinds) || all {
			machines[l.ID()] = 1 + r.IntN(3)
			if single {
				machines[l.ID()] = 1
			}
		}
	}
	return machines
}

// Committed draws the number of vCPUs of an account's usage commitments, by CLOUD/REGION.
func Committed(r timeline.Random, all bool) map[string]int {
	cpus := map[string]int{}
	for _, l := range weather.Catalogue() {
		if id := l.Cloud + "/" + l.Region; cpus[id] == 0 && (r.Chance(reservedKinds) || all) {
			cpus[id] = 4 * (1 + r.IntN(5))
		}
	}
	return cpus
}
