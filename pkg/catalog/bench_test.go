package catalog

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
)

// typicalQueries are the queries of typical job files.
var typicalQueries = map[string]Query{
	"8 V100":                         {Accelerator: "V100", AcceleratorCount: 8},
	"any V100 spot":                  {Accelerator: "V100", Market: Spot},
	"8+ vCPU 32+ GiB, cheapest ten":  {VCPU: AtLeast(8), MemoryGiB: AtLeast(32), Limit: 10},
	"8+ vCPU 32+ GiB, per zone":      {VCPU: AtLeast(8), MemoryGiB: AtLeast(32), CheapestPer: PerZone},
	"8+ vCPU 32+ GiB, per region":    {VCPU: AtLeast(8), MemoryGiB: AtLeast(32), CheapestPer: PerRegion, Market: Spot},
	"64+ vCPU 500+ GiB, per region":  {VCPU: AtLeast(64), MemoryGiB: AtLeast(500), CheapestPer: PerRegion},
	"100+ vCPU, cheapest ten":        {VCPU: AtLeast(100), Limit: 10},
	"exactly 8 vCPU 32 GiB per zone": {VCPU: Exactly(8), MemoryGiB: Exactly(32), CheapestPer: PerZone},
	"one region, cheapest ten":       {VCPU: AtLeast(8), Regions: []string{"aws:us-east-1"}, Limit: 10},
	"emr, cheapest ten":              {VCPU: AtLeast(16), Service: EMR, Limit: 10},
	"tpu-v3-8":                       {Accelerator: "tpu-v3-8"},
	"machine type":                   {InstanceType: "m5.2xlarge"},
}

func BenchmarkQuery(b *testing.B) {
	c := snapshot(b)
	for name, q := range typicalQueries {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n = 0
				_ = c.Visit(q, func(*Match) bool { n++; return true })
			}
			b.ReportMetric(float64(n), "matches")
		})
	}
}

func BenchmarkFind(b *testing.B) {
	c := snapshot(b)
	for name, q := range typicalQueries {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Find(q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLoadSnapshot(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadSnapshot(embeddedSnapshot); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(heapOf(b)), "heap-bytes")
	b.ReportMetric(float64(len(embeddedSnapshot)), "snapshot-bytes")
}

func BenchmarkLoadCSV(b *testing.B) {
	files := published(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load(files); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNoOffer(b *testing.B) {
	c := snapshot(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Explain(Query{Accelerator: "V100", AcceleratorCount: 3}); err == nil {
			b.Fatal("Explain of a query that has offers")
		}
	}
}

func BenchmarkEgressMatrix(b *testing.B) {
	e, err := egress.Default()
	if err != nil {
		b.Fatal(err)
	}
	places := snapshot(b).Regions("")
	for b.Loop() {
		if _, _, err := e.Matrix(places); err != nil {
			b.Fatal(err)
		}
	}
}

// heapOf returns the heap size of a loaded catalogue, in bytes. It includes everything that queries build at their
// first use.
func heapOf(t testing.TB) uint64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	c, err := ReadSnapshot(embeddedSnapshot)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Service{NoService, EMR, Dataproc} {
		if err := c.Visit(Query{Service: s, Limit: 1}, func(*Match) bool { return true }); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(c)
	return after.HeapAlloc - min(before.HeapAlloc, after.HeapAlloc)
}

func TestCatalogueUsesLessThan30MBOfHeap(t *testing.T) {
	snapshot(t)
	if heap := heapOf(t); heap == 0 || heap > 30e6 {
		t.Errorf("a loaded catalogue holds %d bytes of heap", heap)
	}
}

func TestSnapshotIsSmall(t *testing.T) {
	if n := len(embeddedSnapshot); n > 1_500_000 || !bytes.HasPrefix(embeddedSnapshot, []byte(snapshotMagic)) {
		t.Errorf("the embedded snapshot has %d bytes", n)
	}
}
