package gcpkit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"github.com/cenkalti/backoff/v5"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/internal/cloud/push"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
)

// Limits of a subscriber: messages and bytes that it handles at once; how long it keeps a message from other
// subscribers at most, and how long one that ends without returning its messages keeps them; the pause before it
// returns a message that it could not deliver; and the time for the last answers when it ends.
const (
	pullMost   = 16
	pullBytes  = 32 << 20
	pullKeeps  = 10 * time.Minute
	pullLease  = 10 * time.Second
	pullRetell = time.Second
	pullEnds   = 3 * time.Second
)

// pullFirst and pullRest are the first and the longest pause after Pub/Sub has ended a subscriber.
const (
	pullFirst = time.Second
	pullRest  = time.Minute
)

var errEnded = errors.New("Pub/Sub ended the stream")

// messages opens a client of Pub/Sub.
func messages(ctx context.Context, s cloudkit.Settings) (*pubsub.Client, error) {
	options, err := Access(ctx, s)
	if s.PubSub != "" {
		if !cloudkit.Loopback("http://" + s.PubSub) {
			return nil, fmt.Errorf("gcp: pubsub=%s is not a loopback address: remove it from the settings", s.PubSub)
		}
		options, err = []option.ClientOption{
			option.WithEndpoint(s.PubSub), option.WithoutAuthentication(),
			option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
		}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("gcp: credentials: %w", err)
	}
	return pubsub.NewClient(ctx, s.Project, options...)
}

// pulling returns a function that reads the settings' subscription until ctx ends, or nil without a subscription. The
// function acknowledges a message after delivering it, or if it is irrelevant. Pub/Sub repeats a message whose
// delivery fails.
func pulling(c *gcp.Cloud, s cloudkit.Settings, log *slog.Logger) func(context.Context, push.Deliver) {
	if s.Pull == "" {
		return nil
	}
	return func(ctx context.Context, tell push.Deliver) {
		log := log.With("subscription", "projects/"+s.Project+"/subscriptions/"+s.Pull)
		pause := &backoff.ExponentialBackOff{InitialInterval: pullFirst, MaxInterval: pullRest, Multiplier: 2}
		receive := func() (struct{}, error) {
			began := time.Now()
			err := pull(ctx, s, func(ctx context.Context, m *pubsub.Message) error {
				return tellOne(ctx, c, s, m, tell, log)
			})
			if err == nil && ctx.Err() == nil {
				err = errEnded
			}
			if time.Since(began) > pullRest {
				pause.Reset()
			}
			return struct{}{}, err
		}
		_, _ = backoff.Retry(ctx, receive, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0),
			backoff.WithNotify(func(err error, _ time.Duration) { log.Warn("pull failed", "err", advised(s, err)) }))
	}
}

// pull delivers the messages of the subscription until ctx ends, or Pub/Sub refuses. The client reconnects by itself
// after a lost connection, and keeps a message from other subscribers while it is being delivered.
func pull(ctx context.Context, s cloudkit.Settings, deliver func(context.Context, *pubsub.Message) error) error {
	client, err := messages(context.WithoutCancel(ctx), s)
	if err != nil {
		return err
	}
	subscriber := client.Subscriber(s.Pull)
	subscriber.ReceiveSettings = pubsub.ReceiveSettings{
		MaxOutstandingMessages: pullMost, MaxOutstandingBytes: pullBytes, MaxExtension: pullKeeps,
		MaxDurationPerAckExtension: pullLease,
	}
	done := make(chan error, 1)
	go func() {
		err := subscriber.Receive(ctx, func(ctx context.Context, m *pubsub.Message) {
			if err := deliver(ctx, m); err != nil {
				_ = clock.Pause(ctx, pullRetell) // Pub/Sub may deliver it again at once
				m.Nack()
				return
			}
			m.Ack()
		})
		done <- errors.Join(err, client.Close())
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	// Without a connection, Receive ends only after its next attempts to connect and to acknowledge.
	select {
	case err := <-done:
		return err
	case <-time.After(pullEnds):
		return ctx.Err()
	}
}

// advised adds the command that lets the broker pull again.
func advised(s cloudkit.Settings, err error) error {
	switch status.Code(err) {
	case codes.NotFound:
		return fmt.Errorf("%w: create it: gcloud pubsub subscriptions create %s --topic TOPIC --project %s", err,
			s.Pull, s.Project)
	case codes.PermissionDenied:
		return fmt.Errorf("%w: grant the role: gcloud pubsub subscriptions add-iam-policy-binding %s --project %s "+
			"--role roles/pubsub.subscriber --member ACCOUNT", err, s.Pull, s.Project)
	default:
		return err
	}
}

func tellOne(ctx context.Context, c *gcp.Cloud, s cloudkit.Settings, m *pubsub.Message, tell push.Deliver,
	log *slog.Logger) error {
	n, err := news(ctx, c, s, gcp.Message{Data: m.Data, Attributes: m.Attributes})
	if errors.Is(err, push.ErrNotice) {
		log.Warn("ignored an unreadable message", "message", m.ID, "err", err)
		return nil
	}
	if err == nil && n != (push.News{}) {
		err = tell(ctx, n)
	}
	if err != nil && ctx.Err() == nil {
		log.Warn("a message was not processed; Pub/Sub will repeat it", "message", m.ID, "err", err)
	}
	return err
}
