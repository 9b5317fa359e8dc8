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
	// sign returns the signature and its expiry, which may be earlier than requested.
	sign(ctx context.Context, now time.Time, v sas.BlobSignatureValues, r request) (
		sas.QueryParameters, time.Time, error)
	// account returns a client with the signer's rights.
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

// Delegation signs with a user delegation key, which it requests from the account with the client's identity. It renews
// the key when less than two days of its life remain. The identity needs the right to generate such keys (role Storage
// Blob Delegator) and to read and write the blobs.
func Delegation(client *service.Client) Credential { return &delegation{client: client} }

const (
	renewBefore = 2 * 24 * time.Hour
	skew        = 15 * time.Minute // clocks differ; Azure recommends this for start times
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

// current returns a key with days of life left. If the renewal fails, it returns the old key until that expires.
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
