package bucket_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/tradewind-broker/tradewind/pkg/agent/bucket"
)

func TestADirectoryIsABucketOfPlainFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "for us")
	b, err := bucket.Local().Open(t.Context(), (&url.URL{Scheme: "file", Path: dir}).String())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.WriteAll(t.Context(), "a b/c.txt", []byte("x"), nil); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "a b", "c.txt")); err != nil || string(got) != "x" {
		t.Errorf("the file holds %q, %v", got, err)
	}
	if names, err := os.ReadDir(filepath.Join(dir, "a b")); err != nil || len(names) != 1 {
		t.Errorf("beside it: %v, %v", names, err)
	}
}

func TestURLsNameBucketsPrefixesAndObjects(t *testing.T) {
	var opened string
	o := bucket.Openers{"s3": func(ctx context.Context, u *url.URL) (*blob.Bucket, error) {
		opened = u.String()
		mem := memblob.OpenBucket(nil)
		for _, key := range []string{"a/b/k", "k"} {
			if err := mem.WriteAll(ctx, key, []byte(key), nil); err != nil {
				return nil, err
			}
		}
		return mem, nil
	}}
	for raw, want := range map[string]string{"s3://data?region=x": "k", "s3://data/?region=x": "k", "s3://data/a/b?region=x": "a/b/k", "s3://data/a/b/?region=x": "a/b/k"} {
		b, err := o.Open(t.Context(), raw)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := b.ReadAll(t.Context(), "k"); err != nil || string(got) != want {
			t.Errorf("%s: k is %q, %v; want %q", raw, got, err, want)
		}
		b.Close()
		if opened != "s3://data?region=x" {
			t.Errorf("%s opened %s", raw, opened)
		}
	}
	for raw, want := range map[string]string{"s3://data": "", "s3://data/a/b.txt": "a/b.txt", "s3://data/a/": "a/", "s3://data/a%20b": "a b"} {
		if _, key, err := o.Object(t.Context(), raw); err != nil || key != want {
			t.Errorf("%s: key %q, %v; want %q", raw, key, err, want)
		}
	}
}

func TestWhatCannotBeOpenedSaysWhy(t *testing.T) {
	for raw, want := range map[string]error{
		"ftp://host/x": bucket.ErrScheme, "s3://b": bucket.ErrScheme, "relative/path": bucket.ErrURL, "": bucket.ErrURL,
		"file://host/x": bucket.ErrURL, "file://": bucket.ErrURL, "gs:///key": bucket.ErrURL, "s3://%zz": bucket.ErrURL,
	} {
		if _, err := bucket.Local().Open(t.Context(), raw); !errors.Is(err, want) {
			t.Errorf("Open(%q): %v, want %v", raw, err, want)
		}
		if _, _, err := bucket.Local().Object(t.Context(), raw); !errors.Is(err, want) {
			t.Errorf("Object(%q): %v, want %v", raw, err, want)
		}
	}
}

func TestLocalPath(t *testing.T) {
	for uri, want := range map[string]string{"/a/b": "/a/b", "file:///a/b%20c": "/a/b c", "s3://a/b": "", "a/b": ""} {
		if got, ok := bucket.LocalPath(uri); got != want || ok != (want != "") {
			t.Errorf("LocalPath(%q) = %q, %v", uri, got, ok)
		}
	}
}
