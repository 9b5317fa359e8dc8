package stage

import (
	"io"
	"sync/atomic"
)

// count is what one request moves, for Transfer.Moved; nil where nobody asks.
type count struct {
	moved          func(uri string, sent, received int64)
	uri            string
	sent, received atomic.Int64
}

// count has the bytes of a body counted as they are sent.
func (t Transfer) count(uri string, body *io.Reader) *count {
	if t.Moved == nil {
		return nil
	}
	c := &count{moved: t.Moved, uri: uri}
	if *body != nil {
		*body = &counting{Reader: *body, n: &c.sent}
	}
	return c
}

// answer has the bytes of an answer counted as they are read.
func (c *count) answer(body io.ReadCloser) io.ReadCloser {
	if c == nil {
		return body
	}
	return struct {
		io.Reader
		io.Closer
	}{&counting{Reader: body, n: &c.received}, body}
}

// tell says what was moved, if anything was.
func (c *count) tell() {
	if c == nil {
		return
	}
	if sent, received := c.sent.Load(), c.received.Load(); sent > 0 || received > 0 {
		c.moved(c.uri, sent, received)
	}
}

// counting counts what is read.
type counting struct {
	io.Reader
	n *atomic.Int64
}

// Read implements io.Reader.
func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}
