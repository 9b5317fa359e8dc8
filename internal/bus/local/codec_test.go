package local

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/store/bolt"
	"github.com/tradewind-broker/tradewind/pkg/bus"
)

func drawMessage(rt *rapid.T) bus.Message {
	m := bus.Message{
		ID: rapid.String().Draw(rt, "ID"), Type: rapid.String().Draw(rt, "type"), Group: rapid.String().Draw(rt, "group"),
		Body: rapid.SliceOf(rapid.Byte()).Draw(rt, "body"),
	}
	if rapid.Bool().Draw(rt, "delayed") {
		m.NotBefore = time.Unix(rapid.Int64Range(-1<<36, 1<<36).Draw(rt, "second"), rapid.Int64Range(0, 1e9-1).Draw(rt, "nanosecond"))
	}
	return m
}

func same(a, b bus.Message) bool {
	return a.ID == b.ID && a.Type == b.Type && a.Group == b.Group && bytes.Equal(a.Body, b.Body) && a.NotBefore.Equal(b.NotBefore)
}

func TestEncodedValuesRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := drawMessage(rt)
		value := encodeMessage(nil, &m)
		if got, err := decodeMessage(value); err != nil || !same(got, m) {
			rt.Fatalf("%+v was decoded as %+v, %v", m, got, err)
		}
		if at, err := decodeNotBefore(value); err != nil || !m.NotBefore.IsZero() && at != unixNano(m.NotBefore) {
			rt.Fatalf("%v was decoded as %d, %v", m.NotBefore, at, err)
		}
		s := state{attempts: rapid.Int32Min(0).Draw(rt, "attempts"), until: rapid.Int64().Draw(rt, "until")}
		if attempts, until, err := decodeState(encodeState(s)); err != nil || attempts != s.attempts || until != s.until {
			rt.Fatalf("%+v was decoded as %d, %d, %v", s, attempts, until, err)
		}
		l := letter{id: letterID{at: rapid.Int64Min(0).Draw(rt, "at"), number: rapid.Uint64().Draw(rt, "number")}, DeadLetter: bus.DeadLetter{
			Message: m, Queue: rapid.String().Draw(rt, "queue"), Reason: rapid.String().Draw(rt, "reason"), Attempts: int(s.attempts),
		}}
		got, err := decodeLetter(deadKey(l.id), encodeMessage(encodeLetter(l.Queue, l.Reason, l.Attempts, 0), &m))
		if err != nil || got.id != l.id || got.Queue != l.Queue || got.Reason != l.Reason || got.Attempts != l.Attempts || !same(got.Message, m) || got.At.UnixNano() != l.id.at {
			rt.Fatalf("%+v was decoded as %+v, %v", l, got, err)
		}
		r := ref{queue: rapid.StringN(1, 20, 80).Draw(rt, "queue"), number: l.id.number}
		if back, err := decodeMessageKey(messageKey(r)); err != nil || back != r {
			rt.Fatalf("%+v was decoded as %+v, %v", r, back, err)
		}
		d := delivery{number: r.number, attempts: max(s.attempts, 1)}
		if back, ok := parseReceipt(d.receipt()); !ok || back != d {
			rt.Fatalf("%+v was decoded as %+v, %v", d, back, ok)
		}
	})
}

func TestDeadLetterKeysSortByTime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(name string) letterID {
			return letterID{at: rapid.Int64Min(0).Draw(rt, name), number: rapid.Uint64().Draw(rt, name)}
		}
		a, b := draw("a"), draw("b")
		if bytes.Compare(deadKey(a), deadKey(b)) != a.compare(b) {
			rt.Fatalf("%v and %v have keys in a different order", a, b)
		}
	})
}

func TestUnixNanoIsLimitedToItsRange(t *testing.T) {
	for _, c := range []struct {
		t    time.Time
		want int64
	}{
		{time.Time{}, math.MinInt64}, {time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), math.MaxInt64}, {time.Unix(0, 1), 1}, {time.Unix(-1, 0), -1e9},
	} {
		if got := unixNano(c.t); got != c.want {
			t.Errorf("unixNano(%v) = %d, want %d", c.t, got, c.want)
		}
	}
	if got := addTime(math.MaxInt64-1, time.Hour); got != math.MaxInt64 {
		t.Errorf("later after the last possible time = %d", got)
	}
}

func FuzzDecode(f *testing.F) {
	m := bus.Message{ID: "id", Type: "type", Group: "group", Body: []byte("{}"), NotBefore: time.Unix(1, 2)}
	f.Add(encodeMessage(nil, &m))
	f.Add(encodeMessage(encodeLetter("queue", "reason", 3, 0), &m))
	f.Add(encodeState(state{attempts: 2, until: 3}))
	f.Add(messageKey(ref{queue: "queue", number: 1})[len(messageSpace):])
	f.Fuzz(func(t *testing.T, value []byte) {
		_, errMessage := decodeMessage(value)
		_, errNotBefore := decodeNotBefore(value)
		_, _, errState := decodeState(value)
		_, errLetter := decodeLetter(deadKey(letterID{}), value)
		_, errKey := decodeMessageKey(append(bytes.Clone(messageSpace), value...))
		_, errDeadKey := decodeLetter(append(bytes.Clone(deadSpace), value...), nil)
		for _, err := range []error{errMessage, errNotBefore, errState, errLetter, errKey, errDeadKey} {
			if err != nil && !errors.Is(err, bolt.ErrCorrupt) {
				t.Error(err)
			}
		}
	})
}

func FuzzParseReceipt(f *testing.F) {
	f.Add(delivery{number: 1 << 40, attempts: 1}.receipt())
	f.Fuzz(func(t *testing.T, s string) {
		if d, ok := parseReceipt(s); ok && d.attempts < 1 {
			t.Errorf("%q was parsed as the delivery %+v", s, d)
		}
	})
}
