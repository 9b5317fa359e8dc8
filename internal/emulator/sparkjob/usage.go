package sparkjob

import (
	"strconv"
	"strings"
	"time"
)

// Usage is the billed usage of an account: the machines of a cluster, or the driver and the executors of a run on a
// serverless service.
type Usage struct {
	Service      string // as in job files
	InstanceType string // of a cluster
	Machines     int    // of a cluster
	Workers      int    // of a serverless run
	VCPUs        int    // of one worker
	GiB          float64
	// From is the time at which the machines were requested or the run began. Until is the time at which they ended,
	// or zero while they exist.
	From, Until time.Time
}

// Hours is the billed time: at least a minute, in whole seconds.
func (u Usage) Hours(now time.Time) float64 {
	if !u.Until.IsZero() {
		now = u.Until
	}
	held := max(now.Sub(u.From), time.Minute)
	return (held + time.Second - 1).Truncate(time.Second).Hours()
}

// Serverless returns the usage of a run that was submitted with these properties of Spark. A worker has a tenth more
// memory than Java's heap.
func Serverless(service string, properties map[string]string) Usage {
	number := func(name string) int {
		n, _ := strconv.Atoi(strings.TrimSuffix(properties[name], "m"))
		return n
	}
	return Usage{
		Service: service, Workers: 1 + number("spark.dynamicAllocation.initialExecutors"),
		VCPUs: number("spark.executor.cores"), GiB: float64(number("spark.executor.memory")) * 1.1 / 1024,
	}
}
