package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// Prune deletes the directories directly below prefix whose name doomed says so of, each manifest before its files, so
// that a reader who comes between finds nothing rather than a part.
func Prune(ctx context.Context, b *blob.Bucket, prefix string, doomed func(name string) bool) error {
	prefix = strings.TrimSuffix(prefix, "/") + "/"
	dirs, err := keys(ctx, b, &blob.ListOptions{Prefix: prefix, Delimiter: "/"})
	if err != nil {
		return fmt.Errorf("prune %s: %w", prefix, err)
	}
	for _, dir := range dirs {
		if !strings.HasSuffix(dir, "/") || !doomed(path.Base(dir)) {
			continue
		}
		if err := remove(ctx, b, dir); err != nil {
			return fmt.Errorf("prune %s: %w", dir, err)
		}
	}
	return nil
}

func remove(ctx context.Context, b *blob.Bucket, dir string) error {
	all, err := keys(ctx, b, &blob.ListOptions{Prefix: dir})
	if err != nil {
		return err
	}
	for _, key := range append([]string{path.Join(dir, manifestName)}, all...) {
		if err := b.Delete(ctx, key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return err
		}
	}
	return nil
}

func keys(ctx context.Context, b *blob.Bucket, opts *blob.ListOptions) ([]string, error) {
	var out []string
	it := b.List(opts)
	for {
		o, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, o.Key)
	}
}
