package catalog

import (
	"math"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// dataprocUSDPerVCPUHour is Dataproc's surcharge for each vCPU-hour of a cluster.
const dataprocUSDPerVCPUHour = 0.010

// surchargeOf returns the function that prices a managed service on a machine, in USD per hour. It returns 0 if the
// service does not run on the machine.
func surchargeOf(s Service) func(*table.Machine) table.NanoUSD {
	switch s {
	case EMR:
		return emrSurcharge
	case Dataproc:
		return dataprocSurcharge
	default:
		return func(*table.Machine) table.NanoUSD { return 0 }
	}
}

// emrSurcharge is the EMRPrice column. AWS publishes a price for each instance type.
func emrSurcharge(m *table.Machine) table.NanoUSD { return m.Emr }

// dataprocSeries are the machine series Dataproc supports (Dataproc, "Supported
// machine types"): general-purpose, compute- and memory-optimised, and C4A.
// GPUs may be attached to N1.
var dataprocSeries = map[string]bool{
	"n1": true, "n2": true, "n2d": true, "e2": true, "c3": true, "c4": true, "n4": true,
	"c2": true, "c2d": true, "m1": true, "m2": true, "c4a": true,
}

func dataprocSurcharge(m *table.Machine) table.NanoUSD {
	if m.Cloud != google {
		return 0
	}
	series, _, _ := strings.Cut(m.InstanceType, "-")
	if !dataprocSeries[series] {
		return 0
	}
	switch m.InstanceType {
	case "e2-micro", "e2-small", "e2-medium": // shared cores
		return 0
	case "n1-standard-1": // too small for Dataproc's images since 2.0
		return 0
	}
	return table.NanoUSD(math.Round(m.Vcpu * dataprocUSDPerVCPUHour * 1e9))
}
