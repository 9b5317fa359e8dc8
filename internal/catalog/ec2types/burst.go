package ec2types

import "strings"

// baselines are the shares of each vCPU that burstable types may use without surplus credits, by size. The largest
// sizes of T2 have other shares (EC2 User Guide, "Key concepts for burstable performance instances", credit table).
var (
	baselines = map[string]float64{
		"nano": 0.05, "micro": 0.1, "small": 0.2, "medium": 0.2, "large": 0.3, "xlarge": 0.4, "2xlarge": 0.4,
	}
	baselinesT2 = map[string]float64{"xlarge": 0.225, "2xlarge": 0.17}
)

// surplusUSD is the price of an hour of one vCPU above the baseline in unlimited mode on Linux (EC2 on-demand pricing,
// "T2/T3/T4g Unlimited Mode Pricing").
var surplusUSD = map[string]float64{"t2": 0.05, "t3": 0.05, "t3a": 0.05, "t4g": 0.04}

// Burst returns the additional cost of a burstable type with busy vCPUs in unlimited mode, USD per hour. burstable is
// false for other types.
func Burst(instanceType string, vcpus float64) (usd float64, burstable bool) {
	family, _, _ := strings.Cut(instanceType, ".")
	perHour, burstable := surplusUSD[family]
	return perHour * vcpus * (1 - Baseline(instanceType)), burstable
}

// Baseline returns the share of each vCPU that a type may use without surplus credits: 1 if it is not burstable.
func Baseline(instanceType string) float64 {
	family, size, _ := strings.Cut(instanceType, ".")
	if _, burstable := surplusUSD[family]; !burstable {
		return 1
	}
	if other, ok := baselinesT2[size]; ok && family == "t2" {
		return other
	}
	return baselines[size]
}
