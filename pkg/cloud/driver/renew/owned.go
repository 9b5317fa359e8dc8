package renew

import (
	"context"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
)

// Left is what of capacity that an account has may be planned on: not what others use up, and no commitment of which
// nobody knows what it covers.
func Left(all []catalog.Reserved) (left []catalog.Reserved) {
	for _, r := range all {
		r.Total = apitypes.Amount{}
		if r.Check() == nil && (r.Commitment == nil || len(r.Commitment.Takes) > 0) {
			left = append(left, r)
		}
	}
	return left
}

// Reported is capacity that an account has as a check shows it, used up or not.
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

// Owned says what an account has already, and what stands in the way of saying all of it.
type Owned func(ctx context.Context) ([]driver.Reserved, []driver.Lack)

// Owning is a checker that says as well what the account has already.
func Owning(c driver.Checker, owned Owned) driver.Checker { return owning{c, owned} }

type owning struct {
	driver.Checker
	owned Owned
}

// Check implements driver.Checker.
func (o owning) Check(ctx context.Context) (driver.Report, error) {
	r, err := o.Checker.Check(ctx)
	for _, l := range r.Missing {
		if l.Fatal { // who cannot buy has other worries, and the calls would be refused as well
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
