package bolt_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/store/bolt"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// BenchmarkCommit measures durable transactions like those of a handler. Each one belongs to another job: it rewrites
// the records of the job and of a task, adds an attempt and a mark for the handled event, and adds two events to the
// outbox. A relay takes the events at the same time.
func BenchmarkCommit(b *testing.B) {
	for _, committers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("committers=%d", committers), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "store.db"), bolt.Options{})
			defer s.Close()
			due, relay := make(chan struct{}, 1), sync.WaitGroup{}
			relay.Go(func() { relayWhen(b, s, due) })
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			n := int64(b.N)
			for c := range committers {
				wg.Go(func() {
					for i := next.Add(1); i <= n; i = next.Add(1) {
						if err := s.Commit(b.Context(), transition(c, int(i))); err != nil {
							b.Error(err)
							return
						}
						if i%256 == 0 {
							select {
							case due <- struct{}{}:
							default:
							}
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tx/s")
			close(due)
			relay.Wait()
		})
	}
}

func relayWhen(b *testing.B, s *bolt.Store, due <-chan struct{}) {
	for range due {
		events, err := s.Outbox(b.Context(), 1000)
		if err != nil {
			b.Error(err)
			return
		}
		ids := make([]string, len(events))
		for i, e := range events {
			ids[i] = e.ID
		}
		if err := s.Published(b.Context(), ids...); err != nil {
			b.Error(err)
			return
		}
	}
}

var small = bytes.Repeat([]byte("x"), 200)

func transition(committer, i int) store.Tx {
	job, n := "job/"+strconv.Itoa(committer), strconv.Itoa(i)
	write := func(sort string) store.Write {
		return store.Write{Op: store.Put, Key: store.Key{Partition: job, Sort: sort}, Expect: store.Any, Body: small}
	}
	return store.Tx{
		Writes: []store.Write{write("job"), write("task/" + strconv.Itoa(i%1000)), write("attempt/" + n), write("seen/" + n)},
		Events: []store.Event{{ID: n + "/started", Body: small}, {ID: n + "/due", Body: small}},
	}
}
