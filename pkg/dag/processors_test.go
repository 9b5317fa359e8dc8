package dag_test

import (
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

func TestProcessorsAreThoseOfTheCatalogue(t *testing.T) {
	if want := hardware.CPUs(); !slices.Equal(dag.Processors, want) {
		t.Errorf("the processors are %q, and in the catalogue %q", dag.Processors, want)
	}
	for _, name := range []string{"Turin", "turin-fast/core", "shared-milan", "milan"} {
		if err := dag.CheckCPU(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "4", "turing", "intel"} {
		if err := dag.CheckCPU(name); err == nil {
			t.Errorf("%q is a processor", name)
		}
	}
}
