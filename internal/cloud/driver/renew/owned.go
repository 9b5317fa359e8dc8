package renew

import (
	"context"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Usable returns the reserved capacity that can be planned on. It omits capacity that others use up, and commitments
// with unknown coverage.
func Usable(all []catalog.Reserved) (left []catalog.Reserved) {
	for _, r := range all {
		r.Total = apitypes.Amount{}
		if r.Check() == nil && (r.Commitment == nil || len(r.Commitment.Takes) > 0) {
			left = append(left, r)
		}
	}
	return left
}

// Reported converts the capacity that an account has, used up or not, for the report of a check.
func Reported(all []catalog.Reserved) (told []driver.Reserved) {
	for i := range all {
		r := &all[i]
		one := driver.Reserved{ID: r.ID, Where: r.Where(), InstanceType: r.InstanceType, Count: r.Count,
			USDPerHour: r.USDPerHour, By: r.By, Total: r.Total}
		if r.Commitment != nil {
			one.What = r.Commitment.What
		}
		if !r.Total.IsZero() {
			one.Has = r.Has().Floor()
		}
		told = append(told, one)
	}
	return told
}

// Owned returns the capacity that an account already has, and the problems that made the result incomplete.
type Owned func(ctx context.Context) ([]driver.Reserved, []driver.Lack)

// WithOwned returns a checker that also reports the capacity that the account already has.
func WithOwned(c driver.Checker, owned Owned) driver.Checker { return owning{c, owned} }

type owning struct {
	driver.Checker
	owned Owned
}

// Check implements driver.Checker.
func (o owning) Check(ctx context.Context) (driver.Report, error) {
	r, err := o.Checker.Check(ctx)
	for _, l := range r.Missing {
		if l.Fatal { // an account that cannot buy has greater problems, and the cloud would refuse these calls as well
			return r, err
		}
	}
	if err != nil {
		return r, err
	}
	reserved, lacks := o.owned(ctx)
	r.Reserved, r.Missing = append(r.Reserved, reserved...), append(r.Missing, lacks...)
	return r, ctx.Err()
}
