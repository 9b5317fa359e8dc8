package tunnel

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Errors of a connection, wrapped with detail.
var (
	// ErrEnded means that the broker answered that the visit has ended or does not exist.
	ErrEnded = errors.New("the visit has ended")
	// ErrBusy means that the other side has not yet received the previous data; send again.
	ErrBusy = errors.New("tunnel: the other side is behind")
)

// Sizes, bytes.
const (
	MaxPiece  = 64 << 10 // maximum that one call sends
	MaxAnswer = 4 * MaxPiece
	MaxUnread = 1 << 20 // maximum sent in one direction and not acknowledged
)

// Times of a connection. Wall time.
const (
	holdFor   = 20 * time.Second // how long the broker may hold a call
	awayFor   = 30 * time.Second // how long the broker may be unreachable
	lastWords = 3 * time.Second  // how long Close may take to send the rest
)

// Calls are the calls of one side to the broker.
type Calls interface {
	// Send sends a piece that begins at an offset. It returns ErrEnded if a retry does not help.
	Send(ctx context.Context, offset int64, piece []byte) error
	// Receive returns the bytes from an offset on as soon as there are any, or nothing after wait. The broker drops
	// everything before the offset. It returns the same errors as Send.
	Receive(ctx context.Context, offset int64, wait time.Duration) ([]byte, error)
}

// Conn is a connection over calls. Read, Write and Close may be called concurrently.
type Conn struct {
	calls  Calls
	ctx    context.Context //nolint:containedctx // ends with the connection
	cancel context.CancelCauseFunc
	sent   chan struct{} // closed when nothing more will be sent

	mu       sync.Mutex
	changed  sync.Cond
	out      []byte // to be sent
	closed   bool   // by its owner
	in       []byte // received but not read
	ended    error  // why nothing more will be received
	received int64
}

// Connect returns a connection. It ends with ctx, with Close, or when a call fails for good.
func Connect(ctx context.Context, calls Calls) *Conn {
	c := &Conn{calls: calls, sent: make(chan struct{})}
	c.changed.L = &c.mu
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	context.AfterFunc(c.ctx, func() { c.end(context.Cause(c.ctx)) })
	go c.send()
	go c.receive()
	return c
}

// end ends the connection, unless it has already ended.
func (c *Conn) end(err error) {
	c.mu.Lock()
	if c.ended == nil {
		c.ended = err
	}
	c.changed.Broadcast()
	c.mu.Unlock()
	c.cancel(err)
}

// send sends written data. Each piece contains the data that was written while the previous piece was being sent.
func (c *Conn) send() {
	defer close(c.sent)
	for offset := int64(0); ; {
		c.mu.Lock()
		for len(c.out) == 0 && !c.closed && c.ended == nil {
			c.changed.Wait()
		}
		if c.ended != nil || len(c.out) == 0 {
			c.mu.Unlock()
			return
		}
		piece := append([]byte(nil), c.out[:min(len(c.out), MaxPiece)]...)
		c.out = c.out[len(piece):]
		c.changed.Broadcast()
		c.mu.Unlock()
		if err := c.retry(func() error { return c.calls.Send(c.ctx, offset, piece) }); err != nil {
			c.end(err)
			return
		}
		offset += int64(len(piece))
	}
}

func (c *Conn) receive() {
	for c.ctx.Err() == nil {
		var piece []byte
		err := c.retry(func() (err error) {
			piece, err = c.calls.Receive(c.ctx, c.received, holdFor)
			return err
		})
		if err != nil {
			c.end(err)
			return
		}
		c.received += int64(len(piece))
		c.mu.Lock()
		c.in = append(c.in, piece...)
		c.changed.Broadcast()
		for len(c.in) > MaxUnread && c.ended == nil {
			c.changed.Wait()
		}
		c.mu.Unlock()
	}
}

// retry retries a call while its error may be temporary.
func (c *Conn) retry(call func() error) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 20*time.Millisecond, time.Second
	began := time.Now()
	for {
		err := call()
		switch {
		case err == nil, errors.Is(err, ErrEnded):
			return err
		case c.ctx.Err() != nil:
			return context.Cause(c.ctx)
		case !errors.Is(err, ErrBusy) && time.Since(began) > awayFor:
			return err
		}
		select {
		case <-time.After(pause.NextBackOff()):
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		}
	}
}

// Read implements io.Reader.
func (c *Conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.in) == 0 {
		switch {
		case c.closed:
			return 0, io.ErrClosedPipe
		case c.ended != nil:
			return 0, c.ended
		}
		c.changed.Wait()
	}
	n := copy(p, c.in)
	if c.in = c.in[n:]; len(c.in) == 0 {
		c.in = nil
	}
	c.changed.Broadcast()
	return n, nil
}

// Write implements io.Writer. It blocks while much is still unsent.
func (c *Conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.out) > MaxAnswer && !c.closed && c.ended == nil {
		c.changed.Wait()
	}
	switch {
	case c.closed:
		return 0, io.ErrClosedPipe
	case c.ended != nil:
		return 0, c.ended
	}
	c.out = append(c.out, p...)
	c.changed.Broadcast()
	return len(p), nil
}

// Close sends the rest, within a few seconds, and ends the connection.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.changed.Broadcast()
	c.mu.Unlock()
	select {
	case <-c.sent:
	case <-time.After(lastWords):
	case <-c.ctx.Done():
	}
	c.end(io.ErrClosedPipe)
	return nil
}

// Err returns why the connection has ended; nil if it has not ended or its owner closed it.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(c.ended, io.ErrClosedPipe) || errors.Is(c.ended, context.Canceled) {
		return nil
	}
	return c.ended
}
