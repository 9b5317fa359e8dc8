package catalog

import (
	"math"
	"strings"
)

// DataprocUSDPerVCPUHour is what Dataproc adds to each vCPU-hour of a cluster.
const DataprocUSDPerVCPUHour = 0.010

// surchargeOf is the function that prices a managed service on a machine: 0
// where the service does not run on it.
func surchargeOf(s Service) func(*machine) nanoUSD {
	switch s {
	case EMR:
		return emrSurcharge
	case Dataproc:
		return dataprocSurcharge
	default:
		return func(*machine) nanoUSD { return 0 }
	}
}

// emrSurcharge is from the EMRPrice column: AWS lists it per instance type.
func emrSurcharge(m *machine) nanoUSD { return m.emr }

// dataprocSeries are the machine series Dataproc supports (Dataproc, "Supported
// machine types"): general-purpose, compute- and memory-optimised, and C4A.
// GPUs may be attached to N1.
var dataprocSeries = map[string]bool{
	"n1": true, "n2": true, "n2d": true, "e2": true, "c3": true, "c4": true, "n4": true,
	"c2": true, "c2d": true, "m1": true, "m2": true, "c4a": true,
}

func dataprocSurcharge(m *machine) nanoUSD {
	if m.cloud != google {
		return 0
	}
	series, _, _ := strings.Cut(m.instanceType, "-")
	if !dataprocSeries[series] {
		return 0
	}
	switch m.instanceType {
	case "e2-micro", "e2-small", "e2-medium": // shared cores
		return 0
	case "n1-standard-1": // too small for Dataproc's images since 2.0
		return 0
	}
	return nanoUSD(math.Round(m.vcpu * DataprocUSDPerVCPUHour * 1e9))
}
