package logs_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/logs"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/logs/logbucket"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/objects/objectstest"
	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

var (
	log = api.Log{Job: "job-1", Attempt: "job-1.0.1", Rank: 0}
	ctx = context.Background()
)

func read(t *testing.T, l *logs.Logs, from int64) string {
	t.Helper()
	var out []byte
	piece := make([]byte, 3000)
	for {
		n, err := l.Read(ctx, log, from+int64(len(out)), piece)
		out = append(out, piece[:n]...)
		if errors.Is(err, io.EOF) {
			return string(out)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// sandbox is one of several sandboxes that share a table and a bucket.
func sandbox(table store.Store, b *objectstest.Bucket) *logs.Logs {
	return &logs.Logs{Store: table, Objects: logbucket.Bucket{Client: b, Name: "work"}}
}

// counting counts the requests to the table.
type counting struct {
	store.Store
	records          int // that queries returned
	queries, commits int
}

func (c *counting) Query(ctx context.Context, partition, prefix string, page store.Page) ([]store.Record, bool, error) {
	c.queries++
	page.Limit = 2
	records, more, err := c.Store.Query(ctx, partition, prefix, page)
	c.records += len(records)
	return records, more, err
}

func (c *counting) Commit(ctx context.Context, tx store.Tx) error {
	c.commits++
	return c.Store.Commit(ctx, tx)
}

func TestReadReturnsAppended(t *testing.T) {
	b, table := &objectstest.Bucket{Objects: map[string][]byte{}}, &counting{Store: mem.New()}
	l := sandbox(table, b)
	if _, err := l.Size(ctx, log); !errors.Is(err, api.ErrNoLog) {
		t.Errorf("before the first piece: %v", err)
	}
	want := ""
	for _, n := range []int{1, 2, 7<<10 - 1, 3, 7 << 10, 4, wire.MaxLogChunk, 5} {
		piece := noise(n)
		if err := l.Append(ctx, log, int64(len(want)), []byte(piece)); err != nil {
			t.Fatal(err)
		}
		want += piece
	}
	if b.Puts != 2 {
		t.Errorf("%d objects, want those of the large pieces", b.Puts)
	}
	for _, from := range []int{0, 2, 5, 8000, 15_000, len(want) - 7, len(want) - 1, len(want)} {
		if got := read(t, l, int64(from)); got != want[from:] {
			t.Errorf("from %d: %d bytes, want %d", from, len(got), len(want)-from)
		}
	}
	if n, err := sandbox(table, b).Size(ctx, log); err != nil || n != int64(len(want)) {
		t.Errorf("size %d %v", n, err)
	}
}

func TestIncompleteAppendIsIgnored(t *testing.T) {
	b, table := &objectstest.Bucket{Objects: map[string][]byte{}}, mem.New()
	lost := &failing{Store: table}
	long := []byte(noise(10_000))
	if err := (&logs.Logs{Store: lost, Objects: logbucket.Bucket{Client: b, Name: "work"}}).Append(ctx, log, 0, long); err == nil {
		t.Fatal("a piece without a record")
	}
	l := sandbox(table, b)
	if err := l.Append(ctx, log, 0, long[:9_000]); err != nil {
		t.Fatal(err)
	}
	if got := read(t, l, 0); got != string(long[:9_000]) {
		t.Errorf("%d bytes", len(got))
	}
}

// failing is a store that refuses all writes.
type failing struct{ store.Store }

func (failing) Commit(context.Context, store.Tx) error { return store.ErrThrottled }

func TestRemembersEndsOfLogs(t *testing.T) {
	b, table := &objectstest.Bucket{Objects: map[string][]byte{}}, &counting{Store: mem.New()}
	l := sandbox(table, b)
	for i := range int64(20) {
		if err := l.Append(ctx, log, i, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if table.queries > 0 || table.commits != 20 || b.Puts > 0 {
		t.Errorf("%d queries, %d commits, %d objects for 20 pieces", table.queries, table.commits, b.Puts)
	}
}

func TestAppendAtWrongOffsetReturnsEnd(t *testing.T) {
	b := &objectstest.Bucket{Objects: map[string][]byte{}}
	table := mem.New()
	one, two := sandbox(table, b), sandbox(table, b)
	if err := one.Append(ctx, log, 0, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	for name, offset := range map[string]int64{"an agent that began again": 0, "one that is ahead": 9} {
		var wrong *api.OffsetError
		if err := two.Append(ctx, log, offset, []byte("again")); !errors.As(err, &wrong) || wrong.Want != 5 {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The other sandbox has written more, so the memory of this one is out of date.
	if err := two.Append(ctx, log, 5, []byte(" world")); err != nil {
		t.Fatal(err)
	}
	var wrong *api.OffsetError
	if err := one.Append(ctx, log, 5, []byte(" other")); !errors.As(err, &wrong) || wrong.Want != 11 {
		t.Errorf("a log torn in two: %v", err)
	}
	if got := read(t, one, 0); got != "hello world" {
		t.Errorf("%q", got)
	}
}

func TestRejectsInvalidNames(t *testing.T) {
	l := sandbox(mem.New(), &objectstest.Bucket{Objects: map[string][]byte{}})
	for _, bad := range []api.Log{
		{Job: "../x", Attempt: "a"}, {Job: "j", Attempt: "a/b"}, {Job: "", Attempt: "a"},
		{Job: "j", Attempt: "a", Rank: -1},
	} {
		if err := l.Append(ctx, bad, 0, []byte("x")); !errors.Is(err, api.ErrNoLog) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestLongLogIsReadOnce reads a log of a thousand pieces from its beginning: each piece is read about once, not again
// by every later read.
func TestLongLogIsReadOnce(t *testing.T) {
	table := &counting{Store: mem.New()}
	l := &logs.Logs{Store: table, Objects: logbucket.Bucket{Client: &objectstest.Bucket{Objects: map[string][]byte{}}, Name: "work"}}
	const pieces = 1000
	var want []byte
	for range pieces {
		text := bytes.Repeat([]byte("a line of a task\n"), 60)
		if err := l.Append(ctx, log, int64(len(want)), text); err != nil {
			t.Fatal(err)
		}
		want = append(want, text...)
	}
	table.records = 0
	var got []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := l.Read(ctx, log, int64(len(got)), buf)
		got = append(got, buf[:n]...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes, not %d, or others", len(got), len(want))
	}
	if most := 10 * pieces; table.records > most {
		t.Errorf("%d records were read for %d pieces", table.records, pieces)
	}
}

func TestMarksOfPieces(t *testing.T) {
	b := &objectstest.Bucket{Objects: map[string][]byte{}}
	l := sandbox(mem.New(), b)
	at := func(offset int64, second int64) wire.LogMark {
		return wire.LogMark{Offset: offset, At: time.Unix(1_764_000_000+second, 0).UTC()}
	}
	if err := l.Append(ctx, log, 0, []byte("no times\n")); err != nil { // as earlier versions stored them
		t.Fatal(err)
	}
	if got, err := l.Marks(ctx, log, 0); err != nil || len(got) > 0 {
		t.Errorf("%v, %v", got, err)
	}
	noise := make([]byte, 20_000) // does not fit in a record, even compressed
	random := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	pieces := []struct {
		text  []byte
		marks []wire.LogMark
	}{
		{[]byte("one\ntwo\n"), []wire.LogMark{at(9, 1), at(13, 2)}},
		{bytes.Repeat([]byte("three\n"), 500), []wire.LogMark{at(17, 3)}},
		{noise, []wire.LogMark{at(3017, 4), at(4000, 5)}},
	}
	end := int64(9)
	for _, p := range pieces {
		if err := l.Append(ctx, log, end, p.text, p.marks...); err != nil {
			t.Fatal(err)
		}
		end += int64(len(p.text))
	}
	for offset, want := range map[int64][]wire.LogMark{
		0: {at(9, 1), at(13, 2), at(17, 3), at(3017, 4), at(4000, 5)}, 12: {at(9, 1), at(13, 2), at(17, 3), at(3017, 4), at(4000, 5)},
		13: {at(13, 2), at(17, 3), at(3017, 4), at(4000, 5)}, 3000: {at(17, 3), at(3017, 4), at(4000, 5)},
		end: {at(4000, 5)}, end + 1000: {at(4000, 5)},
	} {
		if got, err := l.Marks(ctx, log, offset); err != nil || !slices.Equal(got, want) {
			t.Errorf("from %d: %v, %v, want %v", offset, got, err, want)
		}
	}
	if want := "no times\none\ntwo\n" + strings.Repeat("three\n", 500) + string(noise); read(t, l, 0) != want {
		t.Error("the text has changed")
	}
}

// Marks must not cost more than the log itself: at most one more write unit for each piece.
func TestManyMarksDoNotCostMore(t *testing.T) {
	table := mem.New()
	l := sandbox(table, &objectstest.Bucket{Objects: map[string][]byte{}})
	var marks []wire.LogMark
	for i := range int64(wire.MaxLogMarks) {
		marks = append(marks, wire.LogMark{Offset: i, At: time.Unix(1_764_000_000+97*i*i, 0).UTC()})
	}
	if err := l.Append(ctx, log, 0, []byte(strings.Repeat("x", wire.MaxLogMarks)), marks...); err != nil {
		t.Fatal(err)
	}
	size := 0
	for r := range table.All() {
		size += len(r.Body)
	}
	if got, err := l.Marks(ctx, log, 0); err != nil || len(got) == 0 || got[0] != marks[0] || size > 2048 {
		t.Errorf("%d marks in a record of %d bytes, %v", len(got), size, err)
	}
}

func TestRemovesObjectsOfJob(t *testing.T) {
	b, table := &objectstest.Bucket{Objects: map[string][]byte{"logs/job-10/x": nil}}, mem.New()
	if err := sandbox(table, b).Append(ctx, log, 0, []byte(noise(20_000))); err != nil {
		t.Fatal(err)
	}
	if len(b.Objects) != 2 {
		t.Fatalf("%d objects", len(b.Objects))
	}
	r := logs.Remover{Store: table, Objects: logbucket.Bucket{Client: b, Name: "work"}}
	if err := r.RemoveLogs(ctx, log.Job, []broker.LogOf{{Attempt: log.Attempt, Ranks: 1}}); err != nil {
		t.Fatal(err)
	}
	if _, other := b.Objects["logs/job-10/x"]; !other || len(b.Objects) != 1 {
		t.Errorf("left: %d objects", len(b.Objects))
	}
	if _, err := sandbox(table, b).Size(ctx, log); !errors.Is(err, api.ErrNoLog) {
		t.Errorf("the log of a job that is gone: %v", err)
	}
}
