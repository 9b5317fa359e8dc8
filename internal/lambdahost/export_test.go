package lambdahost

import (
	"io"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Final exports final for the tests.
func Final(err error) bool { return final(err) }

// Fakes are the adapters of a sandbox that makes no calls.
type Fakes struct {
	Store  store.Store
	Bus    bus.Bus
	Queue  Queue
	Urgent Publisher
}

// NewForTest makes a sandbox on fakes.
func NewForTest(fn string, env Env, out io.Writer, now func() time.Time, f Fakes) (*Sandbox, error) {
	return open(fn, env, aws.Config{}, out, now,
		func(Env, aws.Config, *slog.Logger, func() time.Time) (adapters, error) {
			return adapters{store: f.Store, bus: f.Bus, queue: f.Queue, urgent: f.Urgent}, nil
		})
}
