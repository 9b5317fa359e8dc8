package txn

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

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// maxBlobBytes is the maximum decompressed size of a blob. A DAG at the reader's limits is far below it.
const maxBlobBytes = 1 << 30

// packed is a compressed blob that is not stored yet.
type packed struct {
	record.Blob
	job    string
	chunks [][]byte
}

// gzipWriters has reusable writers, which all brokers of a process share: a new writer costs more than the
// compression of a small plan.
var gzipWriters = sync.Pool{New: func() any {
	zw, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // fails only for an unknown level
	return zw
}}

// Pack compresses a value. The token distinguishes the chunks of two writers of the same version.
func Pack(job, name string, version int, token string, value any) (packed, error) {
	var raw bytes.Buffer
	zw := gzipWriters.Get().(*gzip.Writer) //nolint:forcetypeassert // the pool has no others
	defer gzipWriters.Put(zw)
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

// Save writes the chunks that do not fit into the unit's own transaction first, and the last chunk with the
// transaction. Chunks are found only through the record that refers to them, so the early ones do no harm if the unit
// fails.
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

// loadBlob loads a value, using the cache of decoded records.
func loadBlob[T any](
	ctx context.Context,
	s store.Store,
	known *recordcache.Decoded,
	job string,
	b record.Blob,
) (*T, error) {
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
	value, err := recordcache.Blob(known, keys[0], records[0].Body, func(value *T) error {
		return unpack(io.MultiReader(readers...), b.Bytes, value)
	})
	if err != nil {
		return nil, fmt.Errorf("broker: %s of %s: %w", b.Name, job, err)
	}
	return value, nil
}

// gzipReaders are reusable readers, like the writers in zips.
var gzipReaders = sync.Pool{New: func() any { return new(gzip.Reader) }}

// unpack decodes what Pack has compressed; n is the decompressed size in bytes.
func unpack(from io.Reader, n int, value any) error {
	zr := gzipReaders.Get().(*gzip.Reader) //nolint:forcetypeassert // the pool has no others
	defer gzipReaders.Put(zr)
	if err := zr.Reset(from); err != nil {
		return err
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(zr, body); err != nil {
		return err
	}
	return recordcache.Unmarshal(body, value)
}

// cached loads a blob through the cache. The result is shared and must not be changed.
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
