package skypilot_test

import (
	"os"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/skypilot"
)

func TestCorrectionsNameExistingMachines(t *testing.T) {
	// the published files, because the shipped catalogue lacks offers that cannot be bought
	const data = "../../../../../shared/data/catalog"
	if _, err := os.Stat(data); err != nil {
		t.Skipf("the public data is missing: %v", err)
	}
	c, err := catalog.Load(os.DirFS(data))
	if err != nil {
		t.Fatal(err)
	}
	for cloud, types := range skypilot.Corrections {
		for instanceType, want := range types {
			found, err := c.Find(catalog.Query{Clouds: []string{cloud}, InstanceType: instanceType, Limit: 1})
			if err != nil {
				t.Error(err)
				continue
			}
			if got := (accel.Spec{Name: found[0].Accelerator, Count: found[0].AcceleratorCount}); got != want {
				t.Errorf("%s carries %s, want %s", instanceType, got, want)
			}
		}
	}
}
