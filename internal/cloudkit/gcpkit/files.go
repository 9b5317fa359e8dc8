package gcpkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"

	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	storage "google.golang.org/api/storage/v1"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
)

// files implements driver.Files with the buying account: it reads the bucket whose files become jobs, and writes
// error files into it.
type files struct {
	bucket, prefix string
	options        []option.ClientOption
}

// filesOf returns the files of the settings' DAG bucket; nil without one.
func filesOf(c *gcp.Cloud, s cloudkit.Settings) driver.Files {
	f := files{options: c.Options("/storage/v1/")}
	if f.bucket, f.prefix = s.DAGPlace(); f.bucket == "" {
		return nil
	}
	if cloudkit.Loopback(s.Storage) {
		at := strings.TrimSuffix(s.Storage, "/") + "/storage/v1/"
		f.options = []option.ClientOption{option.WithEndpoint(at), option.WithHTTPClient(&http.Client{})}
	}
	return f
}

// opened returns the storage service and the bucket's name there. It rejects places outside the settings' bucket and
// prefix.
func (f files) opened(ctx context.Context, bucket, key string) (_ *storage.Service, name string, err error) {
	if bucket != f.bucket || !strings.HasPrefix(key, f.prefix) {
		return nil, "", fmt.Errorf("gcp: %s/%s is not below %s/%s: %w", bucket, key, f.bucket, f.prefix, fs.ErrNotExist)
	}
	service, err := storage.NewService(context.WithoutCancel(ctx), f.options...)
	return service, strings.TrimPrefix(bucket, driver.DAGScheme), err
}

// Read implements driver.Files. The version is the object's generation.
func (f files) Read(ctx context.Context, bucket, key string) (_ []byte, version string, err error) {
	service, name, err := f.opened(ctx, bucket, key)
	if err != nil {
		return nil, "", err
	}
	resp, err := service.Objects.Get(name, key).Context(ctx).Download()
	if err != nil {
		return nil, "", objectError(bucket, key, err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, driver.MaxFile+1))
	if err == nil && len(body) > driver.MaxFile {
		err = fmt.Errorf("%w: the file has more than %d MiB", driver.ErrLarge, driver.MaxFile>>20)
	}
	return body, resp.Header.Get("X-Goog-Generation"), err
}

// Write implements driver.Files.
func (f files) Write(ctx context.Context, bucket, key string, body []byte) error {
	service, name, err := f.opened(ctx, bucket, key)
	if err != nil {
		return err
	}
	object := &storage.Object{Name: key, ContentType: "text/plain; charset=utf-8"}
	_, err = service.Objects.Insert(name, object).Media(bytes.NewReader(body)).Context(ctx).Do()
	return objectError(bucket, key, err)
}

// Remove implements driver.Files.
func (f files) Remove(ctx context.Context, bucket, key string) error {
	service, name, err := f.opened(ctx, bucket, key)
	if err != nil {
		return err
	}
	err = objectError(bucket, key, service.Objects.Delete(name, key).Context(ctx).Do())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func objectError(bucket, key string, err error) error {
	var answer *googleapi.Error
	if errors.As(err, &answer) && answer.Code == http.StatusNotFound {
		return fmt.Errorf("gcp: %s/%s: %w", bucket, key, fs.ErrNotExist)
	}
	if err != nil {
		return fmt.Errorf("gcp: %s/%s: %w", bucket, key, gcp.Typed(err))
	}
	return nil
}
