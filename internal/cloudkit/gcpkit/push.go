package gcpkit

import (
	"context"
	"fmt"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/gcp"
	"github.com/tradewind-broker/tradewind/pkg/cloud/push"
	"github.com/tradewind-broker/tradewind/pkg/identity"
	"github.com/tradewind-broker/tradewind/pkg/identity/googleid"
)

// pushed reads pushes of Pub/Sub. Their token has to be for this broker's endpoint and made for the account that the
// settings name; without one nothing is taken.
func pushed(c *gcp.Cloud, s cloudkit.Settings, publicURL string) (push.Read, error) {
	if s.PushAccount == "" || publicURL == "" {
		return nil, nil //nolint:nilnil // nothing is pushed
	}
	tokens, err := googleid.New(googleid.Config{Audience: publicURL + push.Path + Name, Keys: s.Proofs})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, bearer string, body []byte) (none cloud.Notice, ours bool, err error) {
		account, err := tokens.Account(ctx, bearer)
		if err != nil {
			return none, false, err
		}
		if account != s.PushAccount {
			return none, false, fmt.Errorf("%w: it is of another service account than %s", identity.ErrInvalid,
				s.PushAccount)
		}
		notice, relevant, err := gcp.DecodePush(body)
		if err != nil {
			return none, false, fmt.Errorf("%w: %w", push.ErrNotice, err)
		}
		if !relevant {
			return none, false, nil
		}
		return c.Whose(ctx, notice)
	}, nil
}
