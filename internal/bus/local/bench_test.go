package local_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/bus/local"
	"github.com/tradewind-broker/tradewind/internal/store/bolt"
	"github.com/tradewind-broker/tradewind/pkg/bus"
)

var benchConfig = local.Config{
	Queues: []bus.QueueConfig{{Name: "work", Visibility: time.Minute, MaxAttempts: 5, BackoffMin: time.Second, BackoffMax: time.Minute}},
	Route:  bus.Route{"work": {"work"}},
}

// BenchmarkThroughput measures durable messages that concurrent publishers and consumers publish, receive and
// acknowledge, a hundred at a time.
func BenchmarkThroughput(b *testing.B) {
	const batch = 100
	for _, size := range []int{256, 2048} {
		for _, pairs := range []int{1, 4} {
			b.Run(fmt.Sprintf("bytes=%d/pairs=%d", size, pairs), func(b *testing.B) {
				l, err := local.Open(filepath.Join(b.TempDir(), "bus.db"), bolt.Options{}, benchConfig)
				if err != nil {
					b.Fatal(err)
				}
				defer l.Close()
				body := bytes.Repeat([]byte("x"), size)
				rounds := int64(b.N+batch-1) / batch
				var published, acked atomic.Int64
				var wg sync.WaitGroup
				b.ResetTimer()
				for range pairs {
					wg.Go(func() {
						for published.Add(1) <= rounds {
							if err := publishBatch(b, l, batch, body); err != nil {
								b.Error(err)
								return
							}
						}
					})
					wg.Go(func() {
						for acked.Load() < rounds*batch {
							n, err := consume(b, l, batch)
							if err != nil {
								b.Error(err)
								return
							}
							acked.Add(int64(n))
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				b.ReportMetric(float64(acked.Load())/b.Elapsed().Seconds(), "msg/s")
			})
		}
	}
}

func publishBatch(b *testing.B, l *local.Bus, n int, body []byte) error {
	messages := make([]bus.Message, n)
	for i := range messages {
		messages[i] = bus.Message{ID: strconv.Itoa(i), Type: "work", Group: "job", Body: body}
	}
	return l.Publish(b.Context(), messages...)
}

func consume(b *testing.B, l *local.Bus, limit int) (int, error) {
	deliveries, err := l.Receive(b.Context(), "work", limit, 10*time.Millisecond)
	if err != nil {
		return 0, err
	}
	receipts := make([]string, len(deliveries))
	for i, d := range deliveries {
		receipts[i] = d.Receipt
	}
	return len(receipts), l.Ack(b.Context(), "work", receipts...)
}
