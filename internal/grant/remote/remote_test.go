package remote_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/grant/remote"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// broken is a store that fails with one error.
type broken struct {
	grant.Store
	err error
}

func (b broken) Begin(context.Context, string) (string, error) { return "", b.err }

// An error of the client must have the same kind and text as the error of the server's store.
func TestErrorsKeepKindAndText(t *testing.T) {
	for _, kind := range []error{
		grant.ErrURI, grant.ErrWant, grant.ErrOutside, grant.ErrUpload, grant.ErrNoBucket, grant.ErrCredentials,
		grant.ErrStore, errors.ErrUnsupported, grant.ErrCannotCreateBuckets,
	} {
		cause := errors.Join(kind, errors.New("said the cloud"))
		_, err := remote.New(remote.Server{Store: broken{err: cause}}.Serve).Begin(t.Context(), "gs://b/x")
		if errors.Is(kind, grant.ErrCannotCreateBuckets) { // this error wraps ErrUnsupported, and is sent as that
			kind = errors.ErrUnsupported
		}
		if !errors.Is(err, kind) || err.Error() != cause.Error() {
			t.Errorf("%v was received as %v", cause, err)
		}
	}
}

func TestMakeBucketFailsWithoutBucketer(t *testing.T) {
	c := remote.New(remote.Server{Store: broken{}}.Serve)
	if err := c.MakeBucket(t.Context(), "gs://b"); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := c.Lend(t.Context(), grant.Loan{Prefix: "gs://b/x/", For: time.Minute}); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

// An answer is unreadable or incomplete, and contains signatures. The error must not repeat them.
func TestBadAnswersRevealNoSignatures(t *testing.T) {
	for _, answer := range []string{
		`{"grants":["https://x?sig=secret"]}`, `https://x?sig=secret`, `{}`,
	} {
		c := remote.New(func(context.Context, []byte) ([]byte, error) { return []byte(answer), nil })
		_, err := c.Sign(t.Context(), grant.Want{Op: grant.Get, URI: "gs://b/x", For: time.Minute})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", answer, err)
		}
	}
}

func TestTemporaryErrorsHaveNoKind(t *testing.T) {
	c := remote.New(func(context.Context, []byte) ([]byte, error) { return nil, errors.New("throttled") })
	_, err := c.Begin(t.Context(), "gs://b/x")
	if err == nil || !strings.Contains(err.Error(), "throttled") || errors.Is(err, grant.ErrNoBucket) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Begin(ctx, "gs://b/x"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestOfRecognisesCalls(t *testing.T) {
	for message, ours := range map[string]bool{
		`{"grant":"sign"}`: true, `{"op":"launch"}`: false, `null`: false, `[]`: false, `x`: false,
	} {
		if remote.IsCall([]byte(message)) != ours {
			t.Errorf("%s: %v", message, !ours)
		}
	}
	if _, err := (remote.Server{Store: broken{}}).Serve(t.Context(), []byte("x")); err == nil {
		t.Error("an invalid message was answered")
	}
}
