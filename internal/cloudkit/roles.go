package cloudkit

import (
	"context"
	"io"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
)

// Roles is the Setup for the managed services of a cloud: the roles with which they work.
type Roles interface {
	Setup
	// Missing reports the resources that do not exist, with the command that creates them.
	Missing(ctx context.Context) []driver.Lack
}

// OpenRoles returns the setup for the services that a request's settings name. Without services, or if they need no
// roles, it does nothing.
func (k Kit) OpenRoles(ctx context.Context, r Request) (Roles, error) {
	if len(r.Settings.Services) == 0 || k.Roles == nil {
		return noRoles{r.Settings}, nil
	}
	return k.Roles(ctx, r)
}

type noRoles struct{ settings Settings }

// Print implements Setup.
func (noRoles) Print(io.Writer) error { return nil }

// Make implements Setup.
func (n noRoles) Make(context.Context, func(string)) (Settings, error) { return n.settings, nil }

// Remove implements Setup.
func (noRoles) Remove(context.Context, func(string)) error { return nil }

// Missing implements Roles.
func (noRoles) Missing(context.Context) []driver.Lack { return nil }
