package hardware

import (
	_ "embed"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"
)

//go:embed data/boot.csv
var bootCSV []byte

// Probabilities are those of the quantiles in data/boot.csv and in [Boot].
var Probabilities = [...]float64{0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99}

// SlowBoot is the probability with which a machine has booted within [Boot.Slow].
const SlowBoot = 0.95

// Boot is the distribution of the time from the request of a machine to the first line of its start script: its
// quantiles at [Probabilities], in seconds.
type Boot [len(Probabilities)]float64

// Quantile returns the time within which the share p of the machines have booted, between 0 and 1.
func (b *Boot) Quantile(p float64) time.Duration {
	i, found := slices.BinarySearch(Probabilities[:], p)
	switch {
	case found:
		return seconds(b[i])
	case i == 0:
		return seconds(b[0])
	case i == len(b):
		return seconds(b[len(b)-1])
	}
	from, to := Probabilities[i-1], Probabilities[i]
	return seconds(b[i-1] + (b[i]-b[i-1])*(p-from)/(to-from))
}

// Typical is the median.
func (b *Boot) Typical() time.Duration { return b.Quantile(0.5) }

// Slow is the slow end, for deadlines.
func (b *Boot) Slow() time.Duration { return b.Quantile(SlowBoot) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// bootGroup is a line of data/boot.csv: the boot times of a cloud's types with up to a number of vCPUs.
type bootGroup struct {
	cloud string
	vcpus float64
	boot  Boot
}

// bootGroups reads the embedded data/boot.csv. Groups of one cloud are in the order of their vCPUs.
var bootGroups = sync.OnceValue(func() []bootGroup {
	var all []bootGroup
	for _, record := range mustRead(bootCSV)[1:] {
		g := bootGroup{cloud: record[0], vcpus: math.Inf(1)}
		if record[1] != "" {
			g.vcpus = mustParse(record[1])
		}
		for i := range g.boot {
			g.boot[i] = mustParse(record[i+2])
		}
		all = append(all, g)
	}
	return all
})

func mustParse(s string) float64 {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic(err)
	}
	return x
}

// BootOf returns the boot times of a machine type, measured on machines of the same cloud and a similar size. Those of
// Lambda Cloud are from its documentation: three to five minutes, and ten to fifteen for eight GPUs. ok is false for a
// cloud without measurements.
func BootOf(cloud string, vcpu, accelerators float64) (b Boot, ok bool) {
	if cloud == "lambda" {
		if accelerators >= 8 {
			return Boot{480, 540, 600, 660, 750, 810, 870, 900, 1200}, true
		}
		return Boot{120, 150, 180, 210, 240, 270, 300, 330, 600}, true
	}
	for _, g := range bootGroups() {
		if g.cloud == cloud && vcpu <= g.vcpus {
			return g.boot, true
		}
	}
	return Boot{}, false
}
