package cloudkit

import (
	"fmt"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
)

// DAGPlace returns the bucket whose files become jobs, as a URL, and the prefix of their names; both are empty
// without such a bucket.
func (s Settings) DAGPlace() (bucket, prefix string) {
	bucket, prefix, _ = driver.DAGPlace(s.DAGs) // Check validates it
	return bucket, prefix
}

// checkDAGs returns an error if DAGs or PushURL is invalid.
func (s Settings) checkDAGs() error {
	if _, _, err := driver.DAGPlace(s.DAGs); err != nil {
		return fmt.Errorf("%w: %w", ErrSettings, err)
	}
	if !strings.HasPrefix(s.PushURL, "https://") && s.PushURL != "" && !Loopback(s.PushURL) {
		return fmt.Errorf("%w: push URL %q is not https://HOST: Google pushes only to HTTPS", ErrSettings, s.PushURL)
	}
	return nil
}
