package gcp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/api/option"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// world is an emulated project, and a driver for it.
type world struct {
	*testing.T
	gce *gce.Cloud
	url string
	gcp *gcp.Cloud
	cfg gcp.Config
}

// newWorld returns a new world. change may modify the driver's configuration.
func newWorld(t *testing.T, change func(*gcp.Config)) *world {
	t.Helper()
	return newWorldOf(t, gce.Config{}, change)
}

func newWorldOf(t *testing.T, c gce.Config, change func(*gcp.Config)) *world {
	t.Helper()
	emulator, err := gce.New(c)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(emulator)
	t.Cleanup(func() {
		server.Close()
		emulator.Close()
		for _, f := range emulator.Faults() {
			t.Errorf("not as in Google's documentation: %s", f)
		}
	})
	w := &world{T: t, gce: emulator, url: server.URL, cfg: gcp.Config{
		Deployment: "test", Project: "demo", Agents: driver.Agents{"": strings.Repeat("a", 64)}, Endpoint: server.URL,
		ServiceAccount: "machines@demo.iam.gserviceaccount.com",
		Client:         []option.ClientOption{option.WithHTTPClient(&http.Client{})},
	}}
	if change != nil {
		change(&w.cfg)
	}
	w.gcp = gcp.New(w.cfg)
	return w
}

// another returns a second driver for the same account, with empty caches.
func (w *world) another(change func(*gcp.Config)) *gcp.Cloud {
	cfg := w.cfg
	if change != nil {
		change(&cfg)
	}
	return gcp.New(cfg)
}

var onDemand = apitypes.Offer{
	Cloud: "gcp", Region: "us-central1", Zone: "us-central1-a", InstanceType: "e2-standard-2", USDPerHour: 0.067,
}

var spot = apitypes.Offer{
	Cloud: "gcp", Region: "us-central1", Zone: "us-central1-a", InstanceType: "n1-standard-8", Spot: true,
	Accelerator: "V100", AccelCount: 1, USDPerHour: 0.82,
}

func boot(cluster string, nodes int) cloud.Bootstrap {
	b := cloud.Bootstrap{Endpoint: "https://broker.example"}
	for range nodes {
		b.Tokens = append(b.Tokens, "token-of-"+cluster)
	}
	return b
}

func spec(cluster string, nodes int, o apitypes.Offer) cloud.LaunchSpec {
	return cloud.LaunchSpec{
		Cluster: cluster, Offer: o, Nodes: nodes, Bootstrap: boot(cluster, nodes), Labels: map[string]string{"job": "j-1"},
	}
}
