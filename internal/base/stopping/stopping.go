// Package stopping reads a text until a context ends. A parser that reads from it stops in the middle of a large file
// when its caller no longer wants the result.
package stopping

import (
	"bytes"
	"context"
	"io"
)

// step is the maximum size of one Read, in bytes. A parser handles that much data before it detects the end of the
// context.
const step = 64 << 10

// Reader returns a reader of data that returns the error of the context when it has ended.
func Reader(ctx context.Context, data []byte) io.Reader {
	return &reader{ctx: ctx, from: bytes.NewReader(data)}
}

type reader struct {
	ctx  context.Context //nolint:containedctx // of the one call that reads
	from *bytes.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(p[:min(len(p), step)])
}
