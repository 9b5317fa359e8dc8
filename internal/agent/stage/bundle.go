package stage

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the checksum that every store verifies, not a secret
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// A request for a small file takes as long and costs as much as one for several MiB. If a directory has many small
// files, they are stored in bundles. A few are stored as separate objects, which users can read in the store.
const (
	bundledSize  = 512 << 10 // maximum size of a file in a bundle, bytes
	bundledLeast = 17        // minimum number of small files in a directory for bundles to be used
	bundleSize   = 4 << 20   // maximum size of a bundle, bytes
)

// bundle is an object that contains small files, concatenated.
type bundle struct {
	uri   string
	files []*source
	size  int64
	body  []byte // while it is being sent
}

// bundled puts files into bundles below a prefix, in order, and sets their bundle number and offset.
func bundled(prefix string, files []*source) (list []*bundle, err error) {
	var last *bundle
	for _, s := range files {
		if last == nil || last.size+s.size > bundleSize {
			last = &bundle{}
			list = append(list, last)
			if last.uri, err = bundleURI(prefix, len(list)); err != nil {
				return nil, err
			}
		}
		s.file.Bundle, s.file.Offset = len(list), last.size
		last.files = append(last.files, s)
		last.size += s.size
	}
	return list, nil
}

func bundleURI(prefix string, number int) (string, error) {
	return grant.Below(prefix, bundlesPrefix+strconv.Itoa(number))
}

// bundleBuffers are buffers for bundles. The extra byte shows whether a file has grown.
var bundleBuffers = sync.Pool{New: func() any { return new([bundleSize + 1]byte) }}

// read reads the files of a bundle, sets their digests, and returns the bundle's checksum.
func (b *bundle) read(room *[bundleSize + 1]byte) (grant.Sum, error) {
	var at int64
	for _, s := range b.files {
		err := s.into(room[at : at+s.size+1])
		if err != nil {
			return grant.Sum{}, fmt.Errorf("read %s: %w", s.path, err)
		}
		sum := sha256.Sum256(room[at : at+s.size])
		s.file.SHA256 = hex.EncodeToString(sum[:])
		at += s.size
	}
	b.body = room[:at]
	sum := md5.Sum(b.body) //nolint:gosec // see above
	return grant.Sum{Kind: grant.MD5, Value: sum[:]}, nil
}

// into reads the whole file into buf, which has room for one more byte.
func (s *source) into(buf []byte) error {
	f, err := s.content()
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	n, err := io.ReadFull(f, buf)
	if int64(n) != s.size {
		return fmt.Errorf("%w: %d bytes, then %d", ErrChanging, s.size, n)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// sending returns a function that sends a bundle, and the bundle's weight: its content is kept in memory until it is
// sent.
func (b *bundle) sending(weight int64) *sending {
	room, opened := bundleBuffers.Get().(*[bundleSize + 1]byte), 0
	return &sending{
		granted: granted{want: grant.Want{Op: grant.Put, URI: b.uri, Size: b.size}},
		what:    b.uri, weight: weight,
		sum: func() (grant.Sum, error) { return b.read(room) },
		open: func() (io.Reader, io.Closer, error) {
			opened++
			return bytes.NewReader(b.body), nil, nil
		},
		sent: func(context.Context, http.Header) error {
			if b.body = nil; opened == 1 { // after a retry, an aborted try may still read the buffer
				bundleBuffers.Put(room)
			}
			return nil
		},
	}
}
