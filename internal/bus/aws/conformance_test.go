package aws_test

import (
	"sync"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/bus/aws"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/bus/bustest"
)

// TestConformanceOnMoto runs the suite without its clock. SQS keeps time in whole seconds, and detects that a last
// delivery was not answered only at the next receive. time_test.go tests the effects of time.
func TestConformanceOnMoto(t *testing.T) {
	w := moto(t)
	var mu sync.Mutex
	known := make(map[bus.Bus]aws.Config)
	remember := func(b bus.Bus, c aws.Config) bus.Bus {
		mu.Lock()
		defer mu.Unlock()
		known[b] = c
		return b
	}
	bustest.Run(t, func(t *testing.T, s bustest.Setup) bus.Bus {
		c := w.deployment(t, s)
		return remember(open(t, c), c)
	}, bustest.Reopen(func(t *testing.T, b bus.Bus, s bustest.Setup) bus.Bus {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		c := known[b]
		mu.Unlock()
		c.Queues, c.Route = s.Queues, s.Route
		return remember(open(t, c), c)
	}))
}
