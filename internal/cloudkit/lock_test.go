package cloudkit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Two processes refresh the catalogue of one folder at the same time. They must run one after the other, so that both
// results are kept.
func TestParallelRefreshesOfFolderKeepBothResults(t *testing.T) {
	dir := t.TempDir()
	inside, leave := make(chan struct{}), make(chan struct{})
	source := func(cloud string, began func()) renew.Source {
		return renew.Source{Cloud: cloud, Refresh: func(ctx context.Context, s driver.Snapshots) (driver.Refreshed, error) {
			last, _, err := renew.Last(ctx, s, nil)
			if err != nil {
				return driver.Refreshed{}, err
			}
			began()
			next, err := last.Replace(func(o *catalog.Offer) bool { return o.Cloud == cloud },
				[]catalog.Offer{{Cloud: cloud, Region: "r", InstanceType: "t", VCPU: 1, MemoryGiB: 1, OnDemandUSD: 1}})
			if err != nil {
				return driver.Refreshed{}, err
			}
			return driver.Refreshed{Offers: 1}, renew.Save(ctx, s, next)
		}}
	}
	over := make(chan error, 2)
	refresh := func(source renew.Source) {
		_, err := cloudkit.CatalogStoreOf(dir).Renew(context.Background(), time.Now, []renew.Source{source})
		over <- err
	}
	go refresh(source("aws", func() { close(inside); <-leave }))
	<-inside
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := cloudkit.CatalogStoreOf(dir).Renew(ended, time.Now, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the second refresh does not wait for the first: %v", err)
	}
	go refresh(source("gcp", func() {}))
	close(leave)
	for range 2 {
		if err := <-over; err != nil {
			t.Fatal(err)
		}
	}
	c, ok := cloudkit.CatalogStoreOf(dir).Catalog(context.Background())
	if !ok {
		t.Fatal("no catalogue")
	}
	for _, cloud := range []string{"aws", "gcp"} {
		if n := len(renew.Collect(c, func(o *catalog.Offer) bool { return o.Cloud == cloud })); n != 1 {
			t.Errorf("%d offers of %s, want the one that was read", n, cloud)
		}
	}
}
