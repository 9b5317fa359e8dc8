// Package identity is the port by which the broker learns which machine it talks to: it checks what a machine's cloud
// has signed of it. Each cloud is a sub-package; identitytest is the conformance suite that every one passes.
//
// It proves what a machine is and decides nothing: whether that is the machine that was launched, the broker compares.
// The certificates, keys and addresses that are trusted are the deployment's settings; nothing that comes with a proof
// adds to them.
package identity

import (
	"context"
	"errors"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
)

// Errors of a Verifier, wrapped with a reason in plain words that may be shown to whoever sent the proof.
var (
	// ErrInvalid: it proves nothing: it is malformed, forged, expired, or meant for somebody else.
	ErrInvalid = errors.New("the proof is not good")
	// ErrUnavailable: what it is to be checked by cannot be had now; the same proof may be sent again.
	ErrUnavailable = errors.New("the proof cannot be checked now")
)

// Verifier checks the proofs of one cloud. It is safe for concurrent use.
type Verifier interface {
	// Verify returns which machine a document is of, with Cloud and ID at least. nonce is what the agent made up when
	// it started; where the cloud signs it as well, it has to be the one in the document. It fails with ErrInvalid or
	// ErrUnavailable.
	Verify(ctx context.Context, document, nonce string) (wire.Machine, error)
}

// Verifiers are those of a deployment, by the name of the cloud.
type Verifiers map[string]Verifier

// Machine returns what a hello proves of its machine: nil where no proof came, or one of a cloud that this deployment
// does not check. A proof that is not good is no error: it is told by Machine.Fault. It fails with ErrUnavailable.
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
