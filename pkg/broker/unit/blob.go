package unit

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// maxBlobBytes bounds what a blob may decompress to: a DAG at the reader's limits stays well below.
const maxBlobBytes = 1 << 30

// packed is a blob on its way into the store.
type packed struct {
	record.Blob
	job    string
	chunks [][]byte
}

// zips are writers to be used again, by all brokers of a process: a new one costs more than compressing a small plan
// with it.
var zips = sync.Pool{New: func() any {
	zw, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // fails only where there is no such level
	return zw
}}

// Pack compresses a value. The token makes the chunks of two rivals for the same version distinct.
func Pack(job, name string, version int, token string, value any) (packed, error) {
	var raw bytes.Buffer
	zw := zips.Get().(*gzip.Writer) //nolint:forcetypeassert // it has no others
	defer zips.Put(zw)
	zw.Reset(&raw)
	counter := &countingWriter{w: zw}
	if err := json.NewEncoder(counter).Encode(value); err != nil {
		return packed{}, fmt.Errorf("broker: %s of %s: %w", name, job, err)
	}
	if err := zw.Close(); err != nil {
		return packed{}, err
	}
	p := packed{Blob: record.Blob{Version: version, Name: name, Token: token, Bytes: counter.n}, job: job}
	for rest := raw.Bytes(); len(rest) > 0; {
		n := min(len(rest), record.ChunkBytes)
		p.chunks = append(p.chunks, rest[:n])
		rest = rest[n:]
	}
	p.Chunks = len(p.chunks)
	return p, nil
}

type countingWriter struct {
	w io.Writer
	n int
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += n
	return n, err
}

// Save writes the chunks that do not fit the unit's own transaction beforehand, and the last one with it. Chunks
// are found only through the record that refers to them, so the early ones do no harm when the unit fails.
func (p packed) Save(ctx context.Context, s store.Store, u *Unit) error {
	for i, chunk := range p.chunks {
		if i == len(p.chunks)-1 {
			u.write(p.Key(p.job, i), chunk, time.Time{})
			break
		}
		w := store.Write{Op: store.Put, Key: p.Key(p.job, i), Expect: store.Any, Body: chunk}
		if err := s.Commit(ctx, store.Tx{Writes: []store.Write{w}}); err != nil {
			return err
		}
	}
	return nil
}

// loadBlob reads a value back, with what is kept decoded.
func loadBlob[T any](ctx context.Context, s store.Store, known *book.Decoded, job string, b record.Blob) (*T, error) {
	keys := make([]store.Key, b.Chunks)
	for i := range keys {
		keys[i] = b.Key(job, i)
	}
	if b.Bytes > maxBlobBytes {
		return nil, errors.New("broker: blob over the limit")
	}
	records, err := s.Get(ctx, keys...)
	if err != nil {
		return nil, err
	}
	if len(records) != b.Chunks || b.Chunks == 0 {
		return nil, fmt.Errorf("broker: %s %d of %s: %d of %d chunks", b.Name, b.Version, job, len(records), b.Chunks)
	}
	readers := make([]io.Reader, len(records))
	for i, r := range records {
		readers[i] = bytes.NewReader(r.Body)
	}
	value, err := book.Blob(known, keys[0], records[0].Body, func(value *T) error {
		return unpack(io.MultiReader(readers...), b.Bytes, value)
	})
	if err != nil {
		return nil, fmt.Errorf("broker: %s of %s: %w", b.Name, job, err)
	}
	return value, nil
}

// unzips are readers to be used again, as zips are writers.
var unzips = sync.Pool{New: func() any { return new(gzip.Reader) }}

// unpack reads what Pack has compressed, of so many bytes.
func unpack(from io.Reader, n int, value any) error {
	zr := unzips.Get().(*gzip.Reader) //nolint:forcetypeassert // it has no others
	defer unzips.Put(zr)
	if err := zr.Reset(from); err != nil {
		return err
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(zr, body); err != nil {
		return err
	}
	return book.Unmarshal(body, value)
}

// cached loads a blob through the cache. What it returns is shared: it must not be changed.
func cached[T any](u *Unit, job string, ref record.Blob) (*T, error) {
	k := ref.In(job)
	if t, ok := u.Blob(k).(*T); ok {
		return t, nil
	}
	v, err := loadBlob[T](u.Ctx, u.store, u.Cache().Records(), job, ref)
	if err != nil {
		return nil, err
	}
	u.AddBlob(k, v)
	return v, nil
}
