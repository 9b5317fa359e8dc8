// Package bucket opens the places that tasks read from and write to, by URL,
// as gocloud.dev buckets: a directory here; S3, Cloud Storage and Azure where the
// program links package remote. They are apart because linking the clouds' libraries costs
// every start of the program some milliseconds, which a machine that keeps
// everything on disk need not pay.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
)

// Errors of this package, wrapped with detail.
var (
	// ErrScheme: no opener for that kind of URL.
	ErrScheme = errors.New("bucket: unknown kind of URL")
	// ErrURL: not a URL, or one that names no bucket.
	ErrURL = errors.New("bucket: bad URL")
)

// Opener opens the bucket that a URL names by scheme, host and query; the path is
// not its matter, except for file URLs, where it is the directory.
type Opener func(ctx context.Context, u *url.URL) (*blob.Bucket, error)

// Openers are openers by URL scheme.
type Openers map[string]Opener

// Local opens directories: file:///data.
func Local() Openers { return Openers{"file": openDir} }

// openDir opens a directory, made when it is missing. Names of objects are names of files, without side files
// for attributes, so that people can use the directory as one. A file appears under its name only when it is complete.
func openDir(_ context.Context, u *url.URL) (*blob.Bucket, error) {
	return fileblob.OpenBucket(filepath.FromSlash(u.Path), &fileblob.Options{
		CreateDir: true, DirFileMode: 0o755, NoTempDir: true, Metadata: fileblob.MetadataDontWrite,
	})
}

// Open opens the bucket, or the part of one below a prefix, that rawURL names: s3://bucket/a/b has the keys below
// "a/b/". A path without a scheme is a directory; it must be absolute. The caller closes the bucket.
func (o Openers) Open(ctx context.Context, rawURL string) (*blob.Bucket, error) {
	u, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	prefix := ""
	if u.Scheme != "file" {
		u, prefix = split(u)
	}
	b, err := o.open(ctx, u)
	if err != nil || prefix == "" {
		return b, err
	}
	return blob.PrefixedBucket(b, strings.TrimSuffix(prefix, "/")+"/"), nil
}

// Object opens the bucket that an object's URL lies in and returns the object's key, "" for the whole bucket. The
// caller closes the bucket. Of a file URL it opens the directory that holds the file.
func (o Openers) Object(ctx context.Context, rawURL string) (b *blob.Bucket, key string, err error) {
	u, err := parse(rawURL)
	if err != nil {
		return nil, "", err
	}
	if u.Scheme == "file" {
		dir := *u
		dir.Path, key = path.Split(u.Path)
		u = &dir
	} else {
		u, key = split(u)
	}
	b, err = o.open(ctx, u)
	return b, key, err
}

// LocalPath returns the path that a URI names on this machine, if it is a file URL or a path.
func LocalPath(uri string) (string, bool) {
	u, err := parse(uri)
	if err != nil || u.Scheme != "file" {
		return "", false
	}
	return filepath.FromSlash(u.Path), true
}

func (o Openers) open(ctx context.Context, u *url.URL) (*blob.Bucket, error) {
	open, ok := o[u.Scheme]
	if !ok {
		known := slices.Sorted(maps.Keys(o))
		return nil, fmt.Errorf("%w %s:// (here: %s)", ErrScheme, u.Scheme, strings.Join(known, ", "))
	}
	b, err := open(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("bucket: open %s: %w", u.Redacted(), err)
	}
	return b, nil
}

// parse reads a URL, or an absolute path as a file URL.
func parse(raw string) (*url.URL, error) {
	if !strings.Contains(raw, "://") {
		if !filepath.IsAbs(raw) {
			return nil, fmt.Errorf("%w %q: neither a URL nor an absolute path", ErrURL, raw)
		}
		return &url.URL{Scheme: "file", Path: filepath.ToSlash(raw)}, nil
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	switch {
	case u.Scheme == "file" && (u.Host != "" && u.Host != "localhost" || !path.IsAbs(u.Path)):
		return nil, fmt.Errorf("%w %q: want file:///path", ErrURL, raw)
	case u.Scheme != "file" && u.Host == "":
		return nil, fmt.Errorf("%w %q: no bucket", ErrURL, raw)
	}
	return u, nil
}

// split separates a bucket's URL from the key in it.
func split(u *url.URL) (*url.URL, string) {
	base := *u
	base.Path, base.RawPath = "", ""
	return &base, strings.TrimPrefix(u.Path, "/")
}
