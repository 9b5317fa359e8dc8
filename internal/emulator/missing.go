package emulator

import (
	"os"
	"testing"
)

// Missing ends a test that lacks a part of what it runs on: it is skipped, or fails where everything is Required.
func Missing(tb testing.TB, format string, args ...any) {
	tb.Helper()
	if os.Getenv(Required) != "" {
		tb.Fatalf(format, args...)
	}
	tb.Skipf(format, args...)
}
