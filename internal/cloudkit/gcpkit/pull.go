package gcpkit

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"time"

	pubsub "google.golang.org/api/pubsub/v1"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/pkg/cloud/gcp"
	"github.com/tradewind-broker/tradewind/pkg/cloud/push"
)

// pullMost is the number of messages per pull; pullFirst and pullRest are the first and the longest pause after a
// failure.
const (
	pullMost  = 100
	pullFirst = time.Second
	pullRest  = time.Minute
)

// pulling returns a function that reads the settings' subscription until ctx ends; nil without a subscription. It
// acknowledges a message after delivering it, or if it is irrelevant. A message whose delivery fails comes again.
func pulling(c *gcp.Cloud, s cloudkit.Settings, log *slog.Logger) func(context.Context, push.Deliver) {
	if s.Pull == "" {
		return nil
	}
	subscription := "projects/" + s.Project + "/subscriptions/" + s.Pull
	return func(ctx context.Context, tell push.Deliver) {
		pause := pullFirst
		for ctx.Err() == nil {
			err := pullOnce(ctx, c, s, subscription, tell, log)
			if err == nil {
				pause = pullFirst
				continue
			}
			if ctx.Err() != nil {
				return
			}
			log.Warn("pull failed", "subscription", subscription, "err", gcp.Typed(err))
			if clock.Pause(ctx, pause) != nil {
				return
			}
			pause = min(2*pause, pullRest)
		}
	}
}

// pullOnce waits for messages, as long as Pub/Sub lets it, and delivers them.
func pullOnce(ctx context.Context, c *gcp.Cloud, s cloudkit.Settings, subscription string, tell push.Deliver,
	log *slog.Logger) error {
	service, err := pubsub.NewService(context.WithoutCancel(ctx), c.Options("/")...)
	if err != nil {
		return err
	}
	subscriptions := service.Projects.Subscriptions
	out, err := subscriptions.Pull(subscription, &pubsub.PullRequest{MaxMessages: pullMost}).Context(ctx).Do()
	if err != nil {
		return err
	}
	var done []string
	var untold error
	for _, m := range out.ReceivedMessages {
		err := tellOne(ctx, c, s, m.Message, tell)
		switch {
		case errors.Is(err, push.ErrNotice):
			log.Warn("ignored an unreadable message", "subscription", subscription, "err", err)
		case err != nil:
			untold = err
			continue
		}
		done = append(done, m.AckId)
	}
	if len(done) > 0 {
		_, err = subscriptions.Acknowledge(subscription, &pubsub.AcknowledgeRequest{AckIds: done}).Context(ctx).Do()
	}
	return errors.Join(untold, err)
}

func tellOne(ctx context.Context, c *gcp.Cloud, s cloudkit.Settings, m *pubsub.PubsubMessage, tell push.Deliver) error {
	data, err := base64.StdEncoding.DecodeString(m.Data)
	if err != nil {
		return errors.Join(push.ErrNotice, err)
	}
	n, err := news(ctx, c, s, gcp.Message{Data: data, Attributes: m.Attributes})
	if err != nil || n == (push.News{}) {
		return err
	}
	return tell(ctx, n)
}
