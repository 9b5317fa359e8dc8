package catalog

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cockroachdb/datadriven"
	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/skypilot"
	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// TestLoadStories reads small catalogues. A story has the commands
//
//	file NAME     adds a file with the input to the catalogue directory
//	load          loads the directory, prints the offers or the error, and empties the directory
func TestLoadStories(t *testing.T) {
	datadriven.Walk(t, "testdata/load", func(t *testing.T, path string) {
		dir := make(fstest.MapFS)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "file":
				dir[d.CmdArgs[0].Key] = &fstest.MapFile{Data: []byte(d.Input)}
				return ""
			case "load":
				c, err := Load(dir)
				clear(dir)
				if err != nil {
					if !errors.Is(err, skypilot.ErrBadData) {
						return "not ErrBadData: " + err.Error() + "\n"
					}
					return err.Error() + "\n"
				}
				var b strings.Builder
				for o := range c.All() {
					fmt.Fprintf(&b, "%s %s %gvCPU %gGiB %s on-demand=%g", o.ID(), spec(&o), o.VCPU, o.MemoryGiB, o.Arch, o.OnDemandUSD)
					if o.HasSpot {
						fmt.Fprintf(&b, " spot=%g", o.SpotUSD)
					}
					if o.Interruption != UnknownInterruption {
						fmt.Fprintf(&b, " interrupted=%s", o.Interruption)
					}
					b.WriteByte('\n')
				}
				return b.String()
			default:
				t.Fatalf("unknown command %s", d.Cmd)
				return ""
			}
		})
	})
}

const header = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region,AvailabilityZone\n"

func TestDataErrorsNameFileLineAndColumn(t *testing.T) {
	_, err := Load(fstest.MapFS{"aws.csv": {Data: []byte(header + "m5.large,,,2,8,0.1,,r,z\nm5.large,,,two,8,0.1,,r,y\n")}})
	var bad *skypilot.DataError
	if !errors.As(err, &bad) || bad.File != "aws.csv" || bad.Line != 3 || bad.Column != "vCPUs" {
		t.Errorf("%#v", err)
	}
}

func TestLoadReadsGzip(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write([]byte(header + "m5.large,,,2,8,0.1,0.05,r,z\n")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := Load(fstest.MapFS{"aws.csv.gz": {Data: z.Bytes()}, "README.md": {Data: []byte("not a catalogue")}})
	if err != nil || c.Len() != 1 {
		t.Fatalf("%v", err)
	}
	for what, data := range map[string][]byte{
		"cut short": z.Bytes()[:z.Len()-6],
		"not gzip":  []byte(header),
		"empty":     nil,
	} {
		if _, err := Load(fstest.MapFS{"aws.csv.gz": {Data: data}}); !errors.Is(err, skypilot.ErrBadData) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestLoadLimitsInputSize(t *testing.T) {
	const limit = 1 << 20
	zipped := func(content []byte) []byte {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return z.Bytes()
	}
	row := "m5.large,,,2,8,0.1,,r,z\n"
	for what, c := range map[string]struct {
		file    string
		content []byte
		want    string
	}{
		"a gzip bomb":         {"aws.csv.gz", zipped(make([]byte, 2*limit)), "larger than 1048576 bytes"},
		"rows without end":    {"aws.csv.gz", zipped([]byte(header + strings.Repeat(row, 2*limit/len(row)))), "larger than 1048576 bytes"},
		"a quote without end": {"aws.csv", []byte(header + `"` + strings.Repeat("x,\n", limit)), "larger than 1048576 bytes"},
		"a name too long":     {"aws.csv", []byte(header + strings.Repeat("m", table.MaxNameLen+1) + ",,,2,8,1,,r,z\n"), "longer than 128 bytes"},
	} {
		_, err := skypilot.Load(fstest.MapFS{c.file: {Data: c.content}}, limit)
		if !errors.Is(err, skypilot.ErrBadData) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}

func TestOpenLoadsDirectoryOrSnapshot(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "aws.csv"), []byte(header+"m5.large,,,2,8,0.1,0.05,r,z\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Open(dir)
	if err != nil || c.Len() != 1 {
		t.Errorf("%v", err)
	}
	embedded, err := Open("")
	if err != nil || embedded != snapshot(t) {
		t.Errorf("Open of nothing is not the snapshot: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if _, err := Open(filepath.Join(dir, "aws.csv")); err == nil || !strings.Contains(err.Error(), "is a file") {
		t.Errorf("%v", err)
	}
}

func FuzzLoadCSV(f *testing.F) {
	for _, cloud := range []string{"aws", "azure", "gcp", "lambda"} {
		f.Add(cloud, sampleOfFile(f, cloud))
	}
	f.Add("aws", []byte(header+"m5.large,,,2,8,0.1,0.05,r,z\n"))
	f.Add("gcp", []byte(header+"n1-standard-8,,,8,30,0.38,0.08,r,r-a\n,V100,1,,,2.48,1.24,r,r-a\n,tpu-v3-8,1,,,8,2,r,r-a\n"))
	f.Fuzz(func(t *testing.T, cloud string, content []byte) {
		c, err := Load(fstest.MapFS{cloud + ".csv": {Data: content}})
		if err != nil {
			return
		}
		checkSound(t, c)
	})
}

// sampleOfFile returns the header and some rows of a published file, or only the header
// if the file is missing.
func sampleOfFile(f *testing.F, cloud string) []byte {
	file, err := os.Open(filepath.Join(dataDir, "catalog", cloud+".csv.gz"))
	if err != nil {
		return []byte(header)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		f.Fatal(err)
	}
	content, err := io.ReadAll(z)
	if err != nil {
		f.Fatal(err)
	}
	lines := bytes.SplitAfter(content, []byte("\n"))
	sample := lines[0]
	for i := 1; i < len(lines); i += len(lines) / 30 {
		sample = append(sample, lines[i]...)
	}
	return sample
}

// checkSound runs the queries that every valid catalogue must be able to answer.
func checkSound(t *testing.T, c *Catalog) {
	t.Helper()
	last := 0.0
	n := 0
	err := c.Visit(Query{Accelerator: AnyAccelerator}, func(m *Match) bool {
		if m.USDPerHour < last || !(m.OnDemandUSD > 0) {
			t.Fatalf("%s at %g after %g", m.ID(), m.USDPerHour, last)
		}
		last = m.USDPerHour
		if found, err := c.Lookup(m.ID()); err != nil || found.ID() != m.ID() {
			t.Fatalf("Lookup(%q) = %q, %v", m.ID(), found.ID(), err)
		}
		n++
		return n < 1000
	})
	if err != nil || n == 0 {
		t.Fatalf("%d matches of %d offers, %v", n, c.Len(), err)
	}
	_ = c.Explain(Query{VCPU: Exactly(3.5), Service: Dataproc})
	again, err := table.Decode(table.Encode(c.cols))
	if err != nil || again.Len() != c.Len() {
		t.Fatalf("the snapshot of a valid catalogue cannot be read: %v", err)
	}
}

// A constrained type has fewer vCPUs than the type whose price it has. Its own number must count. Source:
// learn.microsoft.com/azure/virtual-machines, "Constrained vCPU sizes for database workloads"; the capabilities vCPUs
// and vCPUsAvailable of the Resource SKUs API.
func TestConstrainedTypesHaveTheirOwnVCPUs(t *testing.T) {
	const rows = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region\n" +
		"Standard_E96-48ads_v5,,,96,672,7.6,1.4,eastus\nStandard_GS5-8,,,32,448,9,2,eastus\n" +
		"Standard_M416-208ms_v2,,,416,11400,99,,eastus\nStandard_E96ads_v5,,,96,672,7.6,1.4,eastus\n"
	c, err := Load(fstest.MapFS{"azure.csv": {Data: []byte(rows)}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		"Standard_E96-48ads_v5": 48, "Standard_GS5-8": 8, "Standard_M416-208ms_v2": 208, "Standard_E96ads_v5": 96,
	}
	for o := range c.All() {
		if o.VCPU != want[o.InstanceType] {
			t.Errorf("%s has %v vCPUs, want %v", o.InstanceType, o.VCPU, want[o.InstanceType])
		}
	}
}
