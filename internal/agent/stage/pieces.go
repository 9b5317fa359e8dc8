package stage

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"sync"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Pieces are objects that several goroutines read whole, roughly in the given order. Their grants are requested in
// batches.
type Pieces struct {
	t    Transfer
	list []*granted
	at   map[string]int // in list, by URI

	mu sync.Mutex // guards the grants
}

// Pieces returns the objects with the given URIs, without duplicates.
func (t Transfer) Pieces(uris ...string) *Pieces {
	p := &Pieces{t: t, at: make(map[string]int, len(uris))}
	for _, uri := range uris {
		if _, known := p.at[uri]; !known {
			p.at[uri] = len(p.list)
			p.list = append(p.list, &granted{want: grant.Want{Op: grant.Get, URI: uri}})
		}
	}
	return p
}

// Read returns the content of one of the objects, which may have at most most bytes. It returns fs.ErrNotExist if the
// object is missing.
func (p *Pieces) Read(ctx context.Context, uri string, most int64) (body []byte, err error) {
	g, err := p.granted(ctx, uri)
	if err != nil {
		return nil, err
	}
	err = p.t.do(ctx, exchange{granted: g, take: func(r *http.Response) (err error) {
		body, err = io.ReadAll(io.LimitReader(r.Body, most+1))
		return err
	}})
	switch {
	case missing(err):
		return nil, fmt.Errorf("%s: %w", uri, fs.ErrNotExist)
	case err == nil && int64(len(body)) > most:
		return nil, fmt.Errorf("%s: %w: more than %d bytes", uri, ErrCorrupt, most)
	}
	return body, err
}

// granted returns a copy of an object's grant. If there is none yet, it gets grants for this object and those after it.
func (p *Pieces) granted(ctx context.Context, uri string) (*granted, error) {
	i, known := p.at[uri]
	if !known {
		return nil, fmt.Errorf("%s: %w", uri, fs.ErrNotExist)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list[i].grant.URL == "" {
		batch := p.list[i:min(i+p.t.batch(), len(p.list))]
		if err := p.t.retry(ctx, isTemporary, func() error { return p.t.sign(ctx, batch) }); err != nil {
			return nil, err
		}
	}
	own := *p.list[i]
	return &own, nil
}
