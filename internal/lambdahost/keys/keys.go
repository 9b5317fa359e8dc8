// Package keys holds the keys that sign agents' tokens, in an SSM SecureString of
// the deployment. The first key is generated when it is first needed, so neither
// the template nor an operator ever sees it. It costs nothing to keep.
//
// The parameter's value is a comma-separated list of base64 keys. The first one
// signs; all of them verify. To rotate, add a new key at the front, and remove the old one when the tokens signed with
// it have expired. A function reads the new value the next time that a token does not verify.
package keys

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// SSM is the part of *ssm.Client that a Ring uses.
type SSM interface {
	GetParameter(context.Context, *ssm.GetParameterInput, ...func(*ssm.Options)) (*ssm.GetParameterOutput, error)
	PutParameter(context.Context, *ssm.PutParameterInput, ...func(*ssm.Options)) (*ssm.PutParameterOutput, error)
}

// keyBytes is 256 bits, the size of the tokens' hash.
const keyBytes = 32

// againAfter is the minimum age of the known keys before the parameter is read again for a token that does not verify.
const againAfter = time.Minute

// callWithin limits calls of SSM; tokens are made and checked without a context.
const callWithin = 5 * time.Second

// ErrKeys means that the parameter does not contain valid keys.
var ErrKeys = errors.New("keys: the parameter is not a list of base64 keys of at least 32 bytes")

// Ring has the keys of a deployment. It is safe for concurrent use.
type Ring struct {
	ssm  SSM
	name string
	now  func() time.Time

	mu   sync.Mutex
	keys [][]byte
	read time.Time
}

// New makes a ring for a parameter. It makes no call until a token is made or checked.
func New(client SSM, name string, now func() time.Time) *Ring {
	return &Ring{ssm: client, name: name, now: now}
}

// Mint signs a token with the newest key.
func (r *Ring) Mint(c wire.Claims) (string, error) {
	known, err := r.known(0)
	if err != nil {
		return "", err
	}
	return token.Mint(known[0], c)
}

// MintPool signs a pool token, for a machine or for joining, with the newest key.
func (r *Ring) MintPool(c wire.PoolClaims) (string, error) {
	known, err := r.known(0)
	if err != nil {
		return "", err
	}
	return token.MintPool(known[0], c)
}

// Verify returns the claims of a token signed with any of the keys, and the errors of token.Verify.
func (r *Ring) Verify(text string) (wire.Claims, error) { return verify(r, text, token.Verify) }

// VerifyPool returns the claims of a pool token signed with any of the keys, and the errors of token.VerifyPool.
func (r *Ring) VerifyPool(text string) (wire.PoolClaims, error) {
	return verify(r, text, token.VerifyPool)
}

// Keys returns the keys, the newest first, at most a minute old. So a function that has run for long can still open
// secrets that were sealed with a new key.
func (r *Ring) Keys() ([][]byte, error) { return r.known(againAfter) }

// verifier checks a token with one key.
type verifier[C any] func(key []byte, text string, now time.Time) (C, error)

func verify[C any](r *Ring, text string, by verifier[C]) (none C, err error) {
	known, err := r.known(0)
	if err != nil {
		return none, err
	}
	claims, err := byAny(known, text, r.now(), by)
	if !errors.Is(err, token.ErrForged) {
		return claims, err
	}
	fresh, again := r.known(againAfter)
	if again != nil {
		return none, err // SSM does not answer: use the result for the known keys
	}
	return byAny(fresh, text, r.now(), by)
}

func byAny[C any](known [][]byte, text string, now time.Time, by verifier[C]) (claims C, err error) {
	for _, key := range known {
		if claims, err = by(key, text, now); !errors.Is(err, token.ErrForged) {
			return claims, err
		}
	}
	var none C
	return none, err
}

// known returns the keys; if age is above 0 and they are older, it reads them again.
func (r *Ring) known(age time.Duration) ([][]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys != nil && (age == 0 || r.now().Sub(r.read) < age) {
		return r.keys, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), callWithin)
	defer cancel()
	value, err := r.get(ctx)
	var missing *types.ParameterNotFound
	if errors.As(err, &missing) {
		value, err = r.make(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("keys: parameter %s: %w", r.name, err)
	}
	keys, err := parse(value)
	if err != nil {
		return nil, fmt.Errorf("parameter %s: %w", r.name, err)
	}
	r.keys, r.read = keys, r.now()
	return keys, nil
}

func (r *Ring) get(ctx context.Context) (string, error) {
	out, err := r.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: &r.name, WithDecryption: aws.Bool(true)})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.Parameter.Value), nil
}

// make stores a new key, unless another function has just stored one; then it returns that key.
func (r *Ring) make(ctx context.Context) (string, error) {
	raw := make([]byte, keyBytes)
	if _, err := rand.Read(raw); err != nil {
		return "", err
	}
	value := base64.StdEncoding.EncodeToString(raw)
	_, err := r.ssm.PutParameter(ctx, &ssm.PutParameterInput{
		Name: &r.name, Value: &value, Type: types.ParameterTypeSecureString, Overwrite: aws.Bool(false),
		Description: aws.String(
			"Signs the tokens of Tradewind's agents. Made by the deployment; see docs/aws.md to rotate it."),
	})
	var exists *types.ParameterAlreadyExists
	if errors.As(err, &exists) {
		return r.get(ctx)
	}
	return value, err
}

func parse(value string) ([][]byte, error) {
	var keys [][]byte
	for part := range strings.SplitSeq(value, ",") {
		key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(part))
		if err != nil || len(key) < keyBytes {
			return nil, ErrKeys // without the secret value
		}
		keys = append(keys, key)
	}
	return keys, nil
}
