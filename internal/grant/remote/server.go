package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Server answers the calls of clients with a store.
type Server struct{ Store grant.Store }

// Serve answers one call. It fails only if message is not a call of this package; an error of the store is an answer.
func (s Server) Serve(ctx context.Context, message []byte) ([]byte, error) {
	var in call
	if err := json.Unmarshal(message, &in); err != nil {
		return nil, fmt.Errorf("grant: call: %w", err)
	}
	if in.Within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, in.Within)
		defer cancel()
	}
	out, err := s.do(ctx, in)
	if err != nil {
		out = answer{Failure: failureOf(err)}
	}
	return json.Marshal(out)
}

func (s Server) do(ctx context.Context, in call) (out answer, err error) {
	switch in.Grant {
	case opSign:
		out.Grants, err = s.Store.Sign(ctx, in.Wants...)
	case opBegin:
		out.Upload, err = s.Store.Begin(ctx, in.URI)
	case opComplete:
		err = s.Store.Complete(ctx, in.URI, in.Upload, in.Parts)
	case opAbort:
		err = s.Store.Abort(ctx, in.URI, in.Upload)
	case opList:
		out.Page, err = s.Store.List(ctx, in.URI, in.After)
	case opRemove:
		err = s.Store.Remove(ctx, in.URI)
	case opMake:
		err = grant.MakeBucket(ctx, s.Store, in.URI)
	case opUnmake:
		err = grant.RemoveBucket(ctx, s.Store, in.URI)
	case opLend:
		if in.Loan == nil {
			return out, fmt.Errorf("%w: the call has no loan", grant.ErrWant)
		}
		var lent grant.Credentials
		lent, err = grant.Lend(ctx, s.Store, *in.Loan)
		out.Credentials = &lent
	default: // from a newer client
		err = fmt.Errorf("grant: operation %q: %w", in.Grant, errors.ErrUnsupported)
	}
	return out, err
}

// failureOf converts an error to a Failure.
func failureOf(err error) *Failure {
	f := &Failure{Message: grant.Redact(err).Error()}
	for _, k := range kinds() {
		if errors.Is(err, k.err) {
			f.Kind = k.name
			break
		}
	}
	return f
}
