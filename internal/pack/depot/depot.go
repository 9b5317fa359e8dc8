// Package depot is the place where a deployment stores packs (package pack). It reports to clients the missing pieces
// of a pack and signs their upload. It reports to the broker whether a pack is complete. It removes packs that no job
// has used for a long time.
//
// # How long pieces stay
//
// A piece that was written more than Keep ago is removed: by a lifecycle rule of the bucket, or by Sweep in a folder.
// Two rules make sure that no piece is removed that a job needs:
//
//   - A piece older than a quarter of Keep counts as missing. A client that packs it writes it again.
//   - For a job that is still unfinished after a quarter of Keep, the broker calls Stay once a day. If a pack's list is
//     older than half of Keep, Stay rewrites its pieces inside the store. So no piece gets older than three quarters of
//     Keep plus a day.
//
// This needs no reference counts, which would have to be right after every crash, and no lock between adding and
// removing. It costs a few copies for a job that waits for weeks.
package depot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Keep is the time for which a written piece stays.
const Keep = 30 * 24 * time.Hour

const (
	missingAge    = Keep / 4          // age from which a piece counts as missing for clients
	refreshAge    = Keep / 2          // age from which the pieces of an unfinished job are rewritten
	grantLifetime = 6 * time.Hour     // lifetime of an upload's grant
	together      = 32                // concurrent requests to the store
	piece         = pack.MaxListBytes // maximum size of an object, bytes
)

// ErrAsk means that a request contains something that cannot be a piece.
var ErrAsk = errors.New("not pieces of a pack")

// Store is the store of a depot. Several goroutines call its methods. Each returns fs.ErrNotExist for an object that
// is missing.
type Store interface {
	pack.Source
	// Stat returns the size of an object in bytes, and when it was written.
	Stat(ctx context.Context, d pack.Digest) (size int64, written time.Time, err error)
	// Touch sets the time when an object was written to now.
	Touch(ctx context.Context, d pack.Digest) error
}

// Depot stores packs.
type Depot struct {
	Store
	Sign grant.Signer
	URI  string // of the store, without pack.Prefix: file:///state/objects, s3://bucket
	Now  func() time.Time
}

// Missing returns which of at most MaxAsk pieces must be written, each with a grant that is valid only for its digest
// and size. It returns ErrAsk.
func (d *Depot) Missing(ctx context.Context, pieces []pack.Piece) ([]apitypes.Lack, error) {
	if len(pieces) > apitypes.MaxAsk {
		return nil, fmt.Errorf("%w: more than %d at a time", ErrAsk, apitypes.MaxAsk)
	}
	for _, p := range pieces {
		if p.Digest.Sum() == nil || p.Size < 1 || p.Size > piece {
			return nil, fmt.Errorf("%w: %q of %d bytes", ErrAsk, p.Digest, p.Size)
		}
	}
	there, err := d.present(ctx, pieces)
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
			Op: grant.Put, URI: d.URI + "/" + pack.Prefix + string(p.Digest), For: grantLifetime, Size: p.Size,
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

// present reports for each piece whether it is in the depot, has the right size, and will stay for long.
func (d *Depot) present(ctx context.Context, pieces []pack.Piece) ([]bool, error) {
	out := make([]bool, len(pieces))
	err := each(ctx, len(pieces), func(ctx context.Context, i int) error {
		size, written, err := d.Stat(ctx, pieces[i].Digest)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		out[i] = size == pieces[i].Size && d.Now().Sub(written) < missingAge
		return err
	})
	return out, err
}

// Check returns pack.ErrIncomplete unless the packs with these URIs are completely in the depot. For invalid ones it
// returns pack.ErrURI or pack.ErrCorrupt.
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
			// The limit is higher than in Missing, because a piece may have got older since then.
			there[i] = err == nil && size == pieces[i].Size && d.Now().Sub(written) < refreshAge
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

// Stay extends the life of old packs with these URIs by rewriting them. Packs that no longer exist are ignored.
func (d *Depot) Stay(ctx context.Context, uris ...string) error {
	var errs []error
	for _, uri := range distinct(uris) {
		u, err := pack.ParseURI(uri)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if _, written, err := d.Stat(ctx, u.Digest); err != nil || d.Now().Sub(written) < refreshAge {
			errs = append(errs, err)
			continue
		}
		pieces, err := d.pieces(ctx, uri)
		if err == nil {
			err = each(ctx, len(pieces), func(ctx context.Context, i int) error {
				return d.Touch(ctx, pieces[i].Digest)
			})
		}
		if err == nil { // the list is written last, because its age counts as the age of all pieces
			err = d.Touch(ctx, u.Digest)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// pieces returns the pieces of a pack without its list and without duplicates.
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

// each calls do for 0 … n-1, several at a time, until one fails.
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
