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

// wanted is an object that is to become a file, or a bundle that is to become many.
type wanted struct {
	root   *os.Root
	file   File   // Path below root; its digests, if it has some, are checked
	size   int64  // -1: not known
	uri    string // of the object
	bundle []File // what lies in it, in the order of their offsets; of a bundle alone
}

// getting is one request: a whole object, or ranges of a large one.
type getting struct {
	granted
	wanted
	digest string // SHA-256 in hexadecimal, of what this brings; "" where there is none
	in     *incoming
	index  int    // of the first range
	count  int    // of ranges, one after the other; 1 of what is passed between nodes
	share  *share // nil of what is not passed between nodes
	odd    []byte // a sum that was not the store's, when it was read before
}

func (g *getting) cost() int64 {
	if g.in != nil {
		return g.in.between(g.index, g.count)
	}
	return g.size
}

// incoming is a large file on its way in ranges.
type incoming struct {
	wanted
	part int64 // bytes of a range

	writes sync.Mutex // one at a time

	mu     sync.Mutex
	f      *os.File // once the first range comes
	etag   string   // of the object that is read
	crc    string   // the store's own sum of all of it
	crcs   []uint32 // of the ranges
	left   int      // ranges that have not arrived
	failed error    // ErrChanging or ErrCorrupt: all of it is to be read again
	done   bool
	// unknown says that the size was not known before.
	unknown bool
}

// listed says that a manifest has the object: that it is missing is a fault.
func (w *wanted) listed() bool {
	return w.file.SHA256 != "" || w.file.Piece > 0 || w.bundle != nil
}

// ranges is how many there are, once the size is known.
func (in *incoming) ranges() int { return int((in.size + in.part - 1) / in.part) }

func (in *incoming) length(i int) int64 { return in.between(i, 1) }

// between is how many bytes so many ranges have, from one on.
func (in *incoming) between(i, count int) int64 {
	return min(int64(count)*in.part, in.size-int64(i)*in.part)
}

// Of a file of many ranges a request brings some at once, as each costs its store a millisecond or more; of one of few
// it brings one, so that they come side by side.
const (
	mostAtOnce   = 4
	requestsEach = 16 // of a file, before one of them brings more
)

// atOnce is how many ranges a request brings.
func (in *incoming) atOnce() int { return max(1, min(in.ranges()/requestsEach, mostAtOnce)) }

// getAll brings objects: small ones side by side, of large ones their ranges. Grants are asked for ahead, many at once.
func (t Transfer) getAll(ctx context.Context, list []wanted) error {
	if err := roomFor(list); err != nil {
		return err
	}
	t.sharing = t.Peers != nil && t.known(list)
	return t.retry(ctx, spoiled, func() (err error) {
		list, err = t.getOnce(ctx, list)
		t.Peers = nil // another time from the store alone
		return err
	})
}

// spoiled says that what came is not what was to come: another look at it may help.
func spoiled(err error) bool { return errors.Is(err, errAgain) }

// errAgain marks a file that is to be read anew, from its beginning.
var errAgain = errors.New("to be read again")

// getOnce returns the objects that are to be read again, with the reason, after all else has come.
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
				t.shares(batch, &turn)
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

// plan has objects granted and says what requests bring them. Of one whose size is not known it asks for the first
// range at once.
func (t Transfer) plan(ctx context.Context, some []wanted) (batch []*getting, large []*incoming, err error) {
	gets := make([]*granted, len(some))
	for i := range some {
		gets[i] = &granted{want: grant.Want{Op: grant.Get, URI: some[i].uri}}
	}
	if err := t.retry(ctx, passing, func() error { return t.sign(ctx, gets) }); err != nil {
		return nil, nil, err
	}
	var ranges [][]*getting // by file
	for i, w := range some {
		part := max(t.part(), w.size/grant.MaxParts+1) // whatever size somebody claims, its ranges are not many
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
	return append(batch, weave(ranges)...), large, nil
}

// requests bring a file from one of its ranges on.
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

// woven is how many large files come side by side.
const woven = 4

// weave has the ranges of some files take turns: who writes to a file keeps others from writing to it.
func weave(files [][]*getting) (all []*getting) {
	for some := range slices.Chunk(files, woven) {
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

// probe learns the size of an object by asking for its first range, which it keeps. It returns how many ranges have
// come. Where nodes share what they read it asks for a byte.
func (t Transfer) probe(ctx context.Context, in *incoming, g granted) (ranges int, err error) {
	in.left, in.unknown = 1, true
	if t.Peers == nil {
		ranges, err = 1, t.bring(ctx, &getting{granted: g, wanted: in.wanted, in: in, count: 1})
	} else {
		rang := grant.Range{Length: 1}
		err = t.do(ctx, exchange{granted: &g, rang: &rang, take: func(r *http.Response) error {
			_, err := in.begins(r, rang)
			return err
		}})
	}
	if beyond(err) { // of nothing there is no range
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
	return ranges, in.fail(in.finish())
}

// get brings what one request asks for, and checks it.
func (t Transfer) get(ctx context.Context, g *getting) error {
	var err error
	switch {
	case g.bundle != nil:
		err = t.unbundle(ctx, g)
	case g.in == nil:
		err = t.whole(ctx, g)
	default:
		return t.getRange(ctx, g)
	}
	if missing(err) && g.listed() {
		return fmt.Errorf("%w: %s is missing", ErrCorrupt, g.uri)
	}
	return err
}

// getRange brings ranges of a large file. One that shows that the object is another one by now is no failure yet: all
// of the file is read again when the rest has come.
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
	case beyond(err):
		err = fmt.Errorf("%s %w", g.uri, ErrChanging)
	case missing(err) && g.listed():
		err = fmt.Errorf("%w: %s is missing", ErrCorrupt, g.uri)
	}
	if err != nil {
		return in.fail(err)
	}
	in.mu.Lock()
	in.left -= g.count
	last := in.left == 0 && in.failed == nil
	in.mu.Unlock()
	if !last {
		return nil
	}
	return in.fail(in.finish())
}

// fail notes what reading the file anew may help against; other errors it returns.
func (in *incoming) fail(err error) error {
	again := errors.Is(err, ErrChanging) || errors.Is(err, ErrCorrupt) && in.file.Piece == 0
	if !again {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.failed = err
	return nil
}

// beyond says that an object ends before a range begins.
func beyond(err error) bool {
	var status *statusError
	return errors.As(err, &status) && status.status == http.StatusRequestedRangeNotSatisfiable
}

// bring writes ranges to their place in the file, from another node where that has them, or from the store.
func (t Transfer) bring(ctx context.Context, g *getting) error {
	in := g.in
	rang := grant.Range{From: int64(g.index) * in.part, Length: in.part}
	if in.size >= 0 {
		rang.Length = g.cost()
	}
	take := func(body io.Reader, length int64, by hashes) error {
		f, err := in.file0()
		if err != nil {
			return err
		}
		sum, to := crc32.New(castagnoli), inTurn{&in.writes, io.NewOffsetWriter(f, rang.From)}
		if in.compared() {
			by = append(by, sum)
		}
		for i := g.index; length > 0; i++ {
			part := min(length, in.part)
			sum.Reset()
			if err := pour(to, body, part, by); err != nil {
				return err
			}
			if sums := in.file.Sums; len(sums) > 0 && sum.Sum32() != sums[i] {
				return fmt.Errorf("%w: %s is not as its manifest says", ErrCorrupt, g.uri)
			}
			in.crcs[i] = sum.Sum32()
			length -= part
		}
		return nil
	}
	if g.share != nil && !g.share.mine {
		err := t.ask(ctx, g, func(given Given) (string, error) {
			by := sha256.New()
			err := take(given.Body, given.Size, hashes{by})
			return hex.EncodeToString(by.Sum(nil)), err
		})
		if err == nil || errors.Is(err, syscall.ENOSPC) || ctx.Err() != nil {
			return err
		}
	}
	return t.do(ctx, exchange{granted: &g.granted, rang: &rang, take: func(r *http.Response) error {
		length, err := in.begins(r, rang)
		if err != nil {
			return err
		}
		by := g.own()
		if err := take(r.Body, length, hashes{by}); err != nil {
			return err
		}
		t.offer(g, in.seen(), by, func() (io.ReadCloser, error) {
			return stretch(in.root.Name(), in.file.Path, rang.From, length)
		})
		return nil
	}})
}

// same says whether an ETag is that of the object that is read; the first one is.
func (in *incoming) same(etag string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.etag == "" {
		in.etag = etag
	}
	return in.etag == etag
}

// compared says whether there is anything to compare the ranges' sums with: a store need not know a sum of an object.
func (in *incoming) compared() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.file.Sums) > 0 || in.crc != "" || in.etag == "" // no answer has come yet
}

// seen is the ETag of the object that is read; "" before the first answer.
func (in *incoming) seen() string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.etag
}

// begins reads the head of an answer: that it is the object of which the other ranges are, and that this one is what
// was asked for. It returns how many bytes come.
func (in *incoming) begins(r *http.Response, rang grant.Range) (length int64, err error) {
	start, total := rang.From, r.ContentLength
	if r.StatusCode == http.StatusPartialContent {
		if start, total, err = contentRange(r.Header); err != nil {
			return 0, err
		}
	} else if _, err := io.CopyN(io.Discard, r.Body, rang.From); err != nil { // a store that knows no ranges
		return 0, err
	}
	if total < 0 {
		return 0, fmt.Errorf("%w: %s comes without its length", ErrCorrupt, in.uri)
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
