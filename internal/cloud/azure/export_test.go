package azure

import (
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Hasten makes the driver poll without waiting.
func (c *Cloud) Hasten() { c.pause = time.Millisecond }

// Later moves the driver's clock forward.
func (c *Cloud) Later(by time.Duration) {
	now := c.now
	c.now = func() time.Time { return now().Add(by) }
}

// Class returns the image class of a machine.
func (c *Cloud) Class(o apitypes.Offer) string {
	class, err := c.class(cloud.LaunchSpec{Offer: o})
	if err != nil {
		return err.Error()
	}
	return string(class)
}

// OfQuota adds the name of the exhausted quota to an error.
var OfQuota = ofQuota
