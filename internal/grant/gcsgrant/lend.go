package gcsgrant

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google/downscope"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Lend implements grant.Lender with a credential access boundary: Google's token service exchanges the account's token
// for one that is limited to one prefix. It expires with the account's token, after at most an hour.
func (s *Store) Lend(ctx context.Context, l grant.Loan) (grant.Credentials, error) {
	o, err := grant.ParsePrefixOf(scheme, l.Prefix)
	if err != nil {
		return grant.Credentials{}, err
	}
	if s.opts.Token == nil {
		return grant.Credentials{}, fmt.Errorf("gcsgrant: no token is configured, so none can be lent for %s: %w", o,
			errors.ErrUnsupported)
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, s.opts.Client)
	source, err := downscope.NewTokenSource(ctx, downscope.DownscopingConfig{
		RootSource: s.opts.Token, Rules: []downscope.AccessBoundaryRule{boundary(o, l.Write)},
	})
	if err != nil {
		return grant.Credentials{}, fmt.Errorf("gcsgrant: lend for %s: %w", o, err)
	}
	token, err := source.Token()
	if err != nil {
		return grant.Credentials{}, fmt.Errorf("gcsgrant: %w to lend for %s: %w", grant.ErrCredentials, o,
			grant.Redact(err))
	}
	out := grant.Credentials{Expires: token.Expiry, Token: token.AccessToken}
	if s.opts.Endpoint != public {
		out.Endpoint = s.opts.Endpoint
	}
	return out, nil
}

// boundary allows access below a prefix (Cloud Storage, "Credential Access Boundaries", limiting to an object name
// prefix: it checks the object name of an object request, and the prefix of a list request).
func boundary(o grant.Object, write bool) downscope.AccessBoundaryRule {
	role := "inRole:roles/storage.objectViewer"
	if write {
		role = "inRole:roles/storage.objectAdmin"
	}
	rule := downscope.AccessBoundaryRule{
		AvailableResource:    "//storage.googleapis.com/projects/_/buckets/" + o.Bucket,
		AvailablePermissions: []string{role},
	}
	if o.Key != "" {
		name := "projects/_/buckets/" + o.Bucket + "/objects/" + o.Key
		rule.Condition = &downscope.AvailabilityCondition{
			Title: "prefix",
			Expression: "resource.name.startsWith(" + strconv.QuoteToASCII(name) +
				") || api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith(" +
				strconv.QuoteToASCII(o.Key) + ")",
		}
	}
	return rule
}
