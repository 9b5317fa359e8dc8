package dynamo_test

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// BenchmarkCommit reports the requests and units of a transaction on a table. Its events are published from the
// stream, 25 transactions at a time. The measured time is DynamoDB Local's, not the cloud's.
func BenchmarkCommit(b *testing.B) {
	body := func(n int) []byte { return bytes.Repeat([]byte("x"), n) }
	write := func(partition, sort string, size int) store.Write {
		return store.Write{Key: key(partition, sort), Expect: store.Any, Body: body(size)}
	}
	for _, c := range []struct {
		name string
		tx   func(i string) store.Tx
	}{
		{"one record", func(i string) store.Tx { return store.Tx{Writes: []store.Write{write("job", i, 500)}} }},
		{"one check", func(i string) store.Tx {
			return store.Tx{Writes: []store.Write{{Op: store.Check, Key: key("job", "none"), Expect: store.Absent}}}
		}},
		{"only events", func(i string) store.Tx { return store.Tx{Events: []store.Event{{ID: i, Body: body(400)}}} }},
		{"a transition", func(i string) store.Tx { // of a task: its records, the mark for the handled event, two events
			return store.Tx{
				Writes: []store.Write{write("job", "task", 240), write("job", "attempt"+i, 450), write("job", "cluster"+i, 500), write("seen#"+i, "seen", 40)},
				Events: []store.Event{{ID: i + "a", Body: body(400)}, {ID: i + "b", Body: body(400)}},
			}
		}},
		{"ten events", func(i string) store.Tx {
			tx := store.Tx{Writes: []store.Write{write("job", i, 500)}}
			for e := range 10 {
				tx.Events = append(tx.Events, store.Event{ID: fmt.Sprint(i, "-", e), Body: body(400)})
			}
			return tx
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			ts := onLocal(b)
			m := &dynamo.Meter{}
			s := open(b, ts.cfg, ts.create(b), dynamo.Options{Meter: m})
			var ids []string
			for i := range b.N {
				tx := c.tx(strconv.Itoa(i))
				if err := s.Commit(b.Context(), tx); err != nil {
					b.Fatal(err)
				}
				for _, e := range tx.Events {
					ids = append(ids, e.ID)
				}
			}
			committed := m.Usage().Total
			b.StopTimer()
			if len(ids) > 0 {
				if _, err := s.Outbox(b.Context(), 1); err != nil {
					b.Fatal(err)
				}
				if err := s.Published(b.Context(), ids...); err != nil {
					b.Fatal(err)
				}
			}
			u := m.Usage()
			n := float64(b.N)
			b.ReportMetric(float64(committed.Requests)/n, "requests/op")
			b.ReportMetric(committed.Read/n, "read-units/op")
			b.ReportMetric(committed.Write/n, "write-units/op")
			b.ReportMetric(u.ByOperation["BatchWriteItem"].Write/n, "publish-units/op")
			b.ReportMetric(1e9*(committed.USD()+u.ByOperation["BatchWriteItem"].USD())/n, "nanoUSD/op")
		})
	}
}
