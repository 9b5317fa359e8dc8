// Package secret keeps the secrets of jobs. A job's file names them; whoever hands the job in gives their values, or
// says where they are kept. They lie in the store sealed, and are opened for the agent of a task that names them, and
// for nobody else.
//
// A value is sealed with AES-256-GCM under a key that is derived (HKDF, RFC 5869) from a key of the deployment and the
// job's ID, so that what is stolen from the table is worthless and one job's secrets do not open for another. A
// reference is kept as it is, and what it refers to is fetched each time it is handed out: it may be changed there.
package secret

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Errors of this package, wrapped with detail. None of them shows a value.
var (
	// ErrReference: what is referred to is not there, may not be read, or has no value. Asking again does not help.
	ErrReference = errors.New("secret: cannot be had")
	// ErrSealed: what was sealed cannot be opened: by a key that is gone, for another job, or changed since.
	ErrSealed = errors.New("secret: cannot be opened")
	// ErrLarge: a job's secrets have more than MaxBytes.
	ErrLarge = errors.New("secret: too large")
)

// MaxBytes is how much the names and values of a job's secrets may have together. They are one record.
const MaxBytes = 128 << 10

// Schemes are what references begin with, before a colon.
const (
	// SSM is a parameter of AWS Systems Manager: ssm:/path.
	SSM = "ssm"
	// SecretsManager is a secret of AWS Secrets Manager, by name or ARN: secretsmanager:name.
	SecretsManager = "secretsmanager"
	// GCPSM is a secret of Google Secret Manager: gcpsm:projects/P/secrets/S, with /versions/V if need be.
	GCPSM = "gcpsm"
	// KeyVault is a secret of Azure Key Vault: keyvault:VAULT/NAME, with /VERSION if need be.
	KeyVault = "keyvault"
	// Kubernetes is a key of a Secret in a cluster: kubernetes:NAMESPACE/NAME/KEY.
	Kubernetes = "kubernetes"
)

// Schemes are all schemes of references.
func Schemes() []string { return []string{SSM, SecretsManager, GCPSM, KeyVault, Kubernetes} }

// Reference splits a value that says where the secret is kept: one that begins with a scheme and a colon, with no blank
// after it. What is wrong with the rest its source says: were ssm:a the secret itself, who forgot a slash would hand
// the task that, and nobody would tell.
func Reference(value string) (scheme, name string, ok bool) {
	scheme, name, ok = strings.Cut(value, ":")
	if !ok || !slices.Contains(Schemes(), scheme) || name == "" || strings.ContainsAny(name, " \t\r\n") {
		return "", "", false
	}
	return scheme, name, true
}

// Source fetches secrets that are kept elsewhere.
type Source interface {
	// Fetch returns a secret. It fails with ErrReference where asking again does not help.
	Fetch(ctx context.Context, name string) (string, error)
}

// Refused says which of a job's secrets cannot be had, and why.
type Refused struct {
	Name string // of the secret
	Err  error
}

// Error implements error.
func (r *Refused) Error() string { return r.Name + ": " + r.Err.Error() }

// Unwrap implements errors.
func (r *Refused) Unwrap() error { return r.Err }

// Vault seals and opens secrets. It is safe for concurrent use.
type Vault struct {
	// Keys are the deployment's, at least 32 bytes each, the newest first: it seals, all open.
	Keys func() ([][]byte, error)
	// Sources fetch references, by scheme.
	Sources map[string]Source
}

// Seal seals the secrets of a job by name, once every reference among them was found good. It fails with a *Refused, or
// with ErrLarge.
func (v *Vault) Seal(ctx context.Context, job string, values map[string]string) ([]byte, error) {
	size := 0
	for _, name := range slices.Sorted(maps.Keys(values)) {
		size += len(name) + len(values[name])
		if _, err := v.value(ctx, values[name]); err != nil {
			return nil, &Refused{Name: name, Err: err}
		}
	}
	if size > MaxBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrLarge, size, MaxBytes)
	}
	plain, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	keys, err := v.Keys()
	if err != nil {
		return nil, err
	}
	box, err := newBox(keys[0], job)
	if err != nil {
		return nil, err
	}
	return box.Seal(nil, nil, plain, []byte(job)), nil //nolint:gosec // it makes up a nonce for each
}

// Open opens what was sealed for a job and returns the secrets of some names, those that are kept elsewhere fetched. It
// fails with ErrSealed, and with a *Refused about ErrReference.
func (v *Vault) Open(ctx context.Context, job string, sealed []byte, names []string) (map[string]string, error) {
	keys, err := v.Keys()
	if err != nil {
		return nil, err
	}
	var plain []byte
	err = ErrSealed
	for _, key := range keys {
		box, boxErr := newBox(key, job)
		if boxErr != nil {
			return nil, boxErr
		}
		if plain, err = box.Open(nil, nil, sealed, []byte(job)); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: those of %s", ErrSealed, job)
	}
	var values map[string]string
	if err := json.Unmarshal(plain, &values); err != nil {
		return nil, fmt.Errorf("%w: those of %s", ErrSealed, job) // what is wrong would show some of it
	}
	open := make(map[string]string, len(names))
	for _, name := range names {
		kept, ok := values[name]
		if !ok {
			return nil, &Refused{Name: name, Err: fmt.Errorf("%w: it was not given", ErrReference)}
		}
		if open[name], err = v.value(ctx, kept); err != nil {
			return nil, &Refused{Name: name, Err: err}
		}
	}
	return open, nil
}

// value is a secret itself, fetched if need be.
func (v *Vault) value(ctx context.Context, kept string) (string, error) {
	scheme, name, ok := Reference(kept)
	if !ok {
		return kept, nil
	}
	source := v.Sources[scheme]
	if source == nil {
		return "", fmt.Errorf("%w: this broker reads no %s", ErrReference, scheme)
	}
	value, err := source.Fetch(ctx, name)
	if err == nil && value == "" {
		err = fmt.Errorf("%w: it is empty", ErrReference)
	}
	if err != nil {
		return "", fmt.Errorf("%s:%s: %w", scheme, name, err)
	}
	return value, nil
}

// newBox is the cipher for the secrets of a job. It makes up a nonce for each, and puts it in front.
func newBox(key []byte, job string) (cipher.AEAD, error) {
	derived, err := hkdf.Key(sha256.New, key, nil, "tradewind secrets 1 "+job, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
