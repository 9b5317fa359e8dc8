package azure_test

import (
	"net/http"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/azure"
)

// An image that the deployment, or the driver itself, names and that a region does not have is no task's fault.
func TestAnImageThatIsNotThereIsTheFaultOfWhoNamesIt(t *testing.T) {
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

// Once one machine of a cluster was refused for good, no more are made that have to be undone.
func TestARefusalEndsTheBuying(t *testing.T) {
	w := newWorld(t, arm.Config{}, nil)
	w.arm.Make(arm.Trouble{Kind: "PUT machine", Times: -1, After: 2,
		Fault: &arm.Fault{Status: http.StatusConflict, Code: "SkuNotAvailable", Message: "none"}})
	_, err := w.azure.Launch(t.Context(), spec("a", onDemand, 200))
	if n := w.arm.Calls("PUT machine"); n > 40 {
		t.Errorf("%d machines asked for after the third was refused: %v", n, err)
	}
}
