package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

func TestConflictErrorNamesItsKeys(t *testing.T) {
	err := error(&store.ConflictError{Keys: []store.Key{{Partition: "job/1", Sort: "task/a"}, {Partition: "queue", Sort: "q"}}})
	if !errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrInvalid) {
		t.Errorf("errors.Is must match only ErrConflict: %v", err)
	}
	if got, want := err.Error(), "store: version conflict on job/1/task/a, queue/q"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
}

func TestExpiryIsRoundedUpToSeconds(t *testing.T) {
	at := time.Date(2017, 4, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ t, want time.Time }{
		{time.Time{}, time.Time{}},
		{at, at},
		{at.Add(1), at.Add(time.Second)},
		{at.Add(time.Second - 1), at.Add(time.Second)},
		{time.Unix(-1, 1), time.Unix(0, 0)},
		{at.In(time.FixedZone("", 7200)), at},
	} {
		if got := store.RoundExpiry(c.t); !got.Equal(c.want) || got.IsZero() != c.want.IsZero() || got.Location() != time.UTC {
			t.Errorf("RoundExpiry(%v) = %v, want %v", c.t, got, c.want)
		}
	}
}

func TestValidateReadsOnly(t *testing.T) {
	tx := store.Tx{
		Writes: []store.Write{{Key: store.Key{Partition: "p", Sort: "s"}, Body: []byte("x")}},
		Events: []store.Event{{ID: "e", Body: []byte("x")}},
	}
	if n := testing.AllocsPerRun(10, func() {
		if err := tx.Validate(); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("Validate of a small transaction allocates %v times", n)
	}
}
