package hardware

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/tradewind-broker/tradewind/internal/base/lazyregexp"
	"github.com/tradewind-broker/tradewind/internal/catalog/ec2types"
)

// Reference is the machine type whose vCPUs have speed 1.
const Reference = "m6i.xlarge"

// Speed is the throughput of one vCPU while all vCPUs of the machine are busy, relative to [Reference].
type Speed struct {
	// CPU is the processor as data/cpus.csv names it; "" for a type of an unknown family.
	CPU string
	// Typical is the speed to expect.
	Typical float64
	// Slow is the slow side of the estimate: about nine tasks in ten are at least this fast.
	Slow float64
	// Measured means that this type itself was measured.
	Measured bool
	// Baseline is the share of each vCPU that a burstable or shared-core type may use without limit; 1 for other types.
	// Typical already includes it.
	Baseline float64
	// Threads is the number of vCPUs that a measured type has; 0 if it was not measured.
	Threads float64
}

// Factors by which a planned speed is below the typical speed: for a measured type, for a type of a family whose
// processor was measured in another family, and for a type of a family with several processors. Nine in ten of the
// measured types are within 11 % of the estimate from the other families.
const (
	slowMeasured  = 0.9
	slowEstimated = 0.85
	slowSeveral   = 0.7
)

// perCore is the ratio of the speed of a vCPU with its own core to that of a vCPU which is one of a core's two
// threads. It is the median of the processors that are sold in both ways.
const perCore = 1.5

// nearer is the rate at which the weight of a measured type decreases with the difference in size, per doubling of
// the vCPUs. Large machines are slower per vCPU: their cores share caches, memory channels and the power budget.
const nearer = 1.5

//go:embed data/speed.csv
var speedCSV []byte

//go:embed data/cpus.csv
var cpusCSV []byte

// Type is a machine type with its measured speed.
type Type struct {
	Cloud, Name string
	VCPU        float64
	// CPU is the processor as data/cpus.csv names it.
	CPU string
	// Speed is relative to [Reference].
	Speed float64
	// Estimated means that the speed was estimated when the table was made.
	Estimated bool
}

// Table has the known speeds of machine types.
type Table struct {
	types map[[2]string]Type
	byCPU map[string][]Type // measured types
}

// family is a line of data/cpus.csv.
type family struct {
	cloud, cpu string
	several    bool
	pattern    lazyregexp.Regexp
}

// Default is the table in the program.
var Default = sync.OnceValue(func() *Table {
	types, err := ReadTypes(speedCSV)
	if err != nil {
		panic(err) // a test reads the embedded table
	}
	return New(types)
})

// New makes a table of types.
func New(types []Type) *Table {
	t := &Table{types: map[[2]string]Type{}, byCPU: map[string][]Type{}}
	for _, typ := range types {
		t.types[[2]string{typ.Cloud, typ.Name}] = typ
		if !typ.Estimated {
			t.byCPU[typ.CPU] = append(t.byCPU[typ.CPU], typ)
		}
	}
	return t
}

// families reads the embedded data/cpus.csv.
var families = sync.OnceValue(func() []family {
	var all []family
	for _, record := range mustRead(cpusCSV)[1:] {
		all = append(all, family{cloud: record[0], cpu: record[2], several: record[3] != "",
			pattern: lazyregexp.New("^(?:" + record[1] + ")$")})
	}
	return all
})

// mustRead reads an embedded file, which a test has read.
func mustRead(raw []byte) [][]string {
	r := csv.NewReader(bytes.NewReader(raw))
	r.Comment = '#'
	records, err := r.ReadAll()
	if err != nil {
		panic(err)
	}
	return records
}

// ReadTypes reads a table in the form of data/speed.csv: cloud, type, vCPUs, processor, speed, and "estimated" for
// speeds that were not measured.
func ReadTypes(raw []byte) ([]Type, error) {
	r := csv.NewReader(bytes.NewReader(raw))
	r.Comment, r.FieldsPerRecord = '#', 6
	records, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	types := make([]Type, 0, len(records))
	for _, record := range records[min(1, len(records)):] {
		t := Type{Cloud: record[0], Name: record[1], CPU: record[3], Estimated: record[5] != ""}
		var errVCPU, errSpeed error
		t.VCPU, errVCPU = strconv.ParseFloat(record[2], 64)
		t.Speed, errSpeed = strconv.ParseFloat(record[4], 64)
		if errVCPU != nil || errSpeed != nil || !(t.VCPU > 0) || !(t.Speed > 0) {
			return nil, fmt.Errorf("hardware: %s/%s: vCPUs %q, speed %q", t.Cloud, t.Name, record[2], record[4])
		}
		types = append(types, t)
	}
	return types, nil
}

// CPU returns the processor of a machine type by its name, and whether the cloud chooses among several. It is empty
// for a type of an unknown family.
func CPU(cloud, instanceType string) (cpu string, several bool) {
	for _, f := range families() {
		if f.cloud == cloud && f.pattern.MatchString(instanceType) {
			return f.cpu, f.several
		}
	}
	return "", true
}

// Speed returns the speed of a machine type. If the type was not measured, it is the mean of the types with the same
// processor: types of similar size have a higher weight, and types of the same cloud are preferred. The speed of a
// burstable type is the speed of its baseline, because benchmarks ran on credits.
func (t *Table) Speed(cloud, instanceType string, vcpu float64) Speed {
	known, ok := t.types[[2]string{cloud, instanceType}]
	s := Speed{CPU: known.CPU, Typical: known.Speed, Measured: ok && !known.Estimated,
		Baseline: Baseline(cloud, instanceType)}
	slow := slowMeasured
	if s.Measured {
		s.Threads = known.VCPU
	} else {
		cpu, several := CPU(cloud, instanceType)
		if !ok {
			s.CPU, s.Typical = cpu, t.estimate(cloud, cpu, vcpu)
		}
		if slow = slowEstimated; several {
			slow = slowSeveral
		}
	}
	if s.Baseline < 1 {
		if cpu, shared := strings.CutPrefix(s.CPU, sharedCore); shared {
			s.Typical = t.estimate(cloud, cpu, vcpu)
		}
		s.Typical *= s.Baseline
	}
	s.Slow = s.Typical * slow
	return s
}

// sharedCore marks the processors of types that get a share of a core. Their measured speed is neither that of a core
// nor that of the share.
const sharedCore = "shared-"

// SpeedOf returns the speed of a machine type of any cloud in the embedded table. ok is false if the type is unknown.
// No two clouds have types of the same name.
func SpeedOf(instanceType string) (s Speed, ok bool) {
	for _, cloud := range []string{"aws", "azure", "gcp", "lambda"} {
		if known, ok := Default().types[[2]string{cloud, instanceType}]; ok {
			return Default().Speed(cloud, instanceType, known.VCPU), true
		}
	}
	return s, false
}

// estimate is the speed of a type with a processor that was measured in other types.
func (t *Table) estimate(cloud, cpu string, vcpu float64) float64 {
	whole := strings.HasSuffix(cpu, "/core")
	base := strings.TrimSuffix(cpu, "/core")
	plain, _, _ := strings.Cut(base, "-")
	other := base + "/core"
	if whole {
		other = base
	}
	for _, like := range []struct {
		cpu    string
		factor float64
	}{{cpu, 1}, {plain, 1}, {plain + "/core", 1}, {other, perCore}, {plain, perCore}} {
		if whole != strings.HasSuffix(like.cpu, "/core") && like.factor == 1 {
			continue
		}
		if mean, ok := t.mean(cloud, like.cpu, vcpu); ok {
			if like.factor != 1 && !whole {
				return mean / like.factor
			}
			return mean * like.factor
		}
	}
	if whole {
		return perCore
	}
	return 1
}

// mean is the geometric mean of the measured types with a processor, weighted by similarity of their size.
func (t *Table) mean(cloud, cpu string, vcpu float64) (speed float64, ok bool) {
	all := t.byCPU[cpu]
	for _, own := range []bool{true, false} {
		var logs, weights float64
		for _, typ := range all {
			if own && typ.Cloud != cloud {
				continue
			}
			w := math.Exp(-nearer * math.Abs(math.Log2(typ.VCPU/max(vcpu, 0.25))))
			logs, weights = logs+w*math.Log(typ.Speed), weights+w
		}
		if weights > 0 {
			return math.Exp(logs / weights), true
		}
	}
	return 0, false
}

// Baseline is the share of each vCPU that a machine type may use without credits: below 1 for burstable and
// shared-core types.
func Baseline(cloud, instanceType string) float64 {
	switch cloud {
	case "aws":
		return ec2types.Baseline(instanceType)
	case "azure":
		return baselineAzure(instanceType)
	case "gcp":
		if share, ok := sharedCores[instanceType]; ok {
			return share
		}
	}
	return 1
}

// sharedCores are the shares of each vCPU of Google's types that share cores: 12.5, 25 and 50 % of two vCPUs of E2, 20
// and 50 % of one of N1 (Compute Engine, "General-purpose machine family", "Shared-core machine types").
var sharedCores = map[string]float64{
	"e2-micro": 0.125, "e2-small": 0.25, "e2-medium": 0.5, "f1-micro": 0.2, "g1-small": 0.5,
}

// baselinesB are the shares of each vCPU of Azure's B series ("B-series burstable sizes", "Base CPU performance of VM"
// divided by the vCPUs).
var baselinesB = map[string]float64{
	"B1ls": 0.05, "B1s": 0.1, "B1ms": 0.2, "B2s": 0.2, "B2ms": 0.3, "B4ms": 0.225, "B8ms": 0.169, "B12ms": 0.169,
	"B16ms": 0.169, "B20ms": 0.169,
}

// baselineAzure reads the second version of the B series by its letters: t is the smallest memory with 20 % of a vCPU,
// l has 30 %, and the others have 40 % ("Basv2, Bsv2 and Bpsv2 sizes series").
func baselineAzure(instanceType string) float64 {
	name, ok := strings.CutPrefix(instanceType, "Standard_B")
	if !ok || name == "" || name[0] < '0' || name[0] > '9' {
		return 1
	}
	if share, ok := baselinesB["B"+name]; ok {
		return share
	}
	switch letters := strings.TrimLeft(name, "0123456789"); {
	case strings.Contains(letters, "t"):
		return 0.2
	case strings.Contains(letters, "l"):
		return 0.3
	}
	return 0.4
}
