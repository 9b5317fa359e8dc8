package emulator

import (
	"os"
	"testing"
)

// Missing ends a test whose prerequisite is missing: the test is skipped, or fails if Required is set.
func Missing(tb testing.TB, format string, args ...any) {
	tb.Helper()
	if os.Getenv(Required) != "" {
		tb.Fatalf(format, args...)
	}
	tb.Skipf(format, args...)
}
