package cloudkit

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// ReservedFlag adds the flag --reserved, capacity that the account already has.
func ReservedFlag(f *pflag.FlagSet, s *Settings) {
	f.StringSliceVar(&s.Reserved, "reserved", nil,
		"capacity that the account already pays for, used first: TYPE@REGION[/ZONE]:COUNT[:USD],\nwith its marginal "+
			"price in USD per hour (default 0): m5.large@us-east-1:4")
}

// ReservedOf reads the reserved capacity from the settings of a cloud. Errors match ErrSettings.
func (s Settings) ReservedOf(cloud string) (all []catalog.Reserved, err error) {
	for _, text := range s.Reserved {
		kind, rest, ok := strings.Cut(text, "@")
		parts := strings.Split(rest, ":")
		if !ok || kind == "" || len(parts) < 2 || len(parts) > 3 {
			return nil, fmt.Errorf("%w: reserved %q is not TYPE@REGION[/ZONE]:COUNT[:USD]", ErrSettings, text)
		}
		r := catalog.Reserved{Cloud: cloud, InstanceType: kind, By: catalog.BySettings}
		r.Region, r.Zone, _ = strings.Cut(parts[0], "/")
		r.ID = kind + "-" + strings.ReplaceAll(parts[0], "/", "-")
		if r.Count, err = strconv.Atoi(parts[1]); err != nil || r.Count < 1 {
			return nil, fmt.Errorf("%w: reserved %q: %q is not a number of machines", ErrSettings, text, parts[1])
		}
		if len(parts) == 3 {
			if r.USDPerHour, err = strconv.ParseFloat(parts[2], 64); err != nil || !(r.USDPerHour >= 0) {
				return nil, fmt.Errorf("%w: reserved %q: %q is not a price", ErrSettings, text, parts[2])
			}
		}
		if err := r.Check(); err != nil {
			return nil, fmt.Errorf("%w: reserved %q: %w", ErrSettings, text, err)
		}
		if slices.ContainsFunc(all, func(k catalog.Reserved) bool { return k.ID == r.ID }) {
			return nil, fmt.Errorf("%w: reserved %q is given twice", ErrSettings, text)
		}
		all = append(all, r)
	}
	return all, nil
}

// Reserving returns refresh extended to add the settings' reserved capacity to the catalogue.
func Reserving(cloud string, s Settings, refresh driver.Refresh) driver.Refresh {
	return func(ctx context.Context, snapshots driver.Snapshots) (driver.Refreshed, error) {
		res, err := refresh(ctx, snapshots)
		if err != nil {
			return res, err
		}
		named, err := s.ReservedOf(cloud)
		if err != nil {
			return res, err
		}
		last, _, err := renew.Last(ctx, snapshots, nil)
		if err != nil {
			return res, err
		}
		before := func(r *catalog.Reserved) bool { return r.Cloud == cloud && r.By == catalog.BySettings }
		known := func(r catalog.Reserved) bool { return before(&r) }
		if len(named) == 0 && !slices.ContainsFunc(last.Reserved(), known) {
			return res, nil
		}
		next, err := last.WithReserved(before, named)
		if err != nil {
			return res, err
		}
		return res, renew.Save(ctx, snapshots, next)
	}
}
