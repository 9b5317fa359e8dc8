// Package secret stores the secrets of jobs. A job's file names the secrets. The user who submits the job gives their
// values, or references to the places where the values are stored. Values are encrypted in the store, and are
// decrypted only for the agent of a task that names them.
//
// A value is encrypted with AES-256-GCM. The key is derived (HKDF, RFC 5869) from a key of the deployment and the
// job's ID, so that a stolen table is worthless and one job cannot decrypt another job's secrets. A reference is
// stored unencrypted. Its secret is fetched each time a task needs it, so a changed secret is used at once. A Mask
// hides secrets in the output of tasks.
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

// Errors of this package, wrapped with detail. None of them contains a value.
var (
	// ErrUnavailable means that the referenced secret is missing, may not be read, or is empty. A retry does not help.
	ErrUnavailable = errors.New("secret: not available")
	// ErrDecrypt means that decryption failed: the key is gone, the secrets belong to another job, or they were
	// changed.
	ErrDecrypt = errors.New("secret: cannot be decrypted")
	// ErrLarge means that a job's secrets have more than MaxBytes.
	ErrLarge = errors.New("secret: too large")
)

// MaxBytes is the maximum total size of the names and values of a job's secrets, which are one record.
const MaxBytes = 128 << 10

// Schemes of references: the part before the first colon.
const (
	// SSM is a parameter of AWS Systems Manager: ssm:/path.
	SSM = "ssm"
	// SecretsManager is a secret of AWS Secrets Manager, by name or ARN: secretsmanager:name.
	SecretsManager = "secretsmanager"
	// GCPSM is a secret of Google Secret Manager: gcpsm:projects/P/secrets/S, optionally with /versions/V.
	GCPSM = "gcpsm"
	// KeyVault is a secret of Azure Key Vault: keyvault:VAULT/NAME, optionally with /VERSION.
	KeyVault = "keyvault"
	// Kubernetes is a key of a Secret in a cluster: kubernetes:NAMESPACE/NAME/KEY.
	Kubernetes = "kubernetes"
)

// Schemes returns all schemes of references.
func Schemes() []string { return []string{SSM, SecretsManager, GCPSM, KeyVault, Kubernetes} }

// Reference splits a value that is a reference: one that begins with a scheme and a colon and contains no blanks. The
// source checks the rest. ssm:a, for example, is a reference with an error. If it counted as a plain secret, a user
// who forgot a slash would get that text as the secret, without an error.
func Reference(value string) (scheme, name string, ok bool) {
	scheme, name, ok = strings.Cut(value, ":")
	if !ok || !slices.Contains(Schemes(), scheme) || name == "" || strings.ContainsAny(name, " \t\r\n") {
		return "", "", false
	}
	return scheme, name, true
}

// Source fetches secrets that are stored elsewhere.
type Source interface {
	// Fetch returns a secret. It returns ErrUnavailable if a retry does not help.
	Fetch(ctx context.Context, name string) (string, error)
}

// Unavailable is the error for one of a job's secrets that is not available.
type Unavailable struct {
	Name string // of the secret
	Err  error
}

// Error implements error.
func (r *Unavailable) Error() string { return r.Name + ": " + r.Err.Error() }

// Unwrap implements errors.
func (r *Unavailable) Unwrap() error { return r.Err }

// Vault encrypts and decrypts secrets. It is safe for concurrent use.
type Vault struct {
	// Keys returns the deployment's keys, at least 32 bytes each, newest first. The newest encrypts; all can decrypt.
	Keys func() ([][]byte, error)
	// Sources are the sources for references, by scheme.
	Sources map[string]Source
}

// Seal encrypts the secrets of a job, which are keyed by name, after it has checked that every reference works. It
// returns an *Unavailable or ErrLarge.
func (v *Vault) Seal(ctx context.Context, job string, values map[string]string) ([]byte, error) {
	size := 0
	for _, name := range slices.Sorted(maps.Keys(values)) {
		size += len(name) + len(values[name])
		if _, err := v.value(ctx, values[name]); err != nil {
			return nil, &Unavailable{Name: name, Err: err}
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
	return box.Seal(nil, nil, plain, []byte(job)), nil //nolint:gosec // it generates a nonce for each call
}

// Open decrypts the secrets of a job and returns those with the given names; it fetches references. It returns
// ErrSealed, or an *Unavailable that wraps ErrUnavailable.
func (v *Vault) Open(ctx context.Context, job string, sealed []byte, names []string) (map[string]string, error) {
	keys, err := v.Keys()
	if err != nil {
		return nil, err
	}
	var plain []byte
	err = ErrDecrypt
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
		return nil, fmt.Errorf("%w: the secrets of %s", ErrDecrypt, job)
	}
	var values map[string]string
	if err := json.Unmarshal(plain, &values); err != nil {
		return nil, fmt.Errorf("%w: the secrets of %s", ErrDecrypt, job) // without err, which would show a part of them
	}
	open := make(map[string]string, len(names))
	for _, name := range names {
		kept, ok := values[name]
		if !ok {
			return nil, &Unavailable{Name: name, Err: fmt.Errorf("%w: it was not given", ErrUnavailable)}
		}
		if open[name], err = v.value(ctx, kept); err != nil {
			return nil, &Unavailable{Name: name, Err: err}
		}
	}
	return open, nil
}

// value returns the secret for a stored value; it fetches references.
func (v *Vault) value(ctx context.Context, kept string) (string, error) {
	scheme, name, ok := Reference(kept)
	if !ok {
		return kept, nil
	}
	source := v.Sources[scheme]
	if source == nil {
		return "", fmt.Errorf("%w: this broker does not read %s", ErrUnavailable, scheme)
	}
	value, err := source.Fetch(ctx, name)
	if err == nil && value == "" {
		err = fmt.Errorf("%w: it is empty", ErrUnavailable)
	}
	if err != nil {
		return "", fmt.Errorf("%s:%s: %w", scheme, name, err)
	}
	return value, nil
}

// newBox returns the cipher for the secrets of a job. It generates a nonce for each message and puts it in front.
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
