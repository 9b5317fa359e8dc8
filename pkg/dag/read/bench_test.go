package read_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dax"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

// The jobs of these benchmarks have the maximum size: MaxTasks tasks, with about 3 edges each.

func benchmarkJob(b *testing.B) (*dag.Job, []byte) {
	b.Helper()
	data := wideDAX(jobtext.MaxTasks, 3)
	j, err := dax.Parse("wide.xml", data)
	if err != nil {
		b.Fatal(err)
	}
	return j, data
}

func BenchmarkValidate(b *testing.B) {
	j, _ := benchmarkJob(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := j.Validate(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOrder(b *testing.B) {
	j, _ := benchmarkJob(b)
	b.ReportAllocs()
	for b.Loop() {
		if len(j.Order()) != len(j.Tasks) {
			b.Fatal("some tasks are not ordered")
		}
	}
}

func BenchmarkGraph(b *testing.B) {
	j, _ := benchmarkJob(b)
	b.ReportAllocs()
	for b.Loop() {
		j.Graph()
	}
}

func BenchmarkReadDAX(b *testing.B) {
	_, data := benchmarkJob(b)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := dax.Parse("wide.xml", data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMarshal(b *testing.B) {
	j, _ := benchmarkJob(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := dag.Marshal(j); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadNative(b *testing.B) {
	j, _ := benchmarkJob(b)
	data, err := dag.Marshal(j)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := native.Parse("wide.yaml", data); err != nil {
			b.Fatal(err)
		}
	}
}
