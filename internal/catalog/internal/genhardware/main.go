// Command genhardware makes the tables of package hardware from published measurements. Run it with
// "go generate ./internal/catalog/hardware".
package main

import (
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

const source = "# From GitHub SpareCores/sc-inspector-data, CC BY-SA 4.0; so is this table.\n"

func main() {
	data := flag.String("data", "", "folder with the published data: machines/speed.csv.gz and boot.csv.gz")
	out := flag.String("out", "data", "folder of the tables")
	flag.Parse()
	if _, err := os.Stat(filepath.Join(*data, "machines")); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(os.Stderr, "genhardware: no published data in %q; the tables are unchanged\n", *data)
		return
	}
	if err := generate(filepath.Join(*data, "machines"), *out); err != nil {
		fmt.Fprintln(os.Stderr, "genhardware:", err)
		os.Exit(1)
	}
}

func generate(data, out string) error {
	measured, err := readSpeeds(filepath.Join(data, "speed.csv.gz"))
	if err != nil {
		return err
	}
	all, err := estimateOthers(measured)
	if err != nil {
		return err
	}
	var speeds strings.Builder
	speeds.WriteString(source + "cloud,type,vcpu,cpu,speed,estimated\n")
	for _, t := range all {
		estimated := ""
		if t.Estimated {
			estimated = "estimated"
		}
		fmt.Fprintf(&speeds, "%s,%s,%g,%s,%.3f,%s\n", t.Cloud, t.Name, t.VCPU, t.CPU, t.Speed, estimated)
	}
	if err := write(filepath.Join(out, "speed.csv"), speeds.String()); err != nil {
		return err
	}
	boots, err := readBoots(filepath.Join(data, "boot.csv.gz"))
	if err != nil {
		return err
	}
	fmt.Printf("%d types measured, %d estimated\n", len(measured), len(all)-len(measured))
	return write(filepath.Join(out, "boot.csv"), boots)
}

// benchmarks are PassMark's tests of which a speed is the geometric mean.
var benchmarks = []string{"integer", "floating", "sorting", "compression", "physics"}

// readSpeeds reads the measured types, in the order of cloud and name.
func readSpeeds(name string) ([]hardware.Type, error) {
	rows, err := read(name)
	if err != nil {
		return nil, err
	}
	types := map[string]hardware.Type{}
	for _, row := range rows {
		sum := 0.0
		for _, test := range benchmarks {
			x, err := strconv.ParseFloat(row[test], 64)
			if err != nil {
				x = math.NaN() // the test did not run
			}
			sum += math.Log(x)
		}
		threads, err := strconv.ParseFloat(row["threads"], 64)
		if err != nil || math.IsNaN(sum) || math.IsInf(sum, 0) {
			continue
		}
		cpu, _ := hardware.CPU(row["cloud"], row["type"])
		types[row["cloud"]+"/"+row["type"]] = hardware.Type{
			Cloud: row["cloud"], Name: row["type"], VCPU: threads, CPU: cpu,
			Speed: math.Exp(sum/float64(len(benchmarks))) / threads,
		}
	}
	one, ok := types["aws/"+hardware.Reference]
	if !ok {
		return nil, fmt.Errorf("%s: %s was not measured", name, hardware.Reference)
	}
	sorted := make([]hardware.Type, 0, len(types))
	for _, key := range slices.Sorted(maps.Keys(types)) {
		t := types[key]
		t.Speed /= one.Speed
		sorted = append(sorted, t)
	}
	return sorted, nil
}

// estimateOthers adds the types of the shipped catalogue that were not measured, so that no program estimates them at
// its start.
func estimateOthers(measured []hardware.Type) ([]hardware.Type, error) {
	c, err := catalog.Default()
	if err != nil {
		return nil, err
	}
	table := hardware.New(measured)
	known := map[string]bool{}
	for _, t := range measured {
		known[t.Cloud+"/"+t.Name] = true
	}
	all := measured
	for o := range c.All() {
		key := o.Cloud + "/" + o.InstanceType
		if known[key] {
			continue
		}
		known[key] = true
		cpu, _ := hardware.CPU(o.Cloud, o.InstanceType)
		s := table.Speed(o.Cloud, o.InstanceType, o.VCPU)
		all = append(all, hardware.Type{Cloud: o.Cloud, Name: o.InstanceType, VCPU: o.VCPU, CPU: cpu,
			Speed: s.Typical / s.Baseline, Estimated: true})
	}
	slices.SortFunc(all, func(a, b hardware.Type) int {
		return cmp.Or(cmp.Compare(a.Cloud, b.Cloud), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}

// sizes are the largest vCPUs of the groups in which boot times are counted. AWS has too few measurements for groups.
var sizes = map[string][]float64{"azure": {8, 48, math.Inf(1)}, "gcp": {8, 48, math.Inf(1)}, "aws": {math.Inf(1)}}

// readBoots counts the quantiles of the boot times by cloud and size.
func readBoots(name string) (string, error) {
	rows, err := read(name)
	if err != nil {
		return "", err
	}
	boots := map[string][][]float64{}
	for _, row := range rows {
		cloud := row["cloud"]
		seconds, err := strconv.ParseFloat(row["first_script_line_s"], 64)
		if err != nil || sizes[cloud] == nil {
			return "", fmt.Errorf("%s: %v", name, row)
		}
		if boots[cloud] == nil {
			boots[cloud] = make([][]float64, len(sizes[cloud]))
		}
		vcpu := vcpus(cloud, row["type"])
		i := slices.IndexFunc(sizes[cloud], func(most float64) bool { return vcpu <= most })
		boots[cloud][i] = append(boots[cloud][i], seconds)
	}
	var b strings.Builder
	b.WriteString(source + "cloud,vcpuAtMost")
	for _, p := range hardware.Probabilities {
		fmt.Fprintf(&b, ",p%g", 100*p)
	}
	b.WriteString("\n")
	for _, cloud := range slices.Sorted(maps.Keys(boots)) {
		for i, group := range boots[cloud] {
			most := ""
			if n := sizes[cloud][i]; !math.IsInf(n, 1) {
				most = strconv.FormatFloat(n, 'g', -1, 64)
			}
			fmt.Fprintf(&b, "%s,%s", cloud, most)
			slices.Sort(group)
			for _, p := range hardware.Probabilities {
				fmt.Fprintf(&b, ",%g", group[min(int(p*float64(len(group))), len(group)-1)])
			}
			b.WriteString("\n")
		}
	}
	return b.String(), nil
}

// vcpus reads the number in a type's name: Standard_D8s_v5, n2-standard-8. It is 1 if there is none.
func vcpus(cloud, instanceType string) float64 {
	if cloud == "gcp" {
		parts := strings.Split(instanceType, "-")
		if len(parts) < 3 {
			return 1
		}
		instanceType = parts[2]
	}
	digits := strings.TrimLeftFunc(instanceType, func(r rune) bool { return r < '0' || r > '9' })
	end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(digits)
	}
	n, err := strconv.ParseFloat(digits[:end], 64)
	if err != nil {
		return 1
	}
	return n
}

// read reads a compressed CSV file with a header into one map for each row.
func read(name string) ([]map[string]string, error) {
	f, err := os.Open(name) //nolint:gosec // the developer chooses the folder
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	records, err := csv.NewReader(z).ReadAll()
	if err != nil || len(records) == 0 {
		return nil, fmt.Errorf("%s: %w", name, cmp.Or(err, errors.New("no header")))
	}
	rows := make([]map[string]string, 0, len(records)-1)
	for _, record := range records[1:] {
		row := map[string]string{}
		for i, key := range records[0] {
			row[key] = record[i]
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func write(name, content string) error {
	return os.WriteFile(name, []byte(content), 0o644) //nolint:gosec // part of the source, not a secret
}
