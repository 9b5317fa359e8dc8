package host

import (
	"context"
	"errors"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/mailbox"
	"github.com/tradewind-broker/tradewind/internal/mailbox/desk"
	"github.com/tradewind-broker/tradewind/internal/mailbox/mailboxtest"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

func TestMessagesUseFirstBucketOfClouds(t *testing.T) {
	aws := Bought{Kit: cloudkit.Kit{Name: "aws"}}
	google := Bought{Kit: cloudkit.Kit{Name: "gcp"}, Settings: cloudkit.Settings{
		Stores: map[string]string{"us-east1": "second", "europe-west4": "first"}}}
	pods := Bought{Kit: cloudkit.Kit{Name: "kubernetes", NeedsAddress: true}}
	if name, bucket, err := MailStore([]Bought{aws, google}); err != nil || name != "gcp" || bucket != "gs://first" {
		t.Errorf("%s %s %v", name, bucket, err)
	}
	for what, clouds := range map[string][]Bought{"no bucket": {aws}, "pods": {google, pods}} {
		if _, _, err := MailStore(clouds); !errors.Is(err, ErrPublicURL) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A launch is repeated. Its user data, and so its mailbox, must be the same, because clouds refuse a repeated launch
// with other user data.
func TestRepeatedLaunchHasSameMailbox(t *testing.T) {
	b := mailboxtest.NewBucket()
	m := &mail{bucket: "s3://bucket", deployment: "d", store: b, state: state(t.TempDir()), known: map[string]bool{}}
	m.desk = desk.New(desk.Config{Bucket: desk.Bucket{Store: b, Client: &http.Client{Transport: b}, URI: "s3://bucket/mail/d"},
		Key: make([]byte, 32), Endpoint: mailEndpoint("d"),
		Open: func(context.Context) (map[string]bool, error) { return nil, nil }})
	board := func(cluster string) string {
		t.Helper()
		spec := cloud.LaunchSpec{Cluster: cluster, Nodes: 2, Offer: apitypes.Offer{Cloud: "aws"}}
		if err := m.board(t.Context(), &spec); err != nil {
			t.Fatal(err)
		}
		if a, err := mailbox.ParseAddress(spec.Bootstrap.Mailbox); err != nil || a.Mailbox != cluster {
			t.Errorf("%+v, %v", a, err)
		}
		return spec.Bootstrap.Mailbox
	}
	first := board("j.0.1")
	if again := board("j.0.1"); again != first {
		t.Errorf("once %q, then %q", first, again)
	}
	if other := board("j.1.1"); other == first {
		t.Error("two launches share a mailbox")
	}
	b.Refuse(true)
	spec := cloud.LaunchSpec{Cluster: "j.2.1", Nodes: 1, Offer: apitypes.Offer{Cloud: "aws"}}
	if err := m.board(t.Context(), &spec); cloud.KindOf(err) != cloud.Transient {
		t.Errorf("a bucket that refuses: %v", err)
	}
	old := time.Now().Add(-2 * ticketFor)
	for _, cluster := range []string{"j.0.1", "j.1.1"} {
		if err := os.Chtimes(m.state.path(m.ticketFile(cluster)), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.forget(map[string]bool{"j.0.1": true}); err != nil {
		t.Fatal(err)
	}
	for cluster, want := range map[string]bool{"j.0.1": true, "j.1.1": false} {
		if _, err := os.Stat(m.state.path(m.ticketFile(cluster))); (err == nil) != want {
			t.Errorf("%s: %v", cluster, err)
		}
	}
}
