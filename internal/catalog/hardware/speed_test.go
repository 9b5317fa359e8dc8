package hardware_test

import (
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
)

func embedded(t *testing.T) []hardware.Type {
	t.Helper()
	raw, err := os.ReadFile("data/speed.csv")
	if err != nil {
		t.Fatal(err)
	}
	types, err := hardware.ReadTypes(raw)
	if err != nil {
		t.Fatal(err)
	}
	return types
}

var sizeOfAzure = regexp.MustCompile(`^(Standard_[A-Z]+)[0-9-]+`)

// familyOf returns the family of a machine type, such as m6i, n2 or Standard_Ds_v5.
func familyOf(t hardware.Type) string {
	switch t.Cloud {
	case "aws":
		name, _, _ := strings.Cut(t.Name, ".")
		return "aws/" + name
	case "azure":
		return "azure/" + sizeOfAzure.ReplaceAllString(t.Name, "$1")
	}
	name, _, _ := strings.Cut(t.Name, "-")
	return t.Cloud + "/" + name
}

// The speed of each family is estimated from the other families. The errors must stay within bounds: over all types,
// and over all families, because large families would hide small ones.
func TestFamiliesThatWereNotMeasuredAreEstimatedWell(t *testing.T) {
	var measured []hardware.Type
	families := map[string][]hardware.Type{}
	for _, typ := range embedded(t) {
		if !typ.Estimated {
			measured = append(measured, typ)
			families[familyOf(typ)] = append(families[familyOf(typ)], typ)
		}
	}
	var errs, medians []float64
	for name, left := range families {
		table := hardware.New(slices.DeleteFunc(slices.Clone(measured), func(typ hardware.Type) bool {
			return familyOf(typ) == name
		}))
		var own []float64
		for _, typ := range left {
			if hardware.Baseline(typ.Cloud, typ.Name) < 1 {
				continue // burstable, measured on credits
			}
			s := table.Speed(typ.Cloud, typ.Name, typ.VCPU)
			if s.Measured || s.Slow >= s.Typical {
				t.Errorf("%s: %+v", typ.Name, s)
			}
			own = append(own, math.Abs(s.Typical/typ.Speed-1))
		}
		if len(own) > 0 {
			errs, medians = append(errs, own...), append(medians, median(own))
		}
	}
	slices.Sort(errs)
	slices.Sort(medians)
	t.Logf("%d types: median error %.3f, nine in ten within %.3f; %d families: %.3f and %.3f", len(errs), median(errs),
		errs[len(errs)*9/10], len(medians), median(medians), medians[len(medians)*9/10])
	for _, of := range [][]float64{errs, medians} {
		if median(of) > 0.15 || of[len(of)*9/10] > 0.4 {
			t.Errorf("median error %.3f, nine in ten within %.3f", median(of), of[len(of)*9/10])
		}
	}
}

func median(x []float64) float64 {
	sorted := slices.Sorted(slices.Values(x))
	return sorted[len(sorted)/2]
}

func TestSpeedsOfKnownTypes(t *testing.T) {
	table := hardware.Default()
	for _, c := range []struct {
		cloud, name    string
		vcpu, min, max float64
		measured       bool
	}{
		{"aws", "m6i.xlarge", 4, 1, 1, true},
		{"aws", "c7a.large", 2, 1.7, 1.9, true}, // each vCPU is a core
		{"aws", "m6a.large", 2, 1, 1.2, false},
		{"gcp", "f1-micro", 1, 0.1, 0.2, true}, // a fifth of a core
		{"gcp", "c4-standard-4", 4, 1.1, 1.5, false},
		{"azure", "Standard_B2s", 2, 0.1, 0.3, true},
		{"lambda", "gpu_8x_a100", 124, 0.6, 1.1, false},
		{"aws", "zz9.large", 2, 1, 1, false}, // of an unknown family
	} {
		s := table.Speed(c.cloud, c.name, c.vcpu)
		if s.Typical < c.min || s.Typical > c.max || s.Measured != c.measured {
			t.Errorf("%s: %+v, want %g to %g, measured %v", c.name, s, c.min, c.max, c.measured)
		}
	}
}

// The shipped table contains estimates, so that programs need not calculate them. They must equal the calculated
// ones.
func TestShippedEstimatesAreThoseOfTheTable(t *testing.T) {
	var measured []hardware.Type
	for _, typ := range embedded(t) {
		if !typ.Estimated {
			measured = append(measured, typ)
		}
	}
	table := hardware.New(measured)
	for _, typ := range embedded(t) {
		want := table.Speed(typ.Cloud, typ.Name, typ.VCPU)
		if typ.Estimated && math.Abs(want.Typical/want.Baseline-typ.Speed) > 0.001 {
			t.Errorf("%s/%s: %g, estimated %+v; run go generate ./internal/catalog/hardware", typ.Cloud, typ.Name, typ.Speed, want)
		}
	}
}

func TestMalformedTableNamesItsType(t *testing.T) {
	for _, row := range []string{"aws,a,0,x,1,", "aws,a,2,x,-1,", "aws,a,2,x,NaN,", "aws,a,two,x,1,"} {
		_, err := hardware.ReadTypes([]byte("cloud,type,vcpu,cpu,speed,estimated\n" + row + "\n"))
		if err == nil || !strings.Contains(err.Error(), "aws/a") {
			t.Errorf("%s: %v", row, err)
		}
	}
}
