package kubernetes_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/cloud/kubernetes"
)

// A node is offered in parts. Parts must fit on the node and have different names. The price of a part is its largest
// share of any resource.
func TestShapes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cpus := float64(rapid.IntRange(1, 800).Draw(t, "quarters")) / 4
		gib := float64(rapid.IntRange(1, 4000).Draw(t, "memory")) / 4
		gpus := rapid.Int64Range(0, 16).Draw(t, "gpus")
		shapes := kubernetes.Shapes("m5.x_large", cpus, gib, gpus)
		seen := map[string]bool{}
		whole := false
		for _, s := range shapes {
			read, err := kubernetes.ParseShape(s.Type())
			if err != nil || read.Node != s.Node || read.VCPU != s.VCPU || read.GiB != s.GiB || read.GPUs != s.GPUs {
				t.Fatalf("%s is parsed as %+v, %v", s.Type(), read, err)
			}
			if seen[s.Type()] {
				t.Fatalf("duplicate shape %s", s.Type())
			}
			seen[s.Type()] = true
			if s.VCPU > cpus || s.GiB > gib || s.GPUs > gpus {
				t.Fatalf("%s does not fit on %v vCPUs, %v GiB, %d GPUs", s.Type(), cpus, gib, gpus)
			}
			least := max(s.VCPU/cpus, s.GiB/gib, 0)
			if s.Share() < least-1e-9 || s.Share() > 1+1e-9 {
				t.Fatalf("%s costs %v of a node, but uses %v", s.Type(), s.Share(), least)
			}
			whole = whole || s.VCPU == cpus && s.GiB == gib && s.GPUs == gpus
		}
		if !whole {
			t.Fatalf("the whole node is not sold: %v", seen)
		}
	})
}

func FuzzParseShape(f *testing.F) {
	for _, s := range []string{"m5.xlarge_2x8", "node_0.25x0.5", "g5_4x16x1", "_1x1", "a_1xNaN", "a_1e9x1", "a_1x1x0",
		"a_1x1x2-shared", "a_1x1x1-mig-1g.10gb", "a_1x1-shared", "a_1x1x1-half"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := kubernetes.ParseShape(text)
		if err != nil {
			return
		}
		again, err := kubernetes.ParseShape(s.Type())
		if err != nil || again != s {
			t.Errorf("%q is %+v, and %q %+v, %v", text, s, s.Type(), again, err)
		}
	})
}
