package local_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/internal/bus/local"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/bus/bustest"
)

func TestConformanceInMemory(t *testing.T) {
	bustest.Run(t, func(t *testing.T, s bustest.Setup) bus.Bus {
		b, err := local.NewMemory(local.Config{Queues: s.Queues, Route: s.Route, Clock: s.Clock})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}, bustest.WithClock())
}
