package stage

import (
	"io"
	"sync/atomic"
)

// count is the traffic of one request, for Transfer.Moved; nil if Moved is not set.
type count struct {
	moved          func(uri string, sent, received int64)
	uri            string
	sent, received atomic.Int64
}

// count wraps the body of a request so that the bytes sent are counted.
func (t Transfer) count(uri string, body *io.Reader) *count {
	if t.Moved == nil {
		return nil
	}
	c := &count{moved: t.Moved, uri: uri}
	if *body != nil {
		*body = &countingReader{Reader: *body, n: &c.sent}
	}
	return c
}

// answer wraps the body of an answer so that the bytes read are counted.
func (c *count) answer(body io.ReadCloser) io.ReadCloser {
	if c == nil {
		return body
	}
	return struct {
		io.Reader
		io.Closer
	}{&countingReader{Reader: body, n: &c.received}, body}
}

// report reports the traffic, if there was any.
func (c *count) report() {
	if c == nil {
		return
	}
	if sent, received := c.sent.Load(), c.received.Load(); sent > 0 || received > 0 {
		c.moved(c.uri, sent, received)
	}
}

// countingReader is a reader that counts bytes.
type countingReader struct {
	io.Reader
	n *atomic.Int64
}

// Read implements io.Reader.
func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}
