package azure_test

import (
	"net/http"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloud/azure"
	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// A region lacks an image that the deployment or the driver names. The task must not be blamed.
func TestMissingDefaultImageIsQuota(t *testing.T) {
	const own = "Canonical:ubuntu-24_04-lts:server:24.04.202401010"
	for name, images := range map[string]map[string]string{"Ubuntu's": nil, "the deployment's": {"amd64": own}} {
		w := newWorld(t, arm.Config{}, func(c *azure.Config) { c.Images = images })
		w.arm.Make(arm.Trouble{Kind: "PUT machine", Times: -1, Fault: &arm.Fault{Status: http.StatusNotFound,
			Code: "PlatformImageNotFound", Message: "The platform image '" + own +
				"' is not available. Verify that all fields in the storage profile are correct."}})
		if _, err := w.azure.Launch(t.Context(), spec("a", onDemand, 2)); cloud.KindOf(err) != cloud.Quota {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Azure refuses one machine of a cluster for good. The driver must stop creating machines, because it would have to
// undo them.
func TestRefusalStopsLaunch(t *testing.T) {
	w := newWorld(t, arm.Config{}, nil)
	w.arm.Make(arm.Trouble{Kind: "PUT machine", Times: -1, After: 2,
		Fault: &arm.Fault{Status: http.StatusConflict, Code: "SkuNotAvailable", Message: "none"}})
	_, err := w.azure.Launch(t.Context(), spec("a", onDemand, 200))
	if n := w.arm.Calls("PUT machine"); n > 40 {
		t.Errorf("%d machines requested after the third was refused: %v", n, err)
	}
}
