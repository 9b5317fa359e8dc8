// Package identity verifies to the broker which machine it talks to: it checks the statement about a machine that its
// cloud has signed. Each cloud has a Verifier; testConformance is the suite that all of them pass.
//
// A verifier proves the identity of a machine and decides nothing: the broker checks whether it is the machine that it
// launched. The trusted certificates, keys and addresses are settings of the deployment; nothing in a proof adds to
// them.
package identity

import (
	"context"
	"errors"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// Errors of a Verifier, wrapped with a reason in plain words that may be shown to the sender of the proof.
var (
	// ErrInvalid means that the proof is malformed, forged, expired, or meant for another recipient.
	ErrInvalid = errors.New("the proof is invalid")
	// ErrUnavailable means that the keys for the check are not available now; the same proof may be sent again.
	ErrUnavailable = errors.New("the proof cannot be checked now")
)

// Verifier checks the proofs of one cloud. It is safe for concurrent use.
type Verifier interface {
	// Verify returns the machine that a document proves, with at least Cloud and ID. nonce is the value that the agent
	// generated when it started; if the cloud signs it as well, the document must contain it. It fails with ErrInvalid
	// or ErrUnavailable.
	Verify(ctx context.Context, document, nonce string) (wire.Machine, error)
}

// Verifiers are the verifiers of a deployment by cloud name.
type Verifiers map[string]Verifier

// Machine returns the content of a hello's proof of its machine, or nil if the hello has no proof or one of a cloud
// that this deployment does not check. An invalid proof is not an error: it sets Machine.Fault. It fails with
// ErrUnavailable.
func (v Verifiers) Machine(ctx context.Context, h wire.Hello) (*wire.Machine, error) {
	if h.Proof == nil || v[h.Proof.Cloud] == nil {
		return nil, nil
	}
	if len(h.Proof.Document) > wire.MaxProof {
		return &wire.Machine{Fault: "the proof is too long"}, nil
	}
	m, err := v[h.Proof.Cloud].Verify(ctx, h.Proof.Document, h.Nonce)
	switch {
	case err == nil:
		return &m, nil
	case errors.Is(err, ErrInvalid):
		return &wire.Machine{Fault: err.Error()}, nil
	}
	return nil, err
}
