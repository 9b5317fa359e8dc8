package gcpkit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// announceWithin bounds one attempt: the client repeats a call for a minute, and the caller's queue repeats attempts.
const announceWithin = 10 * time.Second

// announcer implements driver.Announcer. It connects for each message: announcements are rare, and a function of Lambda
// sleeps between them.
type announcer struct{ settings cloudkit.Settings }

// Announce implements driver.Announcer.
func (a announcer) Announce(ctx context.Context, topic string, body []byte, attributes map[string]string) (err error) {
	project, name, ok := strings.Cut(strings.TrimPrefix(topic, "pubsub://"), "/")
	if !ok {
		return cloud.Errorf(gcp.Name, cloud.Invalid, "BadTopic", "%q is not pubsub://PROJECT/TOPIC", topic)
	}
	ctx, cancel := context.WithTimeout(ctx, announceWithin)
	defer cancel()
	client, err := messages(ctx, a.settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	publisher := client.Publisher("projects/" + project + "/topics/" + name)
	publisher.PublishSettings.CountThreshold = 1
	publisher.PublishSettings.Timeout = announceWithin
	defer publisher.Stop()
	_, err = publisher.Publish(ctx, &pubsub.Message{Data: body, Attributes: attributes}).Get(ctx)
	switch status.Code(err) {
	case codes.NotFound:
		return fmt.Errorf("announce %s: %w: create it: gcloud pubsub topics create %s --project %s", topic, err, name,
			project)
	case codes.PermissionDenied:
		return fmt.Errorf("announce %s: %w: grant the role: gcloud pubsub topics add-iam-policy-binding %s "+
			"--project %s --role roles/pubsub.publisher --member ACCOUNT", topic, err, name, project)
	}
	if err != nil {
		return fmt.Errorf("announce %s: %w", topic, err)
	}
	return nil
}
