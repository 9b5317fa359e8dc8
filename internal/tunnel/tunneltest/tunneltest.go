// Package tunneltest connects both sides of a visit through one relay, without a broker's API in between.
package tunneltest

import (
	"context"
	"time"

	"github.com/tradewind-broker/tradewind/internal/tunnel/relay"
)

// Calls are the calls of one side: it sends to the stream Out and receives from the stream In.
type Calls struct {
	Relay   *relay.Relay
	Out, In string
}

// Send implements tunnel.Calls.
func (c Calls) Send(ctx context.Context, offset int64, piece []byte) error {
	return c.Relay.Append(ctx, c.Out, offset, piece)
}

// Receive implements tunnel.Calls.
func (c Calls) Receive(ctx context.Context, offset int64, wait time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return c.Relay.Read(ctx, c.In, offset)
}
