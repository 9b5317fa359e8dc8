package cloudkit

import (
	"fmt"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
)

// DAGPlace is the bucket whose files become jobs, as a URL, and what their names begin with; both are empty where there
// is none.
func (s Settings) DAGPlace() (bucket, prefix string) {
	bucket, prefix, _ = driver.DAGPlace(s.DAGs) // Check has read it
	return bucket, prefix
}

// checkDAGs says what is wrong with the place.
func (s Settings) checkDAGs() error {
	if _, _, err := driver.DAGPlace(s.DAGs); err != nil {
		return fmt.Errorf("%w: %w", ErrSettings, err)
	}
	if !strings.HasPrefix(s.PushURL, "https://") && s.PushURL != "" && !Loopback(s.PushURL) {
		return fmt.Errorf("%w: push URL %q is not https://HOST: Google pushes to nothing else", ErrSettings, s.PushURL)
	}
	return nil
}
