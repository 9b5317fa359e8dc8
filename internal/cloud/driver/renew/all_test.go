package renew_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

func offer(cloud, kind string, usd, spot float64) catalog.Offer {
	return catalog.Offer{Cloud: cloud, Region: "r", InstanceType: kind, VCPU: 2, MemoryGiB: 4, OnDemandUSD: usd, SpotUSD: spot, HasSpot: spot > 0}
}

// selling returns a source that sells exactly these offers.
func selling(t *testing.T, cloud string, offers ...catalog.Offer) renew.Source {
	return renew.Source{Cloud: cloud, Refresh: func(ctx context.Context, s driver.Snapshots) (driver.Refreshed, error) {
		last, _, err := renew.Last(ctx, s, nil)
		if err != nil {
			return driver.Refreshed{}, err
		}
		next, err := last.Replace(func(o *catalog.Offer) bool { return o.Cloud == cloud }, offers)
		if err != nil {
			t.Fatal(err)
		}
		return driver.Refreshed{Offers: len(offers), Kept: []string{"quotas: no rights"}}, renew.Save(ctx, s, next)
	}}
}

func failing(cloud, words string) renew.Source {
	return renew.Source{Cloud: cloud, Refresh: func(context.Context, driver.Snapshots) (driver.Refreshed, error) {
		return driver.Refreshed{}, errors.New(words)
	}}
}

// shelf returns a small catalogue, because writing the whole one takes a second.
func shelf(t *testing.T) *driver.Memory {
	t.Helper()
	all, err := catalog.Default()
	if err == nil {
		all, err = all.Replace(func(o *catalog.Offer) bool { return o.Cloud != "lambda" },
			[]catalog.Offer{offer("aws", "m", 1, 0.5), offer("gcp", "n", 1, 0.5)})
	}
	m := driver.NewMemory(nil)
	if err == nil {
		err = renew.Save(t.Context(), m, all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func now() time.Time { return time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC) }

func known(t *testing.T, s driver.Snapshots, cloud string) map[string]catalog.Offer {
	t.Helper()
	last, _, err := renew.Last(t.Context(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return renew.Collect(last, func(o *catalog.Offer) bool { return o.Cloud == cloud })
}

func TestAllReportsChangesAndKeepsOffersOfFailedCloud(t *testing.T) {
	s := shelf(t)
	first := []renew.Source{
		selling(t, "gcp", offer("gcp", "same", 1, 0.5), offer("gcp", "dearer", 1, 0), offer("gcp", "cheaper", 2, 0.4), offer("gcp", "gone", 3, 0)),
		selling(t, "lambda", offer("lambda", "a10", 0.75, 0)),
	}
	if _, err := renew.All(t.Context(), s, now, first); err != nil {
		t.Fatal(err)
	}
	reports, err := renew.All(t.Context(), s, now, []renew.Source{
		selling(t, "gcp", offer("gcp", "same", 1, 0.5), offer("gcp", "dearer", 1.1, 0), offer("gcp", "cheaper", 2, 0.1), offer("gcp", "new", 3, 1)),
		failing("lambda", "the list of machine types is malformed"),
	})
	if err != nil || len(reports) != 2 {
		t.Fatalf("%v: %+v", err, reports)
	}
	g, l := reports[0], reports[1]
	if !g.Renewed || g.Offers != 4 || g.New != 2 || g.Gone != 1 || g.Dearer != 1 || g.Cheaper != 1 || len(g.Kept) != 1 || !g.At.Equal(now()) {
		t.Errorf("gcp: %+v", g)
	}
	if len(g.Largest) != 2 || g.Largest[0].Offer != "gcp/r//cheaper/spot" && !strings.HasSuffix(g.Largest[0].Offer, "cheaper/spot") || g.Largest[0].Share() > -0.74 {
		t.Errorf("largest: %+v", g.Largest)
	}
	if l.Renewed || !strings.Contains(l.Problem, "malformed") {
		t.Errorf("lambda: %+v", l)
	}
	if left := known(t, s, "lambda"); len(left) != 1 {
		t.Errorf("lambda offers: %v", left)
	}
	if _, err := renew.All(t.Context(), s, now, []renew.Source{failing("gcp", "down"), failing("lambda", "down")}); !errors.Is(err, renew.ErrNoAnswer) {
		t.Errorf("no cloud answered: %v", err)
	}
}

func TestPartAndMergeTouchOneCloud(t *testing.T) {
	s := shelf(t)
	before := len(known(t, s, "aws"))
	part, err := renew.Part(t.Context(), s, "gcp")
	if err != nil {
		t.Fatal(err)
	}
	data, _, _ := part.Get(t.Context(), "")
	if c, err := catalog.ReadSnapshot(data); err != nil || len(c.Clouds()) != 1 || c.Clouds()[0] != "gcp" || len(data) > 1<<20 {
		t.Errorf("%v, %d bytes", err, len(data))
	}
	if _, err := selling(t, "gcp", offer("gcp", "new", 1, 0)).Refresh(t.Context(), part); err != nil {
		t.Fatal(err)
	}
	if err := renew.Merge(t.Context(), s, part, "gcp"); err != nil {
		t.Fatal(err)
	}
	if now := known(t, s, "gcp"); len(now) != 1 || len(known(t, s, "aws")) != before {
		t.Errorf("gcp has %v, aws %d of %d", now, len(known(t, s, "aws")), before)
	}
	if err := renew.Merge(t.Context(), s, driver.NewMemory([]byte("nonsense")), "gcp"); !errors.Is(err, catalog.ErrBadSnapshot) || len(known(t, s, "gcp")) != 1 {
		t.Errorf("nonsense: %v", err)
	}
	if err := renew.Merge(t.Context(), s, part, "lambda"); !errors.Is(err, catalog.ErrBadSnapshot) {
		t.Errorf("merged another cloud's part: %v", err)
	}
}
