package lambdalabs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/secret"
)

// ErrKey means that there is no usable API key.
var ErrKey = errors.New("no Lambda API key")

// openToOthers are the permissions that a key file must not have.
const openToOthers = 0o077

// KeyFile returns a function that reads the API key from a file at each call. If users other than the owner may read
// the file, it fails with ErrKey, and the error contains the command that fixes that.
func KeyFile(path string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		info, err := os.Stat(path)
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrKey, err)
		}
		if mode := info.Mode().Perm(); mode&openToOthers != 0 {
			return "", fmt.Errorf("%w: %s has mode %04o and can be read by others: chmod 600 %s", ErrKey, path, mode,
				path)
		}
		text, err := os.ReadFile(path) //nolint:gosec // the file that was named for this
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrKey, err)
		}
		return checkKey(string(text), path)
	}
}

// Fetcher returns secrets by name, like the sources of package secret.
type Fetcher interface {
	Fetch(ctx context.Context, name string) (string, error)
}

// KeySecret returns a function that reads the API key from a store of secrets, such as AWS Systems Manager. It fails
// with ErrKey if the store has no key, and with another error if the store may be available later.
func KeySecret(from Fetcher, name string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		text, err := from.Fetch(ctx, name)
		if errors.Is(err, secret.ErrUnavailable) {
			return "", fmt.Errorf("%w: %w", ErrKey, err)
		}
		if err != nil {
			return "", fmt.Errorf("lambda: the API key cannot be read now: %w", err)
		}
		return checkKey(text, name)
	}
}

// checkKey returns an error for a key that cannot be in a header; the error does not contain the key.
func checkKey(text, from string) (string, error) {
	key := strings.TrimSpace(text)
	if key == "" || strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
		return "", fmt.Errorf("%w: %s is not one line with a key", ErrKey, from)
	}
	return key, nil
}
