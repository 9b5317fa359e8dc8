package azure

import (
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Hasten has the driver look again at once, where it would wait for a cloud that takes its time.
func (c *Cloud) Hasten() { c.pause = time.Millisecond }

// Later moves the driver's clock.
func (c *Cloud) Later(by time.Duration) {
	now := c.now
	c.now = func() time.Time { return now().Add(by) }
}

// Class is the class of image for a machine.
func (c *Cloud) Class(o apitypes.Offer) string { return c.class(o) }
