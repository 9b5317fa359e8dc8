package main_test

import (
	"net/http/httptest"
	"testing"

	"github.com/tradewind-broker/tradewind/functions/refresh"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/internal/cloud/remote"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/gcpkit"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// The offers that a cloud's function reports replace the offers of that cloud, and of no other.
func TestRefreshCallsCloudFunction(t *testing.T) {
	account, err := gce.New(gce.Config{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(account)
	t.Cleanup(server.Close)
	opened, err := gcpkit.Kit().Open(t.Context(), cloudkit.Request{
		Settings: cloudkit.Settings{Project: "demo", Endpoint: server.URL, Regions: []string{"us-central1"}}, Deployment: "tw",
		Lookup: func(string) string { return "" },
	})
	if err != nil {
		t.Fatal(err)
	}
	client := remote.New("gcp", remote.Server{Cloud: opened.Cloud, Refresh: opened.Refresh}.Serve)
	shelf := driver.NewMemory(nil)
	count := func(of func(*catalog.Offer) bool) int {
		last, _, err := renew.Last(t.Context(), shelf, nil)
		if err != nil {
			t.Fatal(err)
		}
		return len(renew.Collect(last, of))
	}
	others := func(o *catalog.Offer) bool { return o.Cloud != "gcp" }
	iowa := func(o *catalog.Offer) bool { return o.Cloud == "gcp" && o.Region == "us-central1" && !o.Attached }
	before, known := count(others), count(iowa)
	res, err := main.ThroughFunction(client)(t.Context(), shelf)
	if err != nil || res.Offers == 0 || count(others) != before || count(iowa) == known {
		t.Errorf("%v: %+v; others %d of %d, us-central1 %d of %d", err, res, count(others), before, count(iowa), known)
	}
	server.Close()
	after := count(iowa)
	if _, err := main.ThroughFunction(client)(t.Context(), shelf); err == nil || count(iowa) != after {
		t.Errorf("a cloud that is down: %v, %d of %d", err, count(iowa), after)
	}
}
