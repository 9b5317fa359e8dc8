package azgrant

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Credential signs shared access signatures. Delegation and SharedKey make one.
type Credential interface {
	// sign returns the signature, and when it ends, which may be earlier than asked for.
	sign(ctx context.Context, now time.Time, v sas.BlobSignatureValues, r request) (
		sas.QueryParameters, time.Time, error)
	// account is a client with the rights of whoever signs.
	account(endpoint string) (*service.Client, error)
}

// SharedKey signs with an account's key.
func SharedKey(key *service.SharedKeyCredential) Credential { return sharedKey{key} }

type sharedKey struct{ key *service.SharedKeyCredential }

func (k sharedKey) sign(_ context.Context, _ time.Time, v sas.BlobSignatureValues, _ request) (
	sas.QueryParameters, time.Time, error,
) {
	params, err := v.SignWithSharedKey(k.key)
	return params, v.ExpiryTime, err
}

func (k sharedKey) account(endpoint string) (*service.Client, error) {
	return service.NewClientWithSharedKeyCredential(endpoint, k.key, nil)
}

// Delegation signs with user delegation keys, which it asks the account for with the client's identity: one, and
// another when less than two days of it are left. The identity needs the right to generate such keys (role Storage Blob
// Delegator) and to read and write the blobs.
func Delegation(client *service.Client) Credential { return &delegation{client: client} }

const (
	renewBefore = 2 * 24 * time.Hour
	skew        = 15 * time.Minute // clocks differ; Azure's advice for start times
)

type delegation struct {
	client *service.Client

	mu   sync.Mutex
	key  *service.UserDelegationCredential
	ends time.Time
}

func (d *delegation) sign(ctx context.Context, now time.Time, v sas.BlobSignatureValues, r request) (
	sas.QueryParameters, time.Time, error,
) {
	key, ends, err := d.current(ctx, now)
	if err != nil {
		return sas.QueryParameters{}, time.Time{}, err
	}
	if ends.Before(v.ExpiryTime) {
		v.ExpiryTime = ends
	}
	v.SignedRequestQueryParameters = r.query
	v.SignedRequestHeaders = map[string]string{}
	for name, value := range r.header {
		v.SignedRequestHeaders[strings.ToLower(name)] = value
	}
	params, err := v.SignWithUserDelegation(key)
	return params, v.ExpiryTime, err
}

func (d *delegation) account(string) (*service.Client, error) { return d.client, nil }

// current returns a key with days left. If Azure gives no new one, the old one serves until it ends.
func (d *delegation) current(ctx context.Context, now time.Time) (*service.UserDelegationCredential, time.Time, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.key != nil && d.ends.Sub(now) > renewBefore {
		return d.key, d.ends, nil
	}
	start, ends := now.Add(-skew).UTC().Truncate(time.Second), now.Add(longest-skew).UTC().Truncate(time.Second)
	key, err := d.client.GetUserDelegationCredential(ctx, service.KeyInfo{
		Start: to.Ptr(start.Format(sas.TimeFormat)), Expiry: to.Ptr(ends.Format(sas.TimeFormat)),
	}, nil)
	switch {
	case err == nil:
		d.key, d.ends = key, ends
	case d.key == nil || d.ends.Sub(now) < time.Second:
		return nil, time.Time{}, fmt.Errorf("%w: %w", grant.ErrCredentials, err)
	}
	return d.key, d.ends, nil
}
