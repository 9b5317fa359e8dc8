package agent

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/agent/stage"
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// packsOf reads the packs (internal/pack) in the job's store, with the attempt's grants.
type packsOf struct {
	*attempt
	pieces *stage.Pieces
}

// packURI returns the URI of the content with a digest.
func (t *attempt) packURI(d pack.Digest) (string, error) {
	return grant.Below(cmp.Or(t.work.Packs, t.work.Store), pack.Prefix+string(d))
}

// packSource returns a source that can read the given digests.
func (t *attempt) packSource(digests ...pack.Digest) (packsOf, error) {
	uris := make([]string, len(digests))
	for i, d := range digests {
		uri, err := t.packURI(d)
		if err != nil {
			return packsOf{}, err
		}
		uris[i] = uri
	}
	return packsOf{t, t.transfer().Pieces(uris...)}, nil
}

// Get implements pack.Source.
func (p packsOf) Get(ctx context.Context, d pack.Digest) (io.ReadCloser, error) {
	uri, err := p.packURI(d)
	if err != nil {
		return nil, err
	}
	body, err := p.pieces.Read(ctx, uri, pack.MaxListBytes)
	return io.NopCloser(bytes.NewReader(body)), err
}

// fetchPack unpacks the pack at a URI to dst below dir. Like cp, it puts a single file into dst if dst ends in "/" or
// is a directory, and otherwise names the file dst.
func (t *attempt) fetchPack(ctx context.Context, uri, dir, dst string) error {
	u, err := pack.ParseURI(uri)
	if err != nil {
		return err
	}
	src, err := t.packSource(u.Digest)
	if err != nil {
		return err
	}
	l, err := pack.ReadList(ctx, src, u.Digest)
	if err != nil {
		return fmt.Errorf("%s: %w", u, err)
	}
	digests := make([]pack.Digest, len(l.Pieces))
	for i, p := range l.Pieces {
		digests[i] = p.Digest
	}
	if src, err = t.packSource(digests...); err != nil {
		return err
	}
	return unpack(ctx, src, l, u, dir, dst)
}

func unpack(ctx context.Context, src pack.Source, l *pack.List, u pack.URI, dir, dst string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // the files in it are already closed
	to := path.Clean(dst)
	if l.Single() {
		info, err := root.Stat(to)
		if strings.HasSuffix(dst, "/") || err == nil && info.IsDir() {
			to = path.Join(to, u.Name)
		}
	}
	if err := stage.Room(dir, l.Bytes()); err != nil {
		return fmt.Errorf("%s: %w", u, err)
	}
	if err := pack.Unpack(ctx, src, l, root, to); err != nil {
		return fmt.Errorf("%s: %w", u, err)
	}
	return nil
}
