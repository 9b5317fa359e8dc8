package gcpkit_test

import (
	"strings"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/grpc/codes"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/gcpkit"
)

func announcerOf(t *testing.T, server *pstest.Server) driver.Announcer {
	t.Helper()
	o, err := gcpkit.Kit().Open(t.Context(), cloudkit.Request{Deployment: "tw", PublicURL: broker,
		Settings: cloudkit.Settings{Project: "demo", Endpoint: "http://127.0.0.1:1", PubSub: server.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	return o.Announcer
}

// A message must reach its topic. The topic may be in another project than the machines.
func TestAnnouncePublishesOnTopic(t *testing.T) {
	server := pstest.NewServer()
	t.Cleanup(func() { _ = server.Close() })
	const name = "projects/acme/topics/jobs"
	if _, err := server.GServer.CreateTopic(t.Context(), &pubsubpb.Topic{Name: name}); err != nil {
		t.Fatal(err)
	}
	err := announcerOf(t, server).Announce(t.Context(), "pubsub://acme/jobs", []byte("{}"), map[string]string{"ce-id": "e1"})
	if err != nil {
		t.Fatal(err)
	}
	got := server.Messages()
	if len(got) != 1 || got[0].Topic != name || string(got[0].Data) != "{}" || got[0].Attributes["ce-id"] != "e1" {
		t.Errorf("published %+v", got)
	}
}

// If Pub/Sub fails for a moment, the call is repeated. Other errors must name the topic and the command that fixes
// the problem.
func TestAnnounceErrorsNameCommand(t *testing.T) {
	t.Run("missing", func(t *testing.T) {
		server := pstest.NewServer()
		t.Cleanup(func() { _ = server.Close() })
		err := announcerOf(t, server).Announce(t.Context(), "pubsub://acme/jobs", nil, map[string]string{"a": "b"})
		if err == nil || !strings.Contains(err.Error(), "gcloud pubsub topics create jobs --project acme") {
			t.Error(err)
		}
	})
	t.Run("forbidden", func(t *testing.T) {
		server := pstest.NewServer(pstest.WithErrorInjection("Publish", codes.PermissionDenied, "no"))
		t.Cleanup(func() { _ = server.Close() })
		err := announcerOf(t, server).Announce(t.Context(), "pubsub://acme/jobs", nil, map[string]string{"a": "b"})
		if err == nil || !strings.Contains(err.Error(), "--role roles/pubsub.publisher") {
			t.Error(err)
		}
	})
}
