package stage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// sending is one request with a body, and the functions to call before and after it.
type sending struct {
	granted
	what   string                                   // name for messages
	weight int64                                    // bytes in memory, or read twice, while it is being sent
	sum    func() (grant.Sum, error)                // reads the body to compute its checksums, before it is granted
	open   opener                                   // opens the body at its beginning
	sent   func(context.Context, http.Header) error // handles the answer; may be nil
	of     *upload                                  // if this is a part of an upload
}

// cost returns the size for the measurement of throughput.
func (s *sending) cost() int64 { return s.want.Size }

// upload is a file that is being uploaded in parts.
type upload struct {
	*source
	name string // ID of the upload, once it has begun
	part int64  // bytes of a part

	mu       sync.Mutex
	parts    []grant.Uploaded
	left     int   // number of parts that have not arrived
	complete bool  // the upload is complete
	gone     error // grant.ErrUpload: the store no longer knows the upload
}

// sendAll uploads files and bundles and sets their digests. It reads every body twice, first for its checksums. It
// reads ahead only as much as is granted together, so that the data is still in the page cache when it is sent. If a
// file changes meanwhile, it returns ErrChanging.
func (t Transfer) sendAll(ctx context.Context, list []*source, bundles ...*bundle) error {
	gone := func(err error) bool { return errors.Is(err, grant.ErrUpload) }
	return t.retry(ctx, gone, func() (err error) {
		list, err = t.sendOnce(ctx, list, bundles)
		bundles = nil
		return err
	})
}

// sendOnce uploads everything once. It returns the files whose uploads the store did not know any more, with
// grant.ErrUpload, after everything else has arrived.
func (t Transfer) sendOnce(ctx context.Context, list []*source, bundles []*bundle) (again []*source, err error) {
	var uploads []*upload
	err = t.sendPlan(ctx, func(yield func(*sending) bool) {
		for _, b := range bundles {
			if !yield(b.sending(t.part())) {
				return
			}
		}
		for _, s := range list {
			if s.size <= t.part() {
				if !yield(s.sending()) {
					return
				}
				continue
			}
			u := s.upload(t.part())
			uploads = append(uploads, u)
			for i := range u.parts {
				if !yield(u.sending(t, i)) {
					return
				}
			}
		}
	})
	for _, u := range uploads {
		if u.complete || u.name == "" {
			continue
		}
		if err == nil {
			again = append(again, u.source)
		}
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortWithin)
		_ = t.Grants.Abort(end, u.uri, u.name)
		cancel()
	}
	if err == nil && len(again) > 0 {
		err = fmt.Errorf("write %s: %w", again[0].path, grant.ErrUpload)
	}
	return again, err
}

// abortWithin is the timeout for aborting a failed upload. The broker aborts the remaining ones when the attempt has
// finished.
const abortWithin = 10 * time.Second

// sendPlan sends the items that plan yields. While one batch is being sent, the next is read and granted.
func (t Transfer) sendPlan(ctx context.Context, plan func(func(*sending) bool)) error {
	return flow(ctx, t, func(ctx context.Context, hand func([]*sending) error) (err error) {
		var batch []*sending
		var weight int64
		flush := func() error {
			err := t.prepare(ctx, batch)
			if err == nil {
				err = hand(batch)
			}
			batch, weight = nil, 0
			return err
		}
		plan(func(s *sending) bool {
			batch, weight = append(batch, s), weight+s.weight
			if len(batch) >= t.batch() || weight >= int64(t.parallel())*t.part() {
				err = flush()
			}
			return err == nil
		})
		if err == nil && len(batch) > 0 {
			err = flush()
		}
		return err
	}, func(ctx context.Context, s *sending) error {
		if err := t.send(ctx, s); err != nil {
			return fmt.Errorf("write %s: %w", s.what, err)
		}
		return nil
	})
}

// prepare begins the uploads of a batch, computes the checksums of its bodies, and gets the grants.
func (t Transfer) prepare(ctx context.Context, batch []*sending) error {
	var begin []*upload
	for _, s := range batch {
		if s.of != nil && s.of.name == "" && (len(begin) == 0 || begin[len(begin)-1] != s.of) {
			begin = append(begin, s.of)
		}
	}
	err := t.each(ctx, len(begin), func(ctx context.Context, i int) (err error) {
		begin[i].name, err = t.Grants.Begin(ctx, begin[i].uri)
		return err
	})
	if err != nil {
		return err
	}
	err = t.each(ctx, len(batch), func(_ context.Context, i int) (err error) {
		s := batch[i]
		if s.want.Sum, err = s.sum(); err != nil {
			return fmt.Errorf("read %s: %w", s.what, err)
		}
		if s.of != nil {
			s.want.Upload = s.of.name
		}
		return nil
	})
	if err != nil {
		return err
	}
	list := make([]*granted, len(batch))
	for i, s := range batch {
		list[i] = &s.granted
	}
	return t.retry(ctx, isTemporary, func() error { return t.sign(ctx, list) })
}

// send sends one body. If its upload is gone, it records that and returns nil, so that the others continue.
func (t Transfer) send(ctx context.Context, s *sending) error {
	if s.of != nil && s.of.lost(nil) {
		return nil
	}
	var answer http.Header
	err := t.put(ctx, &s.granted, s.open, func(r *http.Response) error {
		answer = r.Header
		return nil
	})
	if err == nil && s.sent != nil {
		err = s.sent(ctx, answer)
	}
	if s.of != nil && s.of.lost(err) {
		return nil
	}
	return err
}

// lost records err if it means that the upload is gone, and reports whether the upload is gone.
func (u *upload) lost(err error) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if errors.Is(err, grant.ErrUpload) {
		u.gone = err
	}
	return u.gone != nil
}

// upload splits a file into parts.
func (s *source) upload(part int64) *upload {
	part = max(part, (s.size+grant.MaxParts-1)/grant.MaxParts)
	n := int((s.size + part - 1) / part)
	if s.digest {
		s.file.Piece, s.file.Sums = part, make([]uint32, n)
	}
	return &upload{source: s, part: part, parts: make([]grant.Uploaded, n), left: n}
}

// sending returns how to send part i. The last part to arrive completes the upload.
func (u *upload) sending(t Transfer, i int) *sending {
	from := int64(i) * u.part
	size := min(u.part, u.size-from)
	var crc *uint32
	if u.digest {
		crc = &u.file.Sums[i]
	}
	return &sending{
		granted: granted{want: grant.Want{Op: grant.Part, URI: u.uri, Number: i + 1, Size: size}},
		what:    u.path, weight: size, of: u,
		sum:  func() (grant.Sum, error) { return u.sum(from, size, nil, crc) },
		open: u.section(from, size),
		sent: func(ctx context.Context, answer http.Header) error {
			u.mu.Lock()
			u.parts[i] = grant.Uploaded{Number: i + 1, ETag: answer.Get("ETag")}
			u.left--
			last := u.left == 0
			u.mu.Unlock()
			if !last {
				return nil
			}
			err := t.Grants.Complete(ctx, u.uri, u.name, u.parts)
			u.complete = err == nil
			return err
		},
	}
}
