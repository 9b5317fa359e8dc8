package dynamo

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

func packer(t testing.TB, now func() time.Time) *Store {
	t.Helper()
	s, err := New(aws.Config{Region: "us-east-1"}, "table", Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sameEvents(a, b []store.Event) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].ID != b[i].ID || !bytes.Equal(a[i].Body, b[i].Body) {
			return false
		}
	}
	return true
}

// TestPackRoundTripsWithinItemLimit: packed events must be unpacked in order. Each item must stay under DynamoDB's
// limit, even with all its events marked as published. There must be at most as many items as events.
func TestPackRoundTripsWithinItemLimit(t *testing.T) {
	s := packer(t, time.Now)
	rapid.Check(t, func(rt *rapid.T) {
		var tx store.Tx
		body := bytes.Repeat(rapid.SliceOfN(rapid.Byte(), 256, 256).Draw(rt, "random"), 1600)
		sizes := rapid.SampledFrom([][]int{{0, 10, 400, 5000}, {400, 100 << 10}, {10, store.MaxItemBytes - 4}}).Draw(rt, "sizes")
		for i := range rapid.IntRange(1, 100).Draw(rt, "events") {
			size := rapid.SampledFrom(sizes).Draw(rt, "bytes")
			tx.Events = append(tx.Events, store.Event{ID: fmt.Sprintf("%04d", i), Body: body[:size]})
			if tx.Validate() != nil {
				tx.Events = tx.Events[:i]
				break
			}
		}
		items := s.pack(tx)
		var events []store.Event
		for _, it := range items {
			var all []string
			for i := range tx.Events {
				all = append(all, fmt.Sprint(i))
			}
			it[attrDone] = &types.AttributeValueMemberNS{Value: all}
			if n := itemBytes(it); n > 400<<10 {
				rt.Fatalf("an item of %d bytes", n)
			}
			delete(it, attrDone)
			p, err := decodePending(it)
			if err != nil {
				rt.Fatal(err)
			}
			events = append(events, p.Events...)
		}
		if !sameEvents(events, tx.Events) {
			rt.Fatal("unpacked events differ")
		}
		if len(items) > len(tx.Events) {
			rt.Fatalf("%d items for %d events", len(items), len(tx.Events))
		}
	})
}

func TestOutboxKeysGrowEvenIfClockStepsBack(t *testing.T) {
	clock := []int64{100, 100, 50, 7000, -1}
	i := 0
	q := newSequence("tag", func() time.Time { i++; return time.Unix(0, clock[(i-1)%len(clock)]) })
	last := ""
	for range 20 {
		next := q.next()
		if next <= last {
			t.Fatalf("%s after %s", next, last)
		}
		last = next
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte{plain, 1, 'a', 2, 'b', 'c'})
	f.Add(seal(bytes.Repeat([]byte{4, 'i', 'd', 'i', 'd', 1, 'x'}, 400)))
	f.Add([]byte{plain, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Add([]byte{deflated, 0})
	f.Fuzz(func(t *testing.T, sealed []byte) {
		events, err := unpack(sealed)
		if err != nil {
			return
		}
		var raw []byte
		for i := range events {
			raw = appendEvent(raw, &events[i])
		}
		again, err := unpack(seal(raw))
		if err != nil || !sameEvents(again, events) {
			t.Fatalf("read, packed and read again: %v, %v", again, err)
		}
	})
}

// TestPartitionsNeverCollideWithOutbox checks that no name of a partition is that of an outbox partition.
func TestPartitionsNeverCollideWithOutbox(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := rapid.StringOf(rapid.SampledFrom([]rune("=outbx#0"))).Draw(rt, "partition")
		if rapid.Bool().Draw(rt, "like the outbox") {
			p = rapid.SampledFrom([]string{"", "=", "=="}).Draw(rt, "escaped") + OutboxPrefix + p
		}
		pk := partitionKey(p)
		if bytes.HasPrefix([]byte(pk), []byte(OutboxPrefix)) {
			rt.Fatalf("%q is in the outbox", p)
		}
		if got := partitionOf(pk); got != p {
			rt.Fatalf("%q is decoded as %q", p, got)
		}
	})
}
