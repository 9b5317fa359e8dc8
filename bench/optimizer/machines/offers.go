// Package machines compares the shared form of the optimizer, in which tasks share bought machines, with its peers:
// the cheapest HEFT plan on identical machines, IC-PCP, and CP-SAT on small models. It makes the models from recorded
// workflows, the catalogue, and measured speeds and boot times, and checks every answer with its own judge.
package machines

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

// Places are the regions of the catalogue, with the price and time of moving data between them.
type Places struct {
	Names       []string
	USDPerGiB   [][]float64
	HoursPerGiB [][]float64
}

// Offers are the machines of a model.
type Offers struct {
	Places
	Machines []shared.Machine
}

var clouds = []string{"aws", "azure", "gcp"}

// internet is the list price of a GiB that leaves a cloud, in USD.
var internet = map[string]float64{"aws": 0.09, "azure": 0.0875, "gcp": 0.12}

// Prices and times of moving a GiB: USD between two regions of one cloud, hours within a region, between two regions
// and between two clouds.
const (
	regionUSD    = 0.02
	withinHours  = 0.0005
	betweenHours = 0.0012
)

// Filter says which offers ReadOffers keeps in addition to the plain ones.
type Filter struct {
	Spot      bool // spot offers
	Burstable bool // burstable types, although they were measured on credits
	Errors    bool // prices below 0.3 of the median of their type over the regions, which are errors of the data
}

// ReadOffers joins the catalogue with the measured speeds and boot times. It leaves out types that were not measured
// and offers that keep rejects.
func ReadOffers(data string, keep Filter) (*Offers, error) {
	speeds, err := readSpeeds(filepath.Join(data, "machines", "speed.csv.gz"))
	if err != nil {
		return nil, err
	}
	boots, err := readBoots(filepath.Join(data, "machines", "boot.csv.gz"))
	if err != nil {
		return nil, err
	}
	o := &Offers{}
	place := map[string]int{}
	for _, cloud := range clouds {
		var found []row
		err := eachRow(filepath.Join(data, "catalog", cloud+".csv.gz"), func(r map[string]string) {
			if x, ok := newRow(cloud, r, speeds); ok && (keep.Burstable || !burstable(cloud, x.kind)) {
				found = append(found, x)
			}
		})
		if err != nil {
			return nil, err
		}
		median := medianPrices(found)
		seen := map[string]bool{}
		for _, x := range found {
			if x.usd < 0.3*median[x.kind] && !keep.Errors {
				continue
			}
			name := cloud + ":" + x.region
			if _, ok := place[name]; !ok {
				place[name] = len(o.Names)
				o.Names = append(o.Names, name)
			}
			m := x.machine(place[name], boots)
			add := func(market string, usd float64) {
				if m.ID = name + "/" + x.kind + "/" + market; usd > 0 && !seen[m.ID] {
					seen[m.ID] = true
					m.USDPerHour = usd
					o.Machines = append(o.Machines, m)
				}
			}
			if add("on-demand", x.usd); keep.Spot {
				add("spot", x.spot)
			}
		}
	}
	o.price()
	return o, nil
}

// In returns the offers of some places only.
func (o *Offers) In(names ...string) *Offers {
	some := &Offers{}
	index := map[int]int{}
	for i, name := range o.Names {
		if slices.Contains(names, name) {
			index[i] = len(some.Names)
			some.Names = append(some.Names, name)
		}
	}
	for _, m := range o.Machines {
		if i, ok := index[m.Place]; ok {
			m.Place = i
			some.Machines = append(some.Machines, m)
		}
	}
	some.price()
	return some
}

func (o *Offers) price() {
	o.USDPerGiB, o.HoursPerGiB = nil, nil
	for _, a := range o.Names {
		var usd, hours []float64
		for _, b := range o.Names {
			from, _, _ := strings.Cut(a, ":")
			to, _, _ := strings.Cut(b, ":")
			switch {
			case a == b:
				usd, hours = append(usd, 0), append(hours, withinHours)
			case from == to:
				usd, hours = append(usd, regionUSD), append(hours, betweenHours)
			default:
				usd, hours = append(usd, internet[from]), append(hours, betweenHours)
			}
		}
		o.USDPerGiB, o.HoursPerGiB = append(o.USDPerGiB, usd), append(o.HoursPerGiB, hours)
	}
}

// row is one offer of the catalogue.
type row struct {
	cloud, region, kind string
	cpus, memory        float64
	usd, spot           float64
	speed               float64
}

func newRow(cloud string, r map[string]string, speeds map[string]speed) (row, bool) {
	x := row{cloud: cloud, region: r["Region"], kind: r["InstanceType"]}
	s, measured := speeds[cloud+"/"+x.kind]
	x.cpus, x.memory, x.usd = number(r["vCPUs"]), number(r["MemoryGiB"]), number(r["Price"])
	x.spot, x.speed = number(r["SpotPrice"]), s.perThread
	x.cpus = min(x.cpus, s.threads)
	ok := measured && x.cpus > 0 && x.memory > 0 && x.usd > 0
	return x, ok
}

func burstable(cloud, kind string) bool {
	switch cloud {
	case "aws":
		family, _, _ := strings.Cut(kind, ".")
		return family == "t1" || family == "t2" || strings.HasPrefix(family, "t3") || family == "t4g"
	case "azure":
		return strings.HasPrefix(kind, "Standard_B") || strings.HasPrefix(kind, "Basic")
	default:
		return kind == "f1-micro" || kind == "g1-small" || strings.HasPrefix(kind, "e2-micro") ||
			strings.HasPrefix(kind, "e2-small") || kind == "e2-medium"
	}
}

func (x *row) machine(place int, boots map[string]float64) shared.Machine {
	boot, ok := boots[x.cloud+"/"+x.kind]
	if !ok {
		boot = boots[x.cloud]
	}
	return shared.Machine{
		Place: place, CPUs: x.cpus, MemoryGiB: x.memory, Speed: x.speed, BootHours: boot / 3600,
		MinimumHours: 1.0 / 60, IncrementHours: 1.0 / 3600, Most: 64,
	}
}

func medianPrices(rows []row) map[string]float64 {
	all := map[string][]float64{}
	for _, x := range rows {
		all[x.kind] = append(all[x.kind], x.usd)
	}
	median := map[string]float64{}
	for kind, prices := range all {
		median[kind] = medianOf(prices)
	}
	return median
}

func medianOf(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

type speed struct{ perThread, threads float64 }

// reference is the type whose speed is 1.
const reference = "aws/m6i.xlarge"

// readSpeeds reads the throughput of one thread with all busy, relative to the reference.
func readSpeeds(file string) (map[string]speed, error) {
	all := map[string]speed{}
	err := eachRow(file, func(r map[string]string) {
		logs, tests := 0.0, []string{"integer", "floating", "sorting", "compression", "physics"}
		for _, test := range tests {
			logs += math.Log(number(r[test]))
		}
		threads := number(r["threads"])
		if per := math.Exp(logs/float64(len(tests))) / threads; per > 0 && !math.IsInf(per, 0) {
			all[r["cloud"]+"/"+r["type"]] = speed{per, threads}
		}
	})
	if err != nil {
		return nil, err
	}
	one := all[reference].perThread
	if one == 0 {
		return nil, fmt.Errorf("%s has no speed of %s", file, reference)
	}
	for kind, s := range all {
		all[kind] = speed{s.perThread / one, s.threads}
	}
	return all, nil
}

// readBoots reads the median seconds to the first line of the start script, by type and by cloud.
func readBoots(file string) (map[string]float64, error) {
	all := map[string][]float64{}
	err := eachRow(file, func(r map[string]string) {
		if s := number(r["first_script_line_s"]); s > 0 {
			all[r["cloud"]] = append(all[r["cloud"]], s)
			all[r["cloud"]+"/"+r["type"]] = append(all[r["cloud"]+"/"+r["type"]], s)
		}
	})
	boots := map[string]float64{}
	for name, s := range all {
		boots[name] = medianOf(s)
	}
	return boots, err
}

// number parses a figure; an empty or malformed one is 0.
func number(s string) float64 {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return x
}

// eachRow calls do for each row of a compressed table, by the names of its columns.
func eachRow(file string, do func(map[string]string)) (err error) {
	f, err := os.Open(file) //nolint:gosec // the folder is a flag
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	table := csv.NewReader(z)
	head, err := table.Read()
	if err != nil {
		return err
	}
	for {
		fields, err := table.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		r := make(map[string]string, len(head))
		for i, name := range head {
			r[name] = fields[i]
		}
		do(r)
	}
}
