package setup_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/api/option"
	"google.golang.org/api/pubsub/v1"
	"google.golang.org/api/storage/v1"

	"github.com/tradewind-broker/tradewind/internal/cloud/gcp/setup"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
)

const agent = "serviceAccount:service-100000000001@gs-project-accounts.iam.gserviceaccount.com"

// withDAGs returns a project whose buckets are in fake-gcs-server.
func withDAGs(t *testing.T, change func(*setup.Config)) *world {
	w := newWorld(t, func(c *setup.Config) {
		if c.DAGs = "gs://acme-jobs/dags"; change != nil {
			change(c)
		}
	})
	w.gce.KeepBuckets(servers.FakeGCS(t))
	return w
}

// told returns the notifications of the bucket, and the subscription.
func (w *world) told() (list []*storage.Notification, sub *pubsub.Subscription) {
	w.Helper()
	buckets, err := storage.NewService(w.Context(), option.WithEndpoint(w.url+"/storage/v1/"), option.WithoutAuthentication())
	if err != nil {
		w.Fatal(err)
	}
	messages, err := pubsub.NewService(w.Context(), option.WithEndpoint(w.url+"/"), option.WithoutAuthentication())
	if err != nil {
		w.Fatal(err)
	}
	found, err := buckets.Notifications.List("acme-jobs").Do()
	if err != nil {
		w.Fatal(err)
	}
	sub, _ = messages.Projects.Subscriptions.Get("projects/demo/subscriptions/tradewind-test").Do()
	return found.Items, sub
}

func TestBucketNotification(t *testing.T) {
	w := withDAGs(t, nil)
	s := w.setup()
	made, all := w.add(s)
	if len(made) != all || all != len(s.Print()) {
		t.Errorf("%d of %d made: %v", len(made), all, made)
	}
	list, sub := w.told()
	if len(list) != 1 || list[0].Topic != "//pubsub.googleapis.com/projects/demo/topics/tradewind-test" || list[0].ObjectNamePrefix != "dags/" ||
		!slices.Equal(list[0].EventTypes, []string{"OBJECT_FINALIZE"}) || list[0].PayloadFormat != "JSON_API_V1" {
		t.Errorf("%+v", list)
	}
	if sub == nil || sub.Topic != "projects/demo/topics/tradewind-test" || sub.ExpirationPolicy == nil || sub.ExpirationPolicy.Ttl != "" {
		t.Errorf("%+v", sub)
	}
	for _, b := range [][3]string{
		{"projects/demo/topics/tradewind-test", "roles/pubsub.publisher", agent},
		// The sink's identity needs the right to publish: "Until you grant this identity write-access to the
		// destination, log entry exports from this sink will fail" (Cloud Logging API v2, LogSink.writerIdentity).
		{"projects/demo/topics/tradewind-test", "roles/pubsub.publisher", "serviceAccount:service-100000000001@gcp-sa-logging.iam.gserviceaccount.com"},
		{"projects/demo/subscriptions/tradewind-test", "roles/pubsub.subscriber", "user:a@example.com"},
		{"buckets/acme-jobs", "roles/storage.objectUser", "user:a@example.com"},
	} {
		if !w.gce.HasRole(b[0], b[1], b[2], false) {
			t.Errorf("%s does not have %s on %s", b[2], b[1], b[0])
		}
	}
	if made, _ := w.add(w.setup()); len(made) > 0 {
		t.Errorf("the second time made %v", made)
	}
	// Another user's notification must stay. It must not be taken for the deployment's.
	if err := s.Remove(t.Context(), func(setup.Change) {}); err != nil {
		t.Fatal(err)
	}
	list, sub = w.told()
	if len(list) != 0 || sub != nil || w.gce.HasRole("buckets/acme-jobs", "roles/storage.objectUser", "user:a@example.com", false) {
		t.Errorf("left: %+v, %+v", list, sub)
	}
}

func TestNotificationsArePushedToFunctions(t *testing.T) {
	w := withDAGs(t, federated)
	s := w.setup()
	if made, _ := w.add(s); slices.Contains(made, "subscription tradewind-test") {
		t.Error("made a subscription that no one pulls")
	}
	w.cfg.PushURL = "https://api.example"
	s = w.setup()
	if made, _ := w.add(s); !slices.Equal(made, []string{"service account test-push@demo.iam.gserviceaccount.com", "subscription tradewind-test"}) {
		t.Errorf("made %v", made)
	}
	_, sub := w.told()
	to := sub.PushConfig
	if to == nil || to.PushEndpoint != "https://api.example/v1/push/gcp" || to.OidcToken == nil || to.OidcToken.Audience != to.PushEndpoint ||
		to.OidcToken.ServiceAccountEmail != "test-push@demo.iam.gserviceaccount.com" {
		t.Errorf("%+v", to)
	}
	if made, _ := w.add(w.setup()); len(made) > 0 {
		t.Errorf("the second time made %v", made)
	}
	w.cfg.PushURL = "https://other.example" // the broker has a new address
	if made, _ := w.add(w.setup()); !slices.Equal(made, []string{"subscription tradewind-test"}) {
		t.Errorf("made %v", made)
	}
	if _, sub := w.told(); sub.PushConfig.PushEndpoint != "https://other.example/v1/push/gcp" {
		t.Errorf("the subscription pushes to %s", sub.PushConfig.PushEndpoint)
	}
	w.cfg.PushURL, w.cfg.PushAccount = "", "test-push@demo.iam.gserviceaccount.com" // as in the saved settings
	if err := w.setup().Remove(t.Context(), func(setup.Change) {}); err != nil {
		t.Fatal(err)
	}
	if _, sub := w.told(); sub != nil || w.gce.Created()["account test-push@demo.iam.gserviceaccount.com"] {
		t.Errorf("left: %+v", sub)
	}
}

func TestPrintBucketCommands(t *testing.T) {
	w := withDAGs(t, func(c *setup.Config) { c.Location = "us-central1" })
	text := strings.Join(w.setup().Print(), "\n")
	for _, want := range []string{
		"gcloud storage buckets create gs://acme-jobs --uniform-bucket-level-access --project demo --location US-CENTRAL1",
		"gcloud storage buckets notifications create gs://acme-jobs --topic projects/demo/topics/tradewind-test --event-types OBJECT_FINALIZE " +
			"--payload-format json --object-prefix dags/",
		"gcloud pubsub subscriptions create tradewind-test --topic tradewind-test --ack-deadline 60 --expiration-period never",
		"gcloud pubsub topics add-iam-policy-binding tradewind-test --project demo --member " +
			"'serviceAccount:service-PROJECT_NUMBER@gs-project-accounts.iam.gserviceaccount.com' --role roles/pubsub.publisher",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
