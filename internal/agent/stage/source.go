package stage

import (
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // the checksum that every store verifies, not a secret
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"sync"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// source is a file that becomes an object or a part of a bundle.
type source struct {
	root   *os.Root
	path   string // below root
	at     string // path of its content if path is a link; "" means path
	size   int64  // when it was listed
	uri    string // of the object
	digest bool   // whether to set the digests in file
	file   *File
}

// content opens the file.
func (s *source) content() (*os.File, error) { return s.root.Open(cmp.Or(s.at, s.path)) }

// opener opens the body of a request at its beginning.
type opener func() (io.Reader, io.Closer, error)

// sending returns how to send a file whole.
func (s *source) sending() *sending {
	var digest *string
	if s.digest {
		digest = &s.file.SHA256
	}
	return &sending{
		granted: granted{want: grant.Want{Op: grant.Put, URI: s.uri, Size: s.size}}, what: s.path, weight: s.size,
		sum: func() (grant.Sum, error) { return s.sum(0, s.size, digest, nil) }, open: s.section(0, s.size),
	}
}

// put sends a body.
func (t Transfer) put(ctx context.Context, g *granted, open opener, take func(*http.Response) error) error {
	var file io.Closer
	done := func() {
		if file != nil {
			_ = file.Close() // only read
		}
	}
	defer func() { done() }()
	return t.do(ctx, exchange{granted: g, take: take, body: func() (io.Reader, error) {
		done()
		r, c, err := open()
		file = c
		return r, err
	}})
}

// section opens a part of the file.
func (s *source) section(from, length int64) opener {
	return func() (io.Reader, io.Closer, error) {
		f, err := s.content()
		if err != nil {
			return nil, nil, err
		}
		return &exactReader{r: io.NewSectionReader(f, from, length), left: length}, f, nil
	}
}

// exactReader returns ErrChanging if a file has become shorter than the announced size.
type exactReader struct {
	r    io.Reader
	left int64
}

func (e *exactReader) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if e.left -= int64(n); err == io.EOF && e.left > 0 { //nolint:errorlint // as readers return it
		err = ErrChanging
	}
	return n, err
}

// chunks are buffers for reading files and writing objects.
var chunks = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// sum reads a part of the file and computes the store's checksum and, if they are not nil, its SHA-256 and CRC32C. At
// the last part it also detects that the file has grown.
func (s *source) sum(from, length int64, digest *string, crc *uint32) (grant.Sum, error) {
	f, err := s.content()
	if err != nil {
		return grant.Sum{}, err
	}
	defer f.Close() //nolint:errcheck // only read
	md := md5.New() //nolint:gosec // see above
	sha, short := sha256.New(), crc32.New(castagnoli)
	to := hashes{md}
	if digest != nil {
		to = append(to, sha)
	}
	if crc != nil {
		to = append(to, short)
	}
	chunk := chunks.Get().(*[64 << 10]byte)
	defer chunks.Put(chunk)
	n, err := io.CopyBuffer(to, onlyRead{io.NewSectionReader(f, from, length)}, chunk[:])
	if err == nil && n != length {
		err = fmt.Errorf("%w: %d bytes, then %d", ErrChanging, s.size, from+n)
	}
	if err == nil && from+length == s.size {
		if more, e := f.ReadAt(chunk[:1], s.size); more > 0 {
			err = fmt.Errorf("%w: more than %d bytes", ErrChanging, s.size)
		} else if !errors.Is(e, io.EOF) {
			err = e
		}
	}
	if err != nil {
		return grant.Sum{}, err
	}
	if digest != nil {
		*digest = hex.EncodeToString(sha.Sum(nil))
	}
	if crc != nil {
		*crc = short.Sum32()
	}
	return grant.Sum{Kind: grant.MD5, Value: md.Sum(nil)}, nil
}

// hashes write to all their writers, which never fail.
type hashes []io.Writer

func (w hashes) Write(p []byte) (int, error) {
	for _, h := range w {
		_, _ = h.Write(p)
	}
	return len(p), nil
}

// onlyRead hides other methods of a reader, so that io.CopyBuffer uses its buffer.
type onlyRead struct{ io.Reader }
