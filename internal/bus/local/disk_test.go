package local_test

import (
	"path/filepath"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/bus/local"
	"github.com/tradewind-broker/tradewind/internal/store/bolt"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/bus/bustest"
)

func config(s bustest.Setup) local.Config {
	return local.Config{Queues: s.Queues, Route: s.Route, Clock: s.Clock}
}

func TestConformanceOnDisk(t *testing.T) {
	paths := make(map[bus.Bus]string)
	open := func(t *testing.T, path string, s bustest.Setup) bus.Bus {
		t.Helper()
		b, err := local.Open(path, bolt.Options{NoSync: true}, config(s))
		if err != nil {
			t.Fatal(err)
		}
		paths[b] = path
		return b
	}
	bustest.Run(t, func(t *testing.T, s bustest.Setup) bus.Bus {
		return open(t, filepath.Join(t.TempDir(), "bus.db"), s)
	}, bustest.WithClock(), bustest.Reopen(func(t *testing.T, b bus.Bus, s bustest.Setup) bus.Bus {
		t.Helper()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		return open(t, paths[b], s)
	}))
}
