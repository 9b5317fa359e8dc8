package gcpkit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/internal/cloud/push"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/identity"
)

// pushed returns a reader of Pub/Sub's pushes. Their token must be for this broker's endpoint and for the settings'
// PushAccount; without that account, no push is accepted.
func pushed(c *gcp.Cloud, s cloudkit.Settings, publicURL string) (push.Read, error) {
	if s.PushAccount == "" || publicURL == "" {
		return nil, nil //nolint:nilnil // nothing is pushed
	}
	tokens, err := identity.NewGoogle(identity.GoogleConfig{Audience: publicURL + push.Path + Name, Keys: s.Proofs})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, bearer string, body []byte) (push.News, error) {
		account, err := tokens.Account(ctx, bearer)
		if err != nil {
			return push.News{}, err
		}
		if account != s.PushAccount {
			return push.News{}, fmt.Errorf("%w: the token's service account is not %s", identity.ErrInvalid,
				s.PushAccount)
		}
		m, err := gcp.DecodePush(body)
		if err != nil {
			return push.News{}, fmt.Errorf("%w: %w", push.ErrNotice, err)
		}
		return news(ctx, c, s, m)
	}, nil
}

// news reads a Pub/Sub message: a bucket's notification of an object, or an entry of the audit log. It returns
// push.ErrNotice for anything else.
func news(ctx context.Context, c *gcp.Cloud, s cloudkit.Settings, m gcp.Message) (n push.News, err error) {
	if m.FromBucket() {
		o, relevant, err := m.Object()
		if err == nil && relevant && ofJobs(s, o) {
			n.Object = &o
		}
		return n, unread(err)
	}
	notice, relevant, err := gcp.DecodeNotice(m.Data)
	if err != nil || !relevant {
		return n, unread(err)
	}
	about, ours, err := c.Whose(ctx, notice)
	if err == nil && ours {
		n.Notice = &about
	}
	return n, err
}

func unread(err error) error {
	if errors.Is(err, gcp.ErrNotice) {
		return fmt.Errorf("%w: %w", push.ErrNotice, err)
	}
	return err
}

// ofJobs reports whether an object may be a job: it is in the settings' folder, and its name is not one that is
// reserved for something else.
func ofJobs(s cloudkit.Settings, o push.Object) bool {
	bucket, prefix := s.DAGPlace()
	below, there := strings.CutPrefix(o.Key, prefix)
	return bucket != "" && o.Bucket == bucket && there && push.MayBeJob(below)
}
