package stage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// wanted is an object that becomes a file, or a bundle that becomes many files.
type wanted struct {
	root   *os.Root
	file   File   // Path below root; its digests are checked, if it has any
	size   int64  // -1 if unknown
	uri    string // of the object
	bundle []File // its files in the order of their offsets; only for a bundle
}

// getting is one request: a whole object, or ranges of a large one.
type getting struct {
	granted
	wanted
	digest      string // SHA-256 of the content of this request, in hexadecimal; "" if there is none
	in          *incoming
	index       int    // of the first range
	count       int    // of consecutive ranges; 1 if nodes share them
	share       *share // nil if nodes do not share it
	previousSum []byte // the content's sum at the previous read, if it differed from the store's
}

func (g *getting) cost() int64 {
	if g.in != nil {
		return g.in.between(g.index, g.count)
	}
	return g.size
}

// incoming is a large file that is being read in ranges.
type incoming struct {
	wanted
	part int64 // bytes of a range

	writes sync.Mutex // allows one writer at a time

	mu     sync.Mutex
	f      *os.File // set when the first range arrives
	etag   string   // of the object
	crc    string   // the store's checksum of the whole object
	crcs   []uint32 // of the ranges
	left   int      // number of ranges that have not arrived
	failed error    // ErrChanging or ErrCorrupt: the whole file must be read again
	done   bool
	// unknown means that the size was unknown before the first answer.
	unknown bool
}

// listed reports whether a manifest lists the object. Then it is an error if the object is missing.
func (w *wanted) listed() bool {
	return w.file.SHA256 != "" || w.file.Piece > 0 || w.bundle != nil
}

// ranges returns the number of ranges, once the size is known.
func (in *incoming) ranges() int { return int((in.size + in.part - 1) / in.part) }

func (in *incoming) length(i int) int64 { return in.between(i, 1) }

// between returns the number of bytes in count ranges, starting with range i.
func (in *incoming) between(i, count int) int64 {
	return min(int64(count)*in.part, in.size-int64(i)*in.part)
}

// A request for a file of many ranges gets several ranges, because each request costs the store a millisecond or
// more. A request for a file of few ranges gets one range, so that the ranges arrive in parallel.
const (
	mostAtOnce   = 4
	requestsEach = 16 // minimum number of requests for a file before each gets more than one range
)

// atOnce returns how many ranges a request gets.
func (in *incoming) atOnce() int { return max(1, min(in.ranges()/requestsEach, mostAtOnce)) }

// getAll gets objects: small ones in parallel, large ones in ranges. It requests grants in advance, many at a time.
func (t Transfer) getAll(ctx context.Context, list []wanted) error {
	if err := roomFor(list); err != nil {
		return err
	}
	t.sharing = t.Peers != nil && t.worthSharing(list)
	return t.retry(ctx, mustReadAgain, func() (err error) {
		list, err = t.getOnce(ctx, list)
		t.Peers = nil // retries read only from the store
		return err
	})
}

// mustReadAgain reports whether content did not match its expected size or digest, so that another read may help.
func mustReadAgain(err error) bool { return errors.Is(err, errAgain) }

// errAgain marks a file that must be read again from its beginning.
var errAgain = errors.New("to be read again")

// getOnce gets all objects, and then returns those that must be read again, with the reason.
func (t Transfer) getOnce(ctx context.Context, list []wanted) (again []wanted, err error) {
	var large []*incoming
	turn := 0
	err = flow(ctx, t, func(ctx context.Context, hand func([]*getting) error) error {
		for rest := list; len(rest) > 0; {
			some := rest[:min(len(rest), t.batch())]
			rest = rest[len(some):]
			batch, files, err := t.plan(ctx, some)
			large = append(large, files...)
			if err == nil {
				t.assignShares(batch, &turn)
				err = hand(batch)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, t.get)
	for _, in := range large {
		if !in.done {
			in.drop()
		}
		if in.failed != nil && err == nil {
			w := in.wanted
			if in.unknown {
				w.size = -1
			}
			again = append(again, w)
		}
	}
	if len(again) > 0 {
		for _, in := range large {
			if in.failed != nil {
				return again, fmt.Errorf("%w: %w", errAgain, in.failed)
			}
		}
	}
	return nil, err
}

// plan gets the grants for objects and splits them into requests. For an object of unknown size it also requests the
// first range.
func (t Transfer) plan(ctx context.Context, some []wanted) (batch []*getting, large []*incoming, err error) {
	gets := make([]*granted, len(some))
	for i := range some {
		gets[i] = &granted{want: grant.Want{Op: grant.Get, URI: some[i].uri}}
	}
	if err := t.retry(ctx, isTemporary, func() error { return t.sign(ctx, gets) }); err != nil {
		return nil, nil, err
	}
	var ranges [][]*getting // by file
	for i, w := range some {
		part := max(t.part(), w.size/grant.MaxParts+1) // limits the number of ranges whatever the claimed size
		if w.file.Piece > 0 {
			part = w.file.Piece
		}
		if w.bundle != nil || w.file.Piece == 0 && w.size >= 0 && w.size <= part {
			batch = append(batch, &getting{granted: *gets[i], wanted: w, digest: w.file.SHA256})
			continue
		}
		in := &incoming{wanted: w, part: part}
		large = append(large, in)
		first := 0
		if w.size < 0 {
			if first, err = t.probe(ctx, in, *gets[i]); err != nil {
				return nil, large, err
			}
		}
		ranges = append(ranges, t.requests(in, *gets[i], first))
	}
	return append(batch, interleave(ranges)...), large, nil
}

// requests returns the requests for a file, starting with range first.
func (t Transfer) requests(in *incoming, by granted, first int) (all []*getting) {
	count := 1
	if t.Peers == nil {
		count = in.atOnce()
	}
	for i := first; i < in.ranges(); i += count {
		g := &getting{granted: by, wanted: in.wanted, in: in, index: i, count: min(count, in.ranges()-i)}
		if pieces := in.file.Pieces; len(pieces) > 0 && g.count == 1 {
			g.digest = pieces[i]
		}
		all = append(all, g)
	}
	return all
}

// filesAtOnce is how many large files are read in parallel.
const filesAtOnce = 4

// interleave interleaves the ranges of several files, because only one goroutine at a time can write to a file.
func interleave(files [][]*getting) (all []*getting) {
	for some := range slices.Chunk(files, filesAtOnce) {
		for i := 0; ; i++ {
			before := len(all)
			for _, ranges := range some {
				if i < len(ranges) {
					all = append(all, ranges[i])
				}
			}
			if len(all) == before {
				break
			}
		}
	}
	return all
}

// probe learns the size of an object by a request for its first range, which it keeps. If nodes share what they read,
// it requests only one byte. It returns the number of ranges that have arrived.
func (t Transfer) probe(ctx context.Context, in *incoming, g granted) (ranges int, err error) {
	in.left, in.unknown = 1, true
	if t.Peers == nil {
		ranges, err = 1, t.bring(ctx, &getting{granted: g, wanted: in.wanted, in: in, count: 1})
	} else {
		rang := grant.Range{Length: 1}
		err = t.do(ctx, exchange{granted: &g, rang: &rang, take: func(r *http.Response) error {
			_, err := in.checkHeader(r, rang)
			return err
		}})
	}
	if rangeBeyondEnd(err) { // an empty object has no ranges
		in.size = 0
		in.done = true
		return 0, writeContent(in.root, in.file.Path, in.file.Mode, nil)
	}
	if err != nil {
		return 0, err
	}
	if in.left = in.ranges() - ranges; in.left > 0 {
		return ranges, nil
	}
	return ranges, in.recordFailure(in.finish())
}

// get sends one request and checks its content.
func (t Transfer) get(ctx context.Context, g *getting) error {
	var err error
	switch {
	case g.bundle != nil:
		err = t.unbundle(ctx, g)
	case g.in == nil:
		err = t.getWhole(ctx, g)
	default:
		return t.getRange(ctx, g)
	}
	if missing(err) && g.listed() {
		return fmt.Errorf("%w: %s is missing", ErrCorrupt, g.uri)
	}
	return err
}

// getRange gets ranges of a large file. If a range shows that the object has changed, that is not an error yet: the
// whole file is read again when the others have arrived.
func (t Transfer) getRange(ctx context.Context, g *getting) error {
	in := g.in
	in.mu.Lock()
	if in.crcs == nil {
		in.crcs, in.left = make([]uint32, in.ranges()), in.ranges()
	}
	failed := in.failed
	in.mu.Unlock()
	if failed != nil {
		return nil
	}
	err := t.bring(ctx, g)
	switch {
	case rangeBeyondEnd(err):
		err = fmt.Errorf("%s %w", g.uri, ErrChanging)
	case missing(err) && g.listed():
		err = fmt.Errorf("%w: %s is missing", ErrCorrupt, g.uri)
	}
	if err != nil {
		return in.recordFailure(err)
	}
	in.mu.Lock()
	in.left -= g.count
	last := in.left == 0 && in.failed == nil
	in.mu.Unlock()
	if !last {
		return nil
	}
	return in.recordFailure(in.finish())
}

// recordFailure records errors against which another read may help. It returns other errors.
func (in *incoming) recordFailure(err error) error {
	again := errors.Is(err, ErrChanging) || errors.Is(err, ErrCorrupt) && in.file.Piece == 0
	if !again {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.failed = err
	return nil
}

// rangeBeyondEnd reports whether an object ends before a range begins.
func rangeBeyondEnd(err error) bool {
	var status *statusError
	return errors.As(err, &status) && status.status == http.StatusRequestedRangeNotSatisfiable
}

// bring writes ranges to their place in the file. It gets them from another node that has them, or else from the
// store.
func (t Transfer) bring(ctx context.Context, g *getting) error {
	in := g.in
	rang := grant.Range{From: int64(g.index) * in.part, Length: in.part}
	if in.size >= 0 {
		rang.Length = g.cost()
	}
	take := func(body io.Reader, length int64, by hashes) error {
		f, err := in.openPart()
		if err != nil {
			return err
		}
		sum, to := crc32.New(castagnoli), lockedWriter{&in.writes, io.NewOffsetWriter(f, rang.From)}
		if in.hasChecksum() {
			by = append(by, sum)
		}
		for i := g.index; length > 0; i++ {
			part := min(length, in.part)
			sum.Reset()
			if err := copyExactly(to, body, part, by); err != nil {
				return err
			}
			if sums := in.file.Sums; len(sums) > 0 && sum.Sum32() != sums[i] {
				return fmt.Errorf("%w: %s does not match its manifest", ErrCorrupt, g.uri)
			}
			in.crcs[i] = sum.Sum32()
			length -= part
		}
		return nil
	}
	if g.share != nil && !g.share.own {
		err := t.getFromPeer(ctx, g, func(given Given) (string, error) {
			by := sha256.New()
			err := take(given.Body, given.Size, hashes{by})
			return hex.EncodeToString(by.Sum(nil)), err
		})
		if err == nil || errors.Is(err, syscall.ENOSPC) || ctx.Err() != nil {
			return err
		}
	}
	return t.do(ctx, exchange{granted: &g.granted, rang: &rang, take: func(r *http.Response) error {
		length, err := in.checkHeader(r, rang)
		if err != nil {
			return err
		}
		by := g.offerCheck()
		if err := take(r.Body, length, hashes{by}); err != nil {
			return err
		}
		t.offerToPeers(g, in.currentETag(), by, func() (io.ReadCloser, error) {
			return openSection(in.root.Name(), in.file.Path, rang.From, length)
		})
		return nil
	}})
}

// sameETag reports whether an ETag is that of the object being read. The first ETag always is.
func (in *incoming) sameETag(etag string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.etag == "" {
		in.etag = etag
	}
	return in.etag == etag
}

// hasChecksum reports whether there is a checksum to compare the ranges with. A store may have none.
func (in *incoming) hasChecksum() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.file.Sums) > 0 || in.crc != "" || in.etag == "" // true before the first answer
}

// currentETag returns the ETag of the object being read; "" before the first answer.
func (in *incoming) currentETag() string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.etag
}

// checkHeader checks the header of an answer: it must be about the same object as in the other ranges, and about the
// requested range. It returns the number of bytes that follow.
func (in *incoming) checkHeader(r *http.Response, rang grant.Range) (length int64, err error) {
	start, total := rang.From, r.ContentLength
	if r.StatusCode == http.StatusPartialContent {
		if start, total, err = contentRange(r.Header); err != nil {
			return 0, err
		}
	} else if _, err := io.CopyN(io.Discard, r.Body, rang.From); err != nil { // the store does not support ranges
		return 0, err
	}
	if total < 0 {
		return 0, fmt.Errorf("%w: %s has no Content-Length", ErrCorrupt, in.uri)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	etag := r.Header.Get("ETag")
	if in.etag == "" {
		in.etag, in.crc = etag, crcOf(r.Header)
	}
	if in.size < 0 {
		in.size = total
		in.crcs = make([]uint32, in.ranges())
	}
	if start != rang.From || total != in.size || etag != in.etag {
		return 0, fmt.Errorf("%s %w", in.uri, ErrChanging)
	}
	return min(rang.Length, in.size-rang.From), nil
}
