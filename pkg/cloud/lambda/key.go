package lambda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/secret"
)

// ErrKey says that there is no API key to be had.
var ErrKey = errors.New("no API key of Lambda's")

// openToOthers are the permissions that a key's file may not have.
const openToOthers = 0o077

// KeyFile reads the API key from a file each time it is asked. It fails with ErrKey for a file that others than its
// owner may read, with the command that mends it.
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

// Fetcher has secrets by name, as sources of package secret do.
type Fetcher interface {
	Fetch(ctx context.Context, name string) (string, error)
}

// KeySecret reads the API key from where secrets are kept, such as a parameter of AWS Systems Manager. It fails with
// ErrKey where there is none to be had, and with another error where it may be had later.
func KeySecret(from Fetcher, name string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		text, err := from.Fetch(ctx, name)
		if errors.Is(err, secret.ErrReference) {
			return "", fmt.Errorf("%w: %w", ErrKey, err)
		}
		if err != nil {
			return "", fmt.Errorf("lambda: the API key cannot be read now: %w", err)
		}
		return checkKey(text, name)
	}
}

// checkKey refuses what cannot stand in a header, without telling it.
func checkKey(text, from string) (string, error) {
	key := strings.TrimSpace(text)
	if key == "" || strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
		return "", fmt.Errorf("%w: %s does not have one line with a key", ErrKey, from)
	}
	return key, nil
}
