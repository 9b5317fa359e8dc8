package agent

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/tradewind-broker/tradewind/pkg/pack"
)

// packsOf are the packs of a store (pkg/pack).
type packsOf struct{ bucket *blob.Bucket }

// Get implements pack.Source.
func (p packsOf) Get(ctx context.Context, d pack.Digest) (io.ReadCloser, error) {
	r, err := p.bucket.NewReader(ctx, pack.Prefix+string(d), nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, fs.ErrNotExist
	}
	return r, err
}

// fetchPack unpacks the pack that a URI names to dst below dir. Like cp, it puts a single file into dst when that ends
// in "/" or is a directory, and otherwise under that name.
func (t *attempt) fetchPack(ctx context.Context, uri, dir, dst string) error {
	u, err := pack.ParseURI(uri)
	if err != nil {
		return err
	}
	b, err := t.cfg.Buckets.Open(ctx, t.work.Store)
	if err != nil {
		return err
	}
	defer b.Close() //nolint:errcheck // only read
	return unpack(ctx, packsOf{b}, u, dir, dst)
}

func unpack(ctx context.Context, src pack.Source, u pack.URI, dir, dst string) error {
	l, err := pack.ReadList(ctx, src, u.Digest)
	if err != nil {
		return fmt.Errorf("%s: %w", u, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // what is written is closed
	to := path.Clean(dst)
	if l.Single() {
		info, err := root.Stat(to)
		if strings.HasSuffix(dst, "/") || err == nil && info.IsDir() {
			to = path.Join(to, u.Name)
		}
	}
	if err := pack.Unpack(ctx, src, l, root, to); err != nil {
		return fmt.Errorf("%s: %w", u, err)
	}
	return nil
}
