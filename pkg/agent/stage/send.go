package stage

import (
	"context"
	"crypto/md5" //nolint:gosec // what every store compares with what arrives, not a secret
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// source is a file that is to become an object.
type source struct {
	root *os.Root
	path string // below root
	size int64  // as it was seen
	uri  string // of the object
	sum  string // its SHA-256 in hexadecimal, once it was read
}

// sendAll uploads files and fills in their sums, with grants for many at once: small ones side by side, of a large one
// its parts. A file that changes meanwhile fails with ErrChanging.
func (t Transfer) sendAll(ctx context.Context, list []*source) error {
	var small, large []*source
	for _, s := range list {
		if s.size > t.part() {
			large = append(large, s)
		} else {
			small = append(small, s)
		}
	}
	for len(small) > 0 {
		some := small[:min(len(small), t.batch())]
		small = small[len(some):]
		if err := t.sendSmall(ctx, some); err != nil {
			return err
		}
	}
	for _, s := range large {
		gone := func(err error) bool { return errors.Is(err, grant.ErrUpload) }
		if err := t.retry(ctx, gone, func() error { return t.sendLarge(ctx, s) }); err != nil {
			return fmt.Errorf("write %s: %w", s.path, err)
		}
	}
	return nil
}

func (t Transfer) sendSmall(ctx context.Context, list []*source) error {
	puts := make([]*granted, len(list))
	err := t.each(ctx, len(list), func(_ context.Context, i int) error {
		s := list[i]
		md, err := s.read()
		puts[i] = &granted{want: grant.Want{Op: grant.Put, URI: s.uri, Size: s.size, Sum: md}}
		return err
	})
	if err == nil {
		err = t.retry(ctx, passing, func() error { return t.sign(ctx, puts) })
	}
	if err != nil {
		return err
	}
	return t.each(ctx, len(list), func(ctx context.Context, i int) error {
		if err := t.put(ctx, puts[i], list[i].section(0, list[i].size), nil); err != nil {
			return fmt.Errorf("write %s: %w", list[i].path, err)
		}
		return nil
	})
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

// opener opens what is to be sent, from its beginning.
type opener func() (io.Reader, io.Closer, error)

// section opens a part of the file.
func (s *source) section(from, length int64) opener {
	return func() (io.Reader, io.Closer, error) {
		f, err := s.root.Open(s.path)
		if err != nil {
			return nil, nil, err
		}
		return &exactly{r: io.NewSectionReader(f, from, length), left: length}, f, nil
	}
}

// exactly fails with ErrChanging where a file has become shorter than what it was to send.
type exactly struct {
	r    io.Reader
	left int64
}

func (e *exactly) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if e.left -= int64(n); err == io.EOF && e.left > 0 { //nolint:errorlint // as readers return it
		err = ErrChanging
	}
	return n, err
}

// read reads a file once, for its sums.
func (s *source) read() (grant.Sum, error) {
	f, err := s.root.Open(s.path)
	if err != nil {
		return grant.Sum{}, err
	}
	defer f.Close()                    //nolint:errcheck // only read
	sha, md := sha256.New(), md5.New() //nolint:gosec // see above
	n, err := io.Copy(io.MultiWriter(sha, md), f)
	if err == nil && n != s.size {
		err = fmt.Errorf("%w: %d bytes, then %d", ErrChanging, s.size, n)
	}
	if err != nil {
		return grant.Sum{}, fmt.Errorf("read %s: %w", s.path, err)
	}
	s.sum = hex.EncodeToString(sha.Sum(nil))
	return grant.Sum{Kind: grant.MD5, Value: md.Sum(nil)}, nil
}

// abortWithin bounds the end of an upload that failed; the broker ends what is left when the attempt is over.
const abortWithin = 10 * time.Second

// sendLarge uploads a file in parts.
func (t Transfer) sendLarge(ctx context.Context, s *source) error {
	upload, err := t.Grants.Begin(ctx, s.uri)
	if err != nil {
		return err
	}
	parts, err := t.sendParts(ctx, s, upload)
	if err == nil {
		err = t.Grants.Complete(ctx, s.uri, upload, parts)
	}
	if err != nil {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortWithin)
		defer cancel()
		_ = t.Grants.Abort(end, s.uri, upload)
	}
	return err
}

// sendParts reads the file once, for its sums, some parts ahead of those that are on their way.
func (t Transfer) sendParts(ctx context.Context, s *source, upload string) ([]grant.Uploaded, error) {
	f, err := s.root.Open(s.path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	size := max(t.part(), (s.size+grant.MaxParts-1)/grant.MaxParts)
	parts := make([]grant.Uploaded, (s.size+size-1)/size)
	sha := sha256.New()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(t.parallel())
	for first := 0; first < len(parts) && ctx.Err() == nil; {
		last := min(first+t.parallel(), len(parts))
		var puts []*granted
		for i := first; i < last && err == nil; i++ {
			var g *granted
			g, err = s.sumPart(f, sha, upload, i, size)
			puts = append(puts, g)
		}
		if err == nil {
			err = t.retry(ctx, passing, func() error { return t.sign(ctx, puts) })
		}
		if err != nil {
			break
		}
		for _, g := range puts {
			from := int64(g.want.Number-1) * size
			group.Go(func() error {
				return t.put(ctx, g, s.section(from, g.want.Size), func(r *http.Response) error {
					parts[g.want.Number-1] = grant.Uploaded{Number: g.want.Number, ETag: r.Header.Get("ETag")}
					return nil
				})
			})
		}
		first = last
	}
	if sent := group.Wait(); err == nil {
		err = sent
	}
	if n, _ := f.Read(make([]byte, 1)); err == nil && n > 0 {
		err = fmt.Errorf("%w: more than %d bytes", ErrChanging, s.size)
	}
	s.sum = hex.EncodeToString(sha.Sum(nil))
	return parts, err
}

// sumPart reads the next part of a file, for its sum and the file's, and says what is to be granted for it.
func (s *source) sumPart(f io.Reader, whole hash.Hash, upload string, index int, size int64) (*granted, error) {
	size = min(size, s.size-int64(index)*size)
	md := md5.New() //nolint:gosec // see above
	if n, err := io.CopyN(io.MultiWriter(whole, md), f, size); err != nil {
		return nil, fmt.Errorf("%w: part %d has %d bytes of %d: %w", ErrChanging, index+1, n, size, err)
	}
	return &granted{want: grant.Want{
		Op: grant.Part, URI: s.uri, Upload: upload, Number: index + 1, Size: size,
		Sum: grant.Sum{Kind: grant.MD5, Value: md.Sum(nil)},
	}}, nil
}
