package azgrant_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/tradewind-broker/tradewind/internal/emulator/blob"
	"github.com/tradewind-broker/tradewind/internal/grant/azgrant"
	"github.com/tradewind-broker/tradewind/internal/grant/remote"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/grant/granttest"
)

const delegationKey = "ZGVsZWdhdGlvbi1rZXktb2YtdGhlLXRlc3Rz"

// keys is an HTTP transport that answers Get User Delegation Key.
type keys struct {
	calls atomic.Int64
	fails atomic.Bool
}

func (k *keys) Do(r *http.Request) (*http.Response, error) {
	k.calls.Add(1)
	if k.fails.Load() {
		return nil, errors.New("no answer")
	}
	answer, err := blob.Delegate(r.Body, delegationKey)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/xml"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(answer)),
	}, nil
}

func delegation(t *testing.T, k *keys) azgrant.Credential {
	t.Helper()
	client, err := service.NewClientWithNoCredential("https://"+servers.AzureAccount+".blob.core.windows.net/",
		&service.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: k, Retry: policy.RetryOptions{MaxRetries: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	return azgrant.Delegation(client)
}

func TestConformanceByUserDelegation(t *testing.T) {
	byDelegation(t, func(s grant.Store) grant.Store { return s })
}

// The driver must conform behind package remote, as in a function that does not link the SDK.
func TestConformanceThroughRemote(t *testing.T) {
	byDelegation(t, func(s grant.Store) grant.Store { return remote.New(remote.Server{Store: s}.Serve) })
}

func byDelegation(t *testing.T, seen func(grant.Store) grant.Store) {
	t.Helper()
	var asked keys
	granttest.Run(t, func(t *testing.T) granttest.Harness {
		endpoint, key := azurite(t)
		gate, err := blob.New(strings.TrimSuffix(endpoint, "/"+servers.AzureAccount), key, delegationKey)
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(gate)
		t.Cleanup(server.Close)
		h := harness(t, server.URL+"/"+servers.AzureAccount, delegation(t, &asked))
		h.Secrets = append(h.Secrets, delegationKey)
		near := h.At
		h.At = func(now time.Time) grant.Store { return seen(near(now)) }
		calls := h.Calls
		h.Calls = func() int { return calls() + int(asked.calls.Load()) }
		h.Lacks = map[granttest.Check]string{
			granttest.Lengths: noLength, granttest.PartETags: noETag, granttest.MinParts: noLeast,
			granttest.Aborts: noAbort,
		}
		return h
	})
	if n := asked.calls.Load(); n != 1 {
		t.Errorf("%d user delegation keys were requested, want one for all", n)
	}
}

func TestDelegationKeysAreRenewedAndLimitGrants(t *testing.T) {
	var k keys
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s, err := azgrant.New("https://account.blob.core.windows.net", delegation(t, &k), azgrant.Options{
		Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	const hour, day = time.Hour, 24 * time.Hour
	start := now
	sign := func(lasts time.Duration) (grant.Grant, error) {
		grants, err := s.Sign(t.Context(), grant.Want{Op: grant.Get, URI: "azblob://c/x", For: lasts})
		if err != nil {
			return grant.Grant{}, err
		}
		return grants[0], nil
	}
	for _, step := range []struct {
		after, lasts time.Duration
		fails        bool
		calls        int64
		until        time.Duration // time after the start; 0: Sign fails
	}{
		{0, hour, false, 1, hour},
		{4 * day, 10 * day, false, 1, 7*day - 15*time.Minute}, // limited by the expiry of the key
		{6 * day, hour, true, 2, 6*day + hour},                // the renewal fails, so the old key is used
		{6 * day, hour, false, 3, 6*day + hour},
		{12 * day, hour, true, 4, 12*day + hour},
		{13 * day, hour, true, 5, 0},
	} {
		now = start.Add(step.after)
		k.fails.Store(step.fails)
		g, err := sign(step.lasts)
		if k.calls.Load() != step.calls {
			t.Errorf("after %v: %d keys requested, want %d", step.after, k.calls.Load(), step.calls)
		}
		if step.until == 0 {
			if !errors.Is(err, grant.ErrCredentials) {
				t.Errorf("after %v: %v, %v; want ErrCredentials", step.after, g, err)
			}
			continue
		}
		if err != nil || !g.Expires.Equal(start.Add(step.until)) {
			t.Errorf("after %v: %v, %v; want until %v", step.after, g, err, start.Add(step.until))
		}
		if !strings.Contains(g.URL, "spr=https&") {
			t.Errorf("a grant not limited to HTTPS: %v", g)
		}
	}
}

// An error must not contain a signature, because clients of clouds repeat the URL in their errors.
func TestErrorsOmitSignature(t *testing.T) {
	s, err := azgrant.New("http://127.0.0.1:1", azgrant.SharedKey(mustKey(t)), azgrant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	upload, err := s.Begin(t.Context(), "azblob://c/x")
	if err != nil {
		t.Fatal(err)
	}
	err = s.Complete(ctx, "azblob://c/x", upload, []grant.Uploaded{{Number: 1}})
	if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "sig") {
		t.Errorf("%v", err)
	}
}

func mustKey(t *testing.T) *service.SharedKeyCredential {
	t.Helper()
	key, err := service.NewSharedKeyCredential(servers.AzureAccount, servers.AzureKey)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
