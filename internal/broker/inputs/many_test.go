package inputs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/inputs"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// far is a slow store that stops when its caller's context ends. URIs that begin with /none have no bucket.
type far struct {
	grant.Store
	takes time.Duration
	lend  error
	mu    sync.Mutex
	loans []string
}

func (f *far) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(f.takes):
		return nil
	}
}

func (f *far) List(ctx context.Context, prefix, _ string) (grant.Page, error) {
	err := f.wait(ctx)
	if err == nil && strings.Contains(prefix, "/none") {
		err = fmt.Errorf("%w: NoSuchBucket", grant.ErrNoBucket)
	}
	return grant.Page{}, err
}

func (f *far) Lend(ctx context.Context, l grant.Loan) (grant.Credentials, error) {
	f.mu.Lock()
	f.loans = append(f.loans, fmt.Sprint(l.Prefix, " ", l.Write))
	f.mu.Unlock()
	if err := f.wait(ctx); err != nil {
		return grant.Credentials{}, err
	}
	return grant.Credentials{}, f.lend
}

// handIn checks the inputs of a job of n tasks, each with one mount. It returns the error and the duration of the
// check.
func (f *far) handIn(t *testing.T, n int, mount func(i int) string) (took time.Duration, err error) {
	t.Helper()
	tasks := &strings.Builder{}
	for i := range n {
		fmt.Fprintf(tasks, "  t%d: {run: ls, inputs: [{uri: '%s', path: o, mount: write}]}\n", i, mount(i))
	}
	spec, err := read.Job("job.yaml", strings.NewReader("apiVersion: tradewind/v1\nname: n\ntasks:\n"+tasks.String()))
	if err != nil {
		t.Fatal(err)
	}
	c := inputs.Checker{Stores: f, AtOnce: 16, For: time.Minute, Log: slog.New(slog.DiscardHandler)}
	began := time.Now()
	err = c.Check(t.Context(), spec)
	return time.Since(began), err
}

func folders(i int) string { return fmt.Sprintf("s3://there/%d/", i) }

// A job with hundreds of mounts must be checked while its submitter waits, which is at most 29 s on AWS. Credentials
// for one bucket and one purpose are requested only once.
func TestHundredsOfMountsAreCheckedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{takes: 200 * time.Millisecond}
		took, err := f.handIn(t, 500, folders)
		if err != nil || took > 7*time.Second || len(f.loans) != 1 {
			t.Errorf("%v after %v, lent %d times", err, took, len(f.loans))
		}
	})
}

// Of any number of mounts, the wrong one is found. If several are wrong, the first is reported.
func TestFirstOfManyWrongMountsIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{takes: time.Second}
		_, err := f.handIn(t, 100, func(i int) string {
			if i == 70 || i == 77 {
				return fmt.Sprintf("s3://b%d/none/", i)
			}
			return folders(i)
		})
		if err == nil || !strings.Contains(err.Error(), "tasks.t70.inputs[0]") {
			t.Errorf("%v", err)
		}
		f.lend, f.loans = errors.ErrUnsupported, nil
		_, err = f.handIn(t, 3, func(i int) string { return []string{"s3://a/", "s3://a/x/", "s3://a/y/"}[i] })
		if err == nil || !strings.Contains(err.Error(), "tasks.t0.inputs[0]") || len(f.loans) != 2 {
			t.Errorf("%v, lent %v: a bucket and its folder need different credentials", err, f.loans)
		}
	})
}

// If the store does not answer, the check refuses nothing. It waits for the store once, not once for each mount.
func TestHangingStoreIsWaitedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{takes: time.Hour}
		if took, err := f.handIn(t, 100, folders); err != nil || took > 10*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}
