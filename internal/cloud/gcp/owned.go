package gcp

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Owned returns the capacity that the project already has, used up or not.
func Owned(ctx context.Context, c *Cloud) ([]driver.Reserved, []driver.Lack) {
	unknown := func(what string, err error) []driver.Lack {
		return []driver.Lack{c.Unknown(what, err)}
	}
	s, err := c.Compute(ctx)
	if err != nil {
		return nil, unknown("the reserved capacity of the project", err)
	}
	reserved, err := Reserved(ctx, c, s)
	if err != nil {
		return nil, unknown("the reserved capacity of the project", err)
	}
	byID := func(a, b catalog.Reserved) int { return strings.Compare(a.ID, b.ID) }
	slices.SortFunc(reserved, byID)
	told := renew.Reported(reserved)
	known, err := catalog.Default() // for the sizes of others' machines
	if err != nil {
		return told, unknown("the committed use of the project", err)
	}
	committed, err := Committed(ctx, c, s, known, time.Now())
	if err != nil {
		return told, unknown("the committed use of the project", err)
	}
	slices.SortFunc(committed, byID)
	return append(told, renew.Reported(committed)...), nil
}
