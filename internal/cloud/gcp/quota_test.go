package gcp_test

import (
	"errors"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/catalog/quotas"
	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

func TestRefusalNamesItsQuota(t *testing.T) {
	n1 := apitypes.Offer{Cloud: "gcp", Region: "us-central1", InstanceType: "n1-standard-4"}
	n2, t4 := n1, n1
	n2.InstanceType = "n2-standard-4"
	t4.Accelerator, t4.AccelCount = "T4", 1
	for message, c := range map[string]struct {
		offer apitypes.Offer
		class string
	}{
		"Quota 'CPUS' exceeded.  Limit: 24.0 in region us-central1.":            {n1, "CPUS"},
		"Quota 'N2_CPUS' exceeded.  Limit: 8.0 in region us-central1.":          {n2, "N2_CPUS"},
		"Quota 'CPUS_ALL_REGIONS' exceeded.  Limit: 12.0 globally.":             {n2, "CPUS_ALL_REGIONS"},
		"Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally.":              {t4, "GPUS_ALL_REGIONS"},
		"Quota 'NVIDIA_T4_GPUS' exceeded.  Limit: 1.0 in region us-central1.":   {t4, "NVIDIA_T4_GPUS"},
		"Quota 'IN_USE_ADDRESSES' exceeded.  Limit: 8.0 in region us-central1.": {n1, quotas.Region},
		"Quota 'SSD_TOTAL_GB' exceeded.  Limit: 500.0 in region us-central1.":   {n2, quotas.GoogleSSD},
		// the machine's disk is no Hyperdisk
		"Quota 'HDB_TOTAL_GB' exceeded.  Limit: 500.0 in region us-central1.": {n2, ""},
		// the quota of the machine's family
		"Quota 'CPUS_PER_VM_FAMILY' exceeded.  Limit: 24.0 in region us-east1.": {n2, ""},
		"Location ZONE:us-x violates constraint constraints/gcp.resources":      {n1, ""},
	} {
		err := gcp.OfQuota(cloud.LaunchSpec{Offer: c.offer}, cloud.Errorf("gcp", cloud.Quota, "QUOTA_EXCEEDED", "%s", message))
		var e *cloud.Error
		if !errors.As(err, &e) || e.Class != c.class || e.Kind != cloud.Quota {
			t.Errorf("%s: class %q", message, e.Class)
		}
	}
	w := newWorld(t, nil)
	w.gce.SetQuota("us-central1", "CPUS", 3)
	var e *cloud.Error
	if _, err := w.gcp.Launch(t.Context(), spec("a", 2, onDemand)); !errors.As(err, &e) || e.Kind != cloud.Quota ||
		quotas.Counts("CPUS", onDemand) != (e.Class == "CPUS") {
		t.Errorf("a launch is refused with %+v", e)
	}
}
