package stage_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"

	"github.com/tradewind-broker/tradewind/pkg/agent/stage"
)

// flaky is a bucket that only takes writes, in an order that it remembers, and fails them as it is told.
type flaky struct {
	driver.Bucket // what is not below is not called
	mu            sync.Mutex
	written       []string
	fail          func(key string, written int) error
}

func (f *flaky) NewTypedWriter(ctx context.Context, key, _ string, _ *driver.WriterOptions) (driver.Writer, error) {
	return &flakyWriter{f: f, key: key, ctx: ctx}, nil
}
func (f *flaky) ErrorCode(err error) gcerrors.ErrorCode {
	if errors.Is(err, errDenied) {
		return gcerrors.PermissionDenied
	}
	return gcerrors.Unknown
}
func (f *flaky) ErrorAs(error, any) bool { return false }
func (f *flaky) Close() error            { return nil }

type flakyWriter struct {
	bytes.Buffer
	f   *flaky
	key string
	ctx context.Context
}

func (w *flakyWriter) Close() error {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	if err := w.ctx.Err(); err != nil { // as real ones, which abandon the object then
		return err
	}
	if err := w.f.fail(w.key, len(w.f.written)); err != nil {
		return err
	}
	w.f.written = append(w.f.written, w.key)
	return nil
}

var (
	errPassing                = errors.New("try again")
	errDenied                 = errors.New("denied")
	_          io.WriteCloser = (*flakyWriter)(nil)
)

func newFlaky(t *testing.T, fail func(key string, written int) error) (*flaky, *blob.Bucket) {
	f := &flaky{fail: fail}
	b := blob.NewBucket(f)
	t.Cleanup(func() { b.Close() })
	return f, b
}

func TestTheManifestIsWrittenLast(t *testing.T) {
	src := newDir(t, tree{"a": "1", "b": "2", "c": "3", "d/e": "4"})
	for most := range 6 { // the bucket takes so many objects
		f, b := newFlaky(t, func(_ string, written int) error {
			if written >= most {
				return errPassing
			}
			return nil
		})
		_, err := stage.Transfer{Parallel: 2, Tries: 1}.Upload(t.Context(), b, "p", src, stage.Scan{}, stage.Manifest{})
		if (err == nil) != (most == 5) {
			t.Errorf("%d objects of 5: %v", most, err)
		}
		if i := slices.Index(f.written, "p/manifest.json"); i >= 0 && (i != 4 || most < 5) {
			t.Errorf("%d objects: order %v", most, f.written)
		}
	}
}

func TestAPassingFailureIsTriedAgain(t *testing.T) {
	failures := map[string]int{}
	f, b := newFlaky(t, func(key string, _ int) error {
		if failures[key]++; failures[key] < 3 {
			return errPassing
		}
		return nil
	})
	if _, err := (stage.Transfer{}).Upload(t.Context(), b, "p", newDir(t, tree{"a": "1"}), stage.Scan{}, stage.Manifest{}); err != nil {
		t.Errorf("%v; written %v", err, f.written)
	}
}

func TestAClearNoIsNotTriedAgain(t *testing.T) {
	calls := 0
	_, b := newFlaky(t, func(string, int) error { calls++; return errDenied })
	_, err := stage.Transfer{}.Upload(t.Context(), b, "p", newDir(t, tree{"a": "1"}), stage.Scan{}, stage.Manifest{})
	if !errors.Is(err, errDenied) || !strings.Contains(err.Error(), "a") || calls != 1 {
		t.Errorf("%d calls: %v", calls, err)
	}
}
