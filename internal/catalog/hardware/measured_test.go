package hardware_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
)

func TestBootTimesOfFile(t *testing.T) {
	const file = "cloud,type,requested,first_script_line_s\n" +
		"aws,a,x,10\naws,b,x,20\naws,b,x,21\naws,b,x,22\naws,b,x,23\naws,b,x,30.5\n"
	b, err := hardware.ReadBoots(strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cloud, kind string
		p           float64
		want        time.Duration
	}{
		{"aws", "b", 0, 20 * time.Second}, {"aws", "b", 0.999, 30500 * time.Millisecond}, {"aws", "b", 1, 30500 * time.Millisecond},
		// mostly the mean of all types, because one measurement is not enough
		{"aws", "a", 0, 10 * time.Second}, {"aws", "a", 0.5, 22 * time.Second},
		{"gcp", "a", 0.5, 0},
	} {
		if got, ok := b.Quantile(c.cloud, c.kind, c.p); got != c.want || ok != (c.want > 0) {
			t.Errorf("%s %s at %g: %v, %v, want %v", c.cloud, c.kind, c.p, got, ok, c.want)
		}
	}
}

func TestMalformedBootTimesNameLine(t *testing.T) {
	for file, want := range map[string]string{
		"":                                 "line 1: no header",
		"cloud,type\naws,a\n":              "line 1: the column first_script_line_s is missing",
		"cloud,type,first_script_line_s\n": "no boot times",
		"cloud,type,first_script_line_s\naws,a,1\naws,a\n":       "line 3",
		"cloud,type,first_script_line_s\naws,a,1\naws,a,x\n":     `line 3: first_script_line_s: "x"`,
		"cloud,type,first_script_line_s\naws,a,-1\n":             "line 2",
		"cloud,type,first_script_line_s\naws,a,NaN\n":            "line 2",
		"cloud,type,first_script_line_s\naws,a,3601\n":           "line 2",
		"cloud,type,first_script_line_s\naws,a,99999999999999\n": "line 2",
	} {
		if _, err := hardware.ReadBoots(strings.NewReader(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", file, err, want)
		}
	}
}

func FuzzReadBoots(f *testing.F) {
	f.Add("cloud,type,first_script_line_s\naws,a,1\n")
	f.Fuzz(func(t *testing.T, file string) {
		if b, err := hardware.ReadBoots(strings.NewReader(file)); err == nil {
			if boot, ok := b.Quantile("aws", "a", 0.5); ok && (boot <= 0 || boot > time.Hour) {
				t.Errorf("%v", boot)
			}
		}
	})
}
