package logs_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/objects/objectstest"
	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// lines is text like the output of tasks; noise cannot be compressed.
func lines(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "09:00:%02d step %d loss %.3f\n", i%60, i, 1/float64(i+1))
	}
	return b.String()[:size]
}

func noise(size int) string {
	b := make([]byte, size)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return string(b)
}

func TestCompressesIfThatSavesUnit(t *testing.T) {
	for _, c := range []struct {
		name, text  string
		least, most int // bytes of the record
		objects     int
	}{
		{"short", "hello\n", 7, 7, 0},
		{"of one unit as it is", lines(900), 901, 901, 0},
		{"a little over one", lines(1000), 100, 600, 0},
		{"of several", lines(5000), 500, 2500, 0},
		{"large", lines(20_000), 2000, 7 << 10, 0},
		{"the largest", strings.Repeat("x", wire.MaxLogChunk), 10, 1024, 0},
		{"noise of one unit", noise(900), 901, 901, 0},
		{"noise of several", noise(5000), 5001, 5001, 0},
		{"large noise", noise(20_000), 10, 100, 1},
	} {
		b := &objectstest.Bucket{Objects: map[string][]byte{}}
		table := mem.New()
		l := sandbox(table, b)
		for i, text := range []string{c.text, "and more\n"} { // which begins where it ends
			if err := l.Append(ctx, log, int64(i*len(c.text)), []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		var first *store.Record
		for r := range table.All() {
			if first == nil || r.Key.Sort < first.Key.Sort {
				first = &r
			}
		}
		if n := len(first.Body); n < c.least || n > c.most || len(b.Objects) != c.objects {
			t.Errorf("%s: a record of %d bytes, want %d to %d; %d objects", c.name, n, c.least, c.most, len(b.Objects))
		}
		all := c.text + "and more\n"
		other := sandbox(table, b)
		for _, from := range []int{0, 1, len(c.text) / 2, len(c.text) - 1, len(c.text)} {
			if got := read(t, other, int64(from)); got != all[from:] {
				t.Errorf("%s: from %d it reads %d bytes, want %d", c.name, from, len(got), len(all)-from)
			}
		}
		if n, err := other.Size(ctx, log); err != nil || n != int64(len(all)) {
			t.Errorf("%s: size %d, %v", c.name, n, err)
		}
	}
}

func TestDamagedRecordIsError(t *testing.T) {
	for _, body := range []string{"", "z", "z\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "z\x05\x00", "o", "ox", "?text"} {
		table := mem.New()
		key := store.Key{Partition: "logs/job-1/job-1.0.1/rank0/", Sort: "0000000000000000"}
		tx := store.Tx{Writes: []store.Write{{Key: key, Op: store.Put, Body: []byte(body)}}}
		if err := table.Commit(ctx, tx); err != nil {
			t.Fatal(err)
		}
		n, err := sandbox(table, &objectstest.Bucket{}).Read(ctx, log, 0, make([]byte, 10))
		if err == nil || !strings.Contains(err.Error(), "logs: ") {
			t.Errorf("%q: %d bytes, %v", body, n, err)
		}
	}
}
