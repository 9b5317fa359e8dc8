package events_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tradewind-broker/tradewind/events"
)

func TestNewerFormatIsRefused(t *testing.T) {
	const envelope = `{"specversion":"1.0","id":"1","source":"s","type":"tradewind.queue.capacity","format":%s,"time":"2026-01-01T00:00:00Z","data":{}}`
	for format, want := range map[string]error{"2": events.ErrNewerFormat, `"2"`: events.ErrNewerFormat, "1": events.ErrUnknownType} {
		if _, err := events.Parse(fmt.Appendf(nil, envelope, format)); !errors.Is(err, want) {
			t.Errorf("format %s: %v, want %v", format, err, want)
		}
	}
}
