package dag

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// CheckName returns an error if s is not a valid name of a task or an output.
func CheckName(s string) error { return jobtext.CheckName(s) }

// CheckEnvName returns an error if s is not a valid name of an environment variable, or is reserved for Tradewind.
func CheckEnvName(s string) error { return jobtext.CheckEnvName(s) }

// CheckText checks URIs, paths and similar texts: they are one line and not empty.
func CheckText(s string) error { return jobtext.CheckText(s) }

// CheckWord checks names that clouds use: regions, zones, instance types, accelerators.
func CheckWord(s string) error { return jobtext.CheckWord(s) }

// CheckURI checks the address of data: a URL with a scheme that can be staged, or a local path.
func CheckURI(s string) error { return jobtext.CheckURI(s) }

// Check returns an error if r is not a valid range, or exceeds most, the maximum that any machine
// has.
func (r Range) Check(most float64) error {
	if r.IsZero() {
		return nil
	}
	limits := fmt.Sprintf("more than 0 and at most %s", jobtext.FormatNumber(most))
	switch {
	case math.IsNaN(r.Min) || math.IsNaN(r.Max):
		return fault.New("is not a number", limits)
	case r.Min < 0 || r.Max < 0:
		return fault.New("cannot be negative", limits)
	case r.Min > most || r.Max > most:
		return fault.New("is more than any machine has", limits)
	case r.Max != 0 && r.Min > r.Max:
		least, most := fault.Number(r.Min), fault.Number(r.Max)
		if least == most {
			least, most = jobtext.FormatNumber(r.Min), jobtext.FormatNumber(r.Max)
		}
		return fault.New(
			fmt.Sprintf("the minimum, %s, is more than the maximum, %s", least, most),
			"write the smaller number first",
		)
	}
	return nil
}

// Check returns an error if g is negative, not a number or above MaxSize.
func (g GiB) Check() error {
	switch v := float64(g); {
	case math.IsNaN(v) || v < 0:
		return fault.New("a size cannot be negative", "")
	case g > MaxSize:
		return fault.New("a size of more than "+FormatSize(MaxSize), "")
	}
	return nil
}

// checkKeep checks Job.KeepOnFailure.
func checkKeep(d time.Duration) error {
	if d > maxKeep {
		return fault.New("is more than "+FormatDuration(maxKeep), "")
	}
	return checkDuration(d)
}

// checkDuration checks a time that must be positive.
func checkDuration(d time.Duration) error {
	switch {
	case d < 0:
		return fault.New("a time cannot be negative", "")
	case d == 0:
		return fault.New("must be more than 0", "leave it out for none")
	case d > MaxDuration:
		return fault.New("is more than "+FormatDuration(MaxDuration), "")
	}
	return nil
}

func checkBudget(u USD) error { return checkUSD(u, "a budget", "leave it out for none") }

// checkHourly checks Resources.MaxUSDPerHour.
func checkHourly(u USD) error { return checkUSD(u, "a price", "leave it out for no limit") }

// checkUSD checks an amount of money that must be positive. what is the amount's name in the error, and none is the
// hint for writing no amount.
func checkUSD(u USD, what, none string) error {
	switch v := float64(u); {
	case math.IsNaN(v) || v <= 0:
		return fault.New(what+" must be more than 0", none)
	case u > MaxBudget:
		return fault.New("is more than "+jobtext.FormatNumber(float64(MaxBudget))+" USD", "")
	}
	return nil
}

func checkAccelerator(name string, count float64) error {
	if name == "" {
		if count != 0 {
			return fault.New("a count without an accelerator", "")
		}
		return nil
	}
	if err := jobtext.CheckWord(name); err != nil {
		return err
	}
	if strings.ContainsAny(name, ":,{}") {
		return fault.New(fault.Quote(name)+" is not the name of an accelerator", "write NAME or NAME:COUNT")
	}
	if !(count > 0) || count > jobtext.MaxAccelerators { // also of NaN
		return fault.New(
			fmt.Sprintf("%s is not a valid number of accelerators", jobtext.FormatNumber(count)),
			"a count is more than 0; leave the field out for none",
		)
	}
	return nil
}

// Check returns an error if o is not one of the objectives.
func (o Objective) Check() error {
	return fault.CheckWord("objective", o, MinimizeCost, MinimizeMakespan, MinimizeWeighted)
}

// Check returns an error if i is not Retry, Fail or Wait.
func (i Infeasible) Check() error { return fault.CheckWord("choice", i, Retry, Fail, Wait) }

// Check returns an error if m is not one of the markets.
func (m Market) Check() error {
	return fault.CheckWord("market", m, MarketAuto, MarketSpot, MarketOnDemand)
}

// CheckArch checks the architecture of a processor, named like Go's GOARCH values, or AnyArch.
func CheckArch(s string) error { return fault.CheckWord("architecture", s, "amd64", "arm64", AnyArch) }

// clouds are the known names of clouds, to detect misspellings. A user's own catalogue may have others.
func clouds() []string {
	return []string{"aws", "gcp", "azure", "lambda", "kubernetes", "local", "ibm", "oci", "runpod", "vast", "nebius",
		"fluidstack", "cudo", "paperspace", "vsphere", "scp", "seeweb", "hyperbolic", "primeintellect", "slurm", "ssh"}
}

// cloudAbilities describes how the machines of a cloud differ from those of most clouds. Jobs are checked and planned
// with it if no driver is available.
type cloudAbilities struct {
	racks    bool // labels may name the racks of machines, and the driver follows rules about racks
	noMounts bool // buckets cannot be mounted
}

func abilities() map[string]cloudAbilities {
	return map[string]cloudAbilities{"kubernetes": {racks: true, noMounts: true}}
}

// CanHaveRacks reports whether the racks of a cloud's machines can be known.
func CanHaveRacks(cloud string) bool { return abilities()[cloud].racks }

// CheckCloud rejects a name that is similar to a known cloud, or contains a region. It accepts other unknown names.
func CheckCloud(s string) error {
	if err := jobtext.CheckWord(s); err != nil {
		return err
	}
	if strings.ContainsAny(s, ":/") {
		return fault.New(fault.Quote(s)+" is not the name of a cloud", "write the region in the field region")
	}
	known := clouds()
	if slices.Contains(known, s) {
		return nil
	}
	if hint := fault.DidYouMean(s, known); hint != "" {
		return fault.New("unknown cloud "+fault.Quote(s), hint)
	}
	return nil
}

// CheckPlace checks the places of a job: CLOUD, CLOUD:REGION or eu.
func CheckPlace(s string) error {
	if s == europeanUnion {
		return nil
	}
	cloud, region, some := strings.Cut(s, ":")
	if strings.Contains(s, "/") {
		return fault.New(fault.Quote(s)+" is not a place", "write CLOUD or CLOUD:REGION, such as gcp:europe-west4")
	}
	if some {
		if err := jobtext.CheckWord(region); err != nil {
			return fault.New(
				fault.Quote(s)+" is not a place",
				"write CLOUD or CLOUD:REGION, such as gcp:europe-west4",
			)
		}
	}
	return CheckCloud(cloud)
}

// CheckCPU returns an error if s is not the name of a processor.
func CheckCPU(s string) error {
	if _, err := ParseCPUsAtLeast(s); err == nil {
		return fault.New(fault.Quote(s)+" is a number of vCPUs, not a processor", "write cpus: "+s)
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(s, "shared-"), "/")
	name, _, _ = strings.Cut(name, "-")
	if !slices.ContainsFunc(processors, func(p string) bool { return strings.EqualFold(p, name) }) {
		return fault.New("unknown processor "+fault.Quote(s), fault.OneOf(s, processors))
	}
	return nil
}

// processors are the names of the generations of processors in the catalogue, in byte order. They
// are repeated here because clients check job files without the catalogue.
var processors = []string{"altra", "aws5", "broadwell", "cascadelake", "cobalt100", "coffeelake", "emeraldrapids",
	"genoa", "graniterapids", "graviton1", "graviton2", "graviton3", "graviton4", "graviton5", "haswell", "icelake",
	"ivybridge", "milan", "naples", "old", "rome", "sapphirerapids", "skylake", "turin"}
