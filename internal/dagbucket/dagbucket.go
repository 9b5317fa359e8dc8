// Package dagbucket reads job files from buckets of clouds: those that drivers have files of (driver.Files), each by
// the bucket's URL, and any other by what a host has of its own. What a job names beside its file lies beside it in the
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
	"github.com/tradewind-broker/tradewind/internal/fault"
	"github.com/tradewind-broker/tradewind/pkg/broker"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud/push"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Buckets is broker.Objects.
type Buckets struct {
	// Files are of clouds, by the URL of the bucket.
	Files map[string]driver.Files
	// Else has all other buckets and folders; nil where there are none.
	Else broker.Objects
}

var _ broker.Objects = Buckets{}

// Open implements broker.Objects. An object that was written again since it was told of is as good as gone: of what
// took its place the bucket tells too.
func (b Buckets) Open(ctx context.Context, o events.ObjectCreated) (body io.ReadCloser, tag string, err error) {
	f := b.Files[o.Bucket]
	switch {
	case f == nil && b.Else != nil:
		return b.Else.Open(ctx, o)
	case f == nil:
		return nil, "", fmt.Errorf("%s is no bucket whose files are jobs: %w", o.Bucket, fs.ErrNotExist)
	}
	content, version, err := f.Read(ctx, o.Bucket, o.Key)
	if errors.Is(err, driver.ErrLarge) {
		return nil, "", &dag.Error{File: o.Key, Reason: err.Error()}
	}
	if err != nil {
		return nil, "", err
	}
	if o.Version != "" && version != "" && o.Version != version {
		return nil, "", fmt.Errorf("%s/%s was written again: %w", o.Bucket, o.Key, fs.ErrNotExist)
	}
	return io.NopCloser(bytes.NewReader(content)), "", nil
}

// Settle implements broker.Objects.
func (b Buckets) Settle(ctx context.Context, bucket, key string, spec *dag.Job) error {
	if b.Files[bucket] == nil && b.Else != nil {
		return b.Else.Settle(ctx, bucket, key, spec)
	}
	return Beside(bucket, key, spec)
}

// Rejected puts a remark beside a file that was refused. ours is false for a file of another bucket.
func (b Buckets) Rejected(ctx context.Context, r events.DAGRejected) (ours bool, err error) {
	f := b.Files[r.Bucket]
	if f == nil {
		return false, nil
	}
	return true, f.Write(ctx, r.Bucket, r.Key+push.RemarkSuffix, []byte(r.Reason+"\n"))
}

// Accepted removes the remark about a file that is a job now. One of another bucket is told to next, which may be nil.
// A remark that cannot be removed is left: it holds nobody up.
func (b Buckets) Accepted(next func(context.Context, events.ObjectCreated), log *slog.Logger) func(context.Context,
	events.ObjectCreated) {
	return func(ctx context.Context, o events.ObjectCreated) {
		switch f := b.Files[o.Bucket]; {
		case f != nil:
			if err := f.Remove(ctx, o.Bucket, o.Key+push.RemarkSuffix); err != nil {
				log.Warn("the remark about a file that is a job now stays", "bucket", o.Bucket, "file", o.Key,
					"err", err)
			}
		case next != nil:
			next(ctx, o)
		}
	}
}

// Beside makes paths of a job that begin at its file URLs of the bucket that it lies in, which is named by its own URL:
// s3://jobs. It fails with a *dag.Error for a path that leaves the bucket.
func Beside(bucket, key string, spec *dag.Job) error {
	root, err := url.Parse(bucket)
	if err != nil {
		return err
	}
	for i := range spec.Tasks {
		t := &spec.Tasks[i]
		if t.StandIn() {
			continue // its files are only sizes
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
				return spec.ErrorAt(i, dag.OfFiles, field, fmt.Sprintf("%q leaves the bucket %s", *p, root.Host),
					"paths begin at the file")
			}
			if n == 0 || strings.HasSuffix(*p, "/") {
				beside += "/" // a folder, whatever else is called so
				warnOfJobs(spec, i, field, beside)
			}
			*p = (&url.URL{Scheme: root.Scheme, Host: root.Host, Path: "/" + beside}).String()
		}
	}
	return nil
}

// warnOfJobs warns of a folder beside a job whose own files are handed in as jobs.
func warnOfJobs(spec *dag.Job, task int, field, folder string) {
	if !push.MayBeJob(folder + "x") {
		return
	}
	e := spec.ErrorAt(task, dag.OfFiles, field, "", "")
	pos := fault.Position{Line: int32(e.Line), Column: int32(e.Column)} //nolint:gosec // of a file in memory
	spec.Warn(pos, e.Field, fmt.Sprintf("what is put into %s is handed in as jobs, too: files of folders whose names "+
		"begin with _ are not", folder))
}

// Told is the event that news are to the broker. Its ID is the same however often, and by whichever road, they come.
func Told(n push.News) (id string, data events.Data) {
	if o := n.Object; o != nil {
		return "object-" + record.ShortHash(o.Bucket, o.Key, o.ETag, o.Version), events.ObjectCreated{
			Bucket: o.Bucket, Key: o.Key, ETag: o.ETag, Version: o.Version, Size: o.Size}
	}
	m := n.Notice
	return fmt.Sprintf("notice-%s-%s-%s", m.Cluster, m.Machine, m.Kind), events.SpotInterrupted{
		Cluster: m.Cluster, Job: record.ClusterJob(m.Cluster), Machine: m.Machine, Kind: string(m.Kind), At: m.At}
}
