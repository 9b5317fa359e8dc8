package mem_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
	"github.com/tradewind-broker/tradewind/pkg/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return mem.New() })
}

// TestConformanceOfClones runs the suite. Where the suite would reopen a durable store, the test continues with a
// clone.
func TestConformanceOfClones(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return mem.New() }, storetest.Reopen(func(t *testing.T, s store.Store) store.Store {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return s.(*mem.Store).Clone()
	}))
}

func put(t *testing.T, s store.Store, partition, sort, body string, events ...store.Event) {
	t.Helper()
	w := store.Write{Key: store.Key{Partition: partition, Sort: sort}, Expect: store.Any, Body: []byte(body)}
	if err := s.Commit(t.Context(), store.Tx{Writes: []store.Write{w}, Events: events}); err != nil {
		t.Fatal(err)
	}
}

func all(s *mem.Store) []string {
	var got []string
	for r := range s.All() {
		got = append(got, fmt.Sprintf("%s=%s@%d", r.Key, r.Body, r.Version))
	}
	return got
}

func TestAllIsInOrder(t *testing.T) {
	s := mem.New()
	put(t, s, "q", "b", "1")
	put(t, s, "p", "z", "2")
	put(t, s, "p", "a", "3")
	put(t, s, "q", "b", "4")
	if got, want := all(s), []string{"p/a=3@1", "p/z=2@1", "q/b=4@2"}; !slices.Equal(got, want) {
		t.Errorf("All = %q, want %q", got, want)
	}
	for r := range s.All() { // the loop may write to the store, and stop
		put(t, s, r.Key.Partition, "new", "5")
		break
	}
	if got := len(all(s)); got != 4 {
		t.Errorf("%d records", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := len(all(s)); got != 4 {
		t.Errorf("%d records after Close", got)
	}
}

func TestCloneIsIndependent(t *testing.T) {
	s := mem.New()
	put(t, s, "p", "a", "1", store.Event{ID: "z"}, store.Event{ID: "e"})
	put(t, s, "p", "gone", "1")
	c := s.Clone()
	put(t, s, "p", "a", "2", store.Event{ID: "late"})
	put(t, c, "p", "b", "of the clone")
	if err := c.Published(t.Context(), "z"); err != nil {
		t.Fatal(err)
	}
	if err := c.Commit(t.Context(), store.Tx{Writes: []store.Write{{Op: store.Delete, Key: store.Key{Partition: "p", Sort: "gone"}}}}); err == nil {
		t.Fatal("a write that expected an existing record to be absent succeeded")
	}
	if err := c.Commit(t.Context(), store.Tx{Writes: []store.Write{{Op: store.Delete, Key: store.Key{Partition: "p", Sort: "gone"}, Expect: 1}}}); err != nil {
		t.Fatal(err)
	}
	if got, want := all(s), []string{"p/a=2@2", "p/gone=1@1"}; !slices.Equal(got, want) {
		t.Errorf("the original holds %q, want %q", got, want)
	}
	if got, want := all(c), []string{"p/a=1@1", "p/b=of the clone@1"}; !slices.Equal(got, want) {
		t.Errorf("the clone holds %q, want %q", got, want)
	}
	if got, want := pending(s), []string{"z", "e", "late"}; !slices.Equal(got, want) {
		t.Errorf("the original's outbox is %q, want %q", got, want)
	}
	if got, want := pending(c), []string{"e"}; !slices.Equal(got, want) {
		t.Errorf("the clone's outbox is %q, want %q", got, want)
	}
}

func pending(s *mem.Store) []string {
	var ids []string
	for _, e := range s.Pending() {
		ids = append(ids, e.ID)
	}
	return ids
}
