package stage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// wanted is an object that is to become a file.
type wanted struct {
	root *os.Root
	file File   // Path below root; its hash, if it has one, is checked
	size int64  // -1: not known
	uri  string // of the object
}

// getAll brings objects, with grants for many at once: small ones side by side, of a large one its parts.
func (t Transfer) getAll(ctx context.Context, list []wanted) error {
	for len(list) > 0 {
		some := list[:min(len(list), t.batch())]
		list = list[len(some):]
		gets := make([]*granted, len(some))
		for i := range some {
			gets[i] = &granted{want: grant.Want{Op: grant.Get, URI: some[i].uri}}
		}
		if err := t.retry(ctx, passing, func() error { return t.sign(ctx, gets) }); err != nil {
			return err
		}
		var large []int
		small := make([]int, 0, len(some))
		for i := range some {
			if some[i].size > t.part() {
				large = append(large, i)
			} else {
				small = append(small, i)
			}
		}
		err := t.each(ctx, len(small), func(ctx context.Context, i int) error {
			return t.get(ctx, some[small[i]], gets[small[i]])
		})
		for _, i := range large {
			if err != nil {
				break
			}
			err = t.get(ctx, some[i], gets[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// get brings one object and checks it, where its hash is known. It appears under its name when all of it is there.
func (t Transfer) get(ctx context.Context, w wanted, g *granted) error {
	err := t.retry(ctx, spoiled, func() error {
		return write(w.root, w.file.Path, w.file.Mode, func(f *os.File) error {
			sum := sha256.New()
			if err := t.content(ctx, f, w.size, g, sum); err != nil {
				return err
			}
			if got := hex.EncodeToString(sum.Sum(nil)); w.file.SHA256 != "" && got != w.file.SHA256 {
				return fmt.Errorf("%w: %s is not as its manifest says", ErrCorrupt, w.uri)
			}
			return nil
		})
	})
	if missing(err) && w.file.SHA256 != "" {
		return fmt.Errorf("%w: %s is missing", ErrCorrupt, w.uri)
	}
	return err
}

// spoiled says that what came is not what was to come: another look at it may help.
func spoiled(err error) bool { return errors.Is(err, ErrCorrupt) || errors.Is(err, ErrChanging) }

// content writes an object to an empty file and into sum.
func (t Transfer) content(ctx context.Context, f *os.File, size int64, g *granted, sum hash.Hash) error {
	if size >= 0 && size <= t.part() {
		return t.whole(ctx, f, size, g, sum)
	}
	first, got := grant.Range{Length: t.part()}, int64(0)
	var etag string
	err := t.do(ctx, exchange{granted: g, rang: &first, take: func(r *http.Response) error {
		total := r.ContentLength
		if r.StatusCode == http.StatusPartialContent {
			var err error
			if _, total, err = contentRange(r.Header); err != nil {
				return err
			}
		}
		if size >= 0 && total != size {
			return fmt.Errorf("%w: %s has %d bytes, not %d", ErrCorrupt, g.want.URI, total, size)
		}
		size, etag = total, r.Header.Get("ETag")
		if r.StatusCode != http.StatusPartialContent {
			got = size // a store that knows no ranges sends all of it
		} else {
			got = min(t.part(), total)
		}
		return fill(f, 0, got, r.Body)
	}})
	if beyond(err) {
		return t.whole(ctx, f, 0, g, sum) // of nothing there is no range
	}
	if err == nil {
		err = t.rest(ctx, f, got, size, etag, g)
	}
	if err != nil {
		return err
	}
	if _, err = f.Seek(0, io.SeekStart); err == nil {
		_, err = io.Copy(sum, f)
	}
	return err
}

// beyond says that an object ends before a range begins.
func beyond(err error) bool {
	var status *statusError
	return errors.As(err, &status) && status.status == http.StatusRequestedRangeNotSatisfiable
}

// whole writes an object that is brought by one request.
func (t Transfer) whole(ctx context.Context, f *os.File, size int64, g *granted, sum hash.Hash) error {
	return t.do(ctx, exchange{granted: g, take: func(r *http.Response) error {
		sum.Reset()
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(r.Body, size+1))
		if err == nil && n != size {
			err = fmt.Errorf("%w: %s has %d bytes, not %d", ErrCorrupt, g.want.URI, n, size)
		}
		return err
	}})
}

// rest writes what of an object lies behind its beginning, in parts side by side.
func (t Transfer) rest(ctx context.Context, f *os.File, from, size int64, etag string, g *granted) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(t.parallel())
	for at := from; at < size && ctx.Err() == nil; at += t.part() {
		part := grant.Range{From: at, Length: min(t.part(), size-at)}
		one := *g // each renews its own
		group.Go(func() error {
			err := t.do(ctx, exchange{granted: &one, rang: &part, take: func(r *http.Response) error {
				start, total, err := contentRange(r.Header)
				if err != nil {
					return err
				}
				if start != part.From || total != size || r.Header.Get("ETag") != etag {
					return fmt.Errorf("%s %w", g.want.URI, ErrChanging)
				}
				return fill(f, part.From, part.Length, r.Body)
			}})
			if beyond(err) {
				err = fmt.Errorf("%s %w", g.want.URI, ErrChanging)
			}
			return err
		})
	}
	return group.Wait()
}

// fill writes just so many bytes to a place in a file.
func fill(f *os.File, at, length int64, body io.Reader) error {
	n, err := io.Copy(io.NewOffsetWriter(f, at), io.LimitReader(body, length))
	if err == nil && n != length {
		err = io.ErrUnexpectedEOF
	}
	return err
}
