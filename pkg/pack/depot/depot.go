// Package depot is where a deployment keeps packs (package pack): it tells who packs what is not there yet and signs
// its upload, tells the broker whether a pack is complete, and lets go of what no job has named for long.
//
// # How long pieces stay
//
// A piece that was written more than Keep ago is removed: by a lifecycle rule of the bucket, or by Sweep in a folder.
// So that nothing is removed that a job needs:
//
//   - A piece older than a quarter of Keep counts as missing. Whoever packs it writes it again, and it is young.
//   - Of a job that is still open after a quarter of Keep, the broker asks Stay once a day: it writes the pieces anew,
//     in the store, of a pack whose list is older than half of Keep. No piece is then older than three quarters, and a
//     day.
//
// It needs no counting of references, which would have to be right at every crash, and no lock between those who add
// and those who remove. It costs a few copies for a job that waits for weeks.
package depot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/pack"
)

// Keep is how long what was written stays.
const Keep = 30 * 24 * time.Hour

const (
	old      = Keep / 4          // what is asked for counts as missing
	older    = Keep / 2          // what a job needs is written anew
	mayTake  = 6 * time.Hour     // to upload what was signed
	together = 32                // requests to the store at a time
	piece    = pack.MaxListBytes // the most bytes of an object
)

// ErrAsk says that what is asked for cannot be a piece.
var ErrAsk = errors.New("not pieces of a pack")

// Shelf is the store of a depot. Its methods are called by several goroutines at once; each fails with fs.ErrNotExist
// for what is not there.
type Shelf interface {
	pack.Source
	// Stat says how many bytes an object has and when it was written.
	Stat(ctx context.Context, d pack.Digest) (size int64, written time.Time, err error)
	// Touch makes an object as if it was written now.
	Touch(ctx context.Context, d pack.Digest) error
}

// Depot keeps packs.
type Depot struct {
	Shelf
	Sign grant.Signer
	URI  string // of the store, without pack.Prefix: file:///state/objects, s3://bucket
	Now  func() time.Time
}

// Missing says which pieces are to be written, of at most MaxAsk, and signs that: each for its digest and size alone.
// It fails with ErrAsk.
func (d *Depot) Missing(ctx context.Context, pieces []pack.Piece) ([]apitypes.Lack, error) {
	if len(pieces) > apitypes.MaxAsk {
		return nil, fmt.Errorf("%w: more than %d at a time", ErrAsk, apitypes.MaxAsk)
	}
	for _, p := range pieces {
		if p.Digest.Sum() == nil || p.Size < 1 || p.Size > piece {
			return nil, fmt.Errorf("%w: %q of %d bytes", ErrAsk, p.Digest, p.Size)
		}
	}
	there, err := d.there(ctx, pieces)
	if err != nil {
		return nil, err
	}
	var out []apitypes.Lack
	var wants []grant.Want
	for i, p := range pieces {
		if there[i] {
			continue
		}
		out = append(out, apitypes.Lack{Digest: p.Digest})
		wants = append(wants, grant.Want{
			Op: grant.Put, URI: d.URI + "/" + pack.Prefix + string(p.Digest), For: mayTake, Size: p.Size,
			Sum: grant.Sum{Kind: grant.SHA256, Value: p.Digest.Sum()},
		})
	}
	grants, err := d.Sign.Sign(ctx, wants...)
	if err != nil {
		return nil, err
	}
	for i := range grants {
		out[i].Grant = grants[i]
	}
	return out, nil
}

// there says of each piece whether it is in the depot, whole, and stays for long.
func (d *Depot) there(ctx context.Context, pieces []pack.Piece) ([]bool, error) {
	out := make([]bool, len(pieces))
	err := each(ctx, len(pieces), func(ctx context.Context, i int) error {
		size, written, err := d.Stat(ctx, pieces[i].Digest)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		out[i] = size == pieces[i].Size && d.Now().Sub(written) < old
		return err
	})
	return out, err
}

// Check fails with pack.ErrIncomplete unless all of the packs with these URIs is in the depot, and with pack.ErrURI or
// pack.ErrCorrupt where one is none.
func (d *Depot) Check(ctx context.Context, uris ...string) error {
	for _, uri := range distinct(uris) {
		pieces, err := d.pieces(ctx, uri)
		if err != nil {
			return err
		}
		missing := 0
		there := make([]bool, len(pieces))
		if err := each(ctx, len(pieces), func(ctx context.Context, i int) error {
			size, written, err := d.Stat(ctx, pieces[i].Digest)
			// What was there when it was asked for, a moment ago, may have turned old since.
			there[i] = err == nil && size == pieces[i].Size && d.Now().Sub(written) < older
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}); err != nil {
			return err
		}
		for _, t := range there {
			if !t {
				missing++
			}
		}
		if missing > 0 {
			return fmt.Errorf("%s: %w: %d of %d pieces are missing", uri, pack.ErrIncomplete, missing, len(pieces))
		}
	}
	return nil
}

// Stay has the packs with these URIs stay for as long again where they are old. One that is gone stays so.
func (d *Depot) Stay(ctx context.Context, uris ...string) error {
	var errs []error
	for _, uri := range distinct(uris) {
		u, err := pack.ParseURI(uri)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if _, written, err := d.Stat(ctx, u.Digest); err != nil || d.Now().Sub(written) < older {
			errs = append(errs, err)
			continue
		}
		pieces, err := d.pieces(ctx, uri)
		if err == nil {
			err = each(ctx, len(pieces), func(ctx context.Context, i int) error {
				return d.Touch(ctx, pieces[i].Digest)
			})
		}
		if err == nil { // last: it says that all of them are young
			err = d.Touch(ctx, u.Digest)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// pieces reads what a pack consists of beside its list, each once.
func (d *Depot) pieces(ctx context.Context, uri string) ([]pack.Piece, error) {
	u, err := pack.ParseURI(uri)
	if err != nil {
		return nil, err
	}
	l, err := pack.ReadList(ctx, d, u.Digest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w: it was not uploaded", uri, pack.ErrIncomplete)
	}
	if err != nil {
		return nil, err
	}
	seen := make(map[pack.Digest]bool, len(l.Pieces))
	return slices.DeleteFunc(l.Pieces, func(p pack.Piece) bool {
		again := seen[p.Digest]
		seen[p.Digest] = true
		return again
	}), nil
}

func distinct(uris []string) []string {
	uris = slices.Clone(uris)
	slices.Sort(uris)
	return slices.Compact(uris)
}

// each calls do for 0 … n-1, some at a time, until one fails.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(together)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error { return do(ctx, i) })
	}
	return g.Wait()
}
