// Package dagbucket reads job files from cloud buckets: from those whose files a driver can read (driver.Files), by
// the bucket's URL, and from all others through the host's own reader. Relative paths in a job file refer to the same
// bucket.
package dagbucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/push"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Buckets implements broker.Objects.
type Buckets struct {
	// Files has the clouds' readers by bucket URL.
	Files map[string]driver.Files
	// Else reads all other buckets and folders; nil if there are none.
	Other broker.Objects
}

var _ broker.Objects = Buckets{}

// Open implements broker.Objects. If the object was overwritten after its event, Open fails with fs.ErrNotExist: the
// bucket sends another event for the new version.
func (b Buckets) Open(ctx context.Context, o events.ObjectCreated) (body io.ReadCloser, tag string, err error) {
	f := b.Files[o.Bucket]
	switch {
	case f == nil && b.Other != nil:
		return b.Other.Open(ctx, o)
	case f == nil:
		return nil, "", fmt.Errorf("%s is not a bucket for job files: %w", o.Bucket, fs.ErrNotExist)
	}
	content, version, err := f.Read(ctx, o.Bucket, o.Key)
	if errors.Is(err, driver.ErrLarge) {
		return nil, "", &dag.Error{File: o.Key, Reason: err.Error()}
	}
	if err != nil {
		return nil, "", err
	}
	if o.Version != "" && version != "" && o.Version != version {
		return nil, "", fmt.Errorf("%s/%s was overwritten: %w", o.Bucket, o.Key, fs.ErrNotExist)
	}
	return io.NopCloser(bytes.NewReader(content)), "", nil
}

// Settle implements broker.Objects.
func (b Buckets) Settle(ctx context.Context, bucket, key string, spec *dag.Job) error {
	if b.Files[bucket] == nil && b.Other != nil {
		return b.Other.Settle(ctx, bucket, key, spec)
	}
	return ResolvePaths(bucket, key, spec)
}

// Rejected writes a file with the error next to a rejected job file. ours is false if the bucket is not one of Files.
func (b Buckets) Rejected(ctx context.Context, r events.DAGRejected) (ours bool, err error) {
	f := b.Files[r.Bucket]
	if f == nil {
		return false, nil
	}
	return true, f.Write(ctx, r.Bucket, r.Key+push.ErrorSuffix, []byte(r.Reason+"\n"))
}

// Accepted returns a function that removes the error file of a job file once the job file is accepted. It passes
// files of other buckets to next, which may be nil. If the removal fails, it only logs a warning.
func (b Buckets) Accepted(next func(context.Context, events.ObjectCreated), log *slog.Logger) func(context.Context,
	events.ObjectCreated) {
	return func(ctx context.Context, o events.ObjectCreated) {
		switch f := b.Files[o.Bucket]; {
		case f != nil:
			if err := f.Remove(ctx, o.Bucket, o.Key+push.ErrorSuffix); err != nil {
				log.Warn("the error file of an accepted job file could not be removed", "bucket", o.Bucket,
					"file", o.Key,
					"err", err)
			}
		case next != nil:
			next(ctx, o)
		}
	}
}

// ResolvePaths converts a job's relative paths to URLs in the bucket of its file. bucket is the bucket's URL,
// such as s3://jobs. It fails with a *dag.Error for a path that leaves the bucket.
func ResolvePaths(bucket, key string, spec *dag.Job) error {
	root, err := url.Parse(bucket)
	if err != nil {
		return err
	}
	for i := range spec.Tasks {
		t := &spec.Tasks[i]
		if t.StandIn() {
			continue // its files have only sizes
		}
		paths := []*string{&t.Workdir}
		for k := range t.Inputs {
			paths = append(paths, &t.Inputs[k].URI)
		}
		for n, p := range paths {
			field := "workdir"
			if n > 0 {
				field = dag.InputField(n - 1)
			}
			if *p == "" || strings.Contains(*p, "://") || path.IsAbs(*p) || strings.HasPrefix(*p, "~") {
				continue
			}
			beside := path.Join(path.Dir(key), *p)
			if !filepath.IsLocal(beside) {
				return spec.ErrorAt(i, dag.FilesOfTask, field, fmt.Sprintf("%q leaves the bucket %s", *p, root.Host),
					"paths are relative to the job file")
			}
			if n == 0 || strings.HasSuffix(*p, "/") {
				beside += "/" // a folder, even if other keys begin with this name
				warnOfJobs(spec, i, field, beside)
			}
			*p = (&url.URL{Scheme: root.Scheme, Host: root.Host, Path: "/" + beside}).String()
		}
	}
	return nil
}

// warnOfJobs warns if a job writes to a folder in which new files are submitted as jobs.
func warnOfJobs(spec *dag.Job, task int, field, folder string) {
	if !push.MayBeJob(folder + "x") {
		return
	}
	e := spec.ErrorAt(task, dag.FilesOfTask, field, "", "")
	pos := fault.Position{Line: int32(e.Line), Column: int32(e.Column)} //nolint:gosec // of a file in memory
	spec.Warn(pos, e.Field, fmt.Sprintf("files in %s are submitted as jobs, too; only folders whose names begin "+
		"with _ are excluded", folder))
}

// EventOf returns the broker's event for news of a bucket. Its ID is always the same for the same news, so duplicates
// are harmless.
func EventOf(n push.News) (id string, data events.Data) {
	if o := n.Object; o != nil {
		return "object-" + record.ShortHash(o.Bucket, o.Key, o.ETag, o.Version), events.ObjectCreated{
			Bucket: o.Bucket, Key: o.Key, ETag: o.ETag, Version: o.Version, Size: o.Size}
	}
	m := n.Notice
	return fmt.Sprintf("notice-%s-%s-%s", m.Cluster, m.Machine, m.Kind), events.SpotInterrupted{
		Cluster: m.Cluster, Job: record.ClusterJob(m.Cluster), Machine: m.Machine, Kind: string(m.Kind), At: m.At}
}
