package storetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

var isolationTests = map[string]func(*testing.T, store.Store){
	"counters lose no increment and no event": testCounters,
	"one of many creators wins":               testOneCreatorWins,
	"checked reads are never torn":            testNoTornReads,
	"checks prevent write skew":               testNoWriteSkew,
	"a check fails if the record changed":     testStaleCheck,
	"a read sees every commit before it":      testReadYourWrites,
}

const workers = 16

// inParallel runs work in all goroutines of the suite and reports their errors.
func inParallel(t *testing.T, work func(ctx context.Context, worker int) error) {
	t.Helper()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			if err := work(t.Context(), w); err != nil {
				t.Errorf("worker %d: %v", w, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// number reads a record that holds a decimal number; a missing record is 0.
func number(ctx context.Context, s store.Store, k store.Key) (int, store.Version, error) {
	r, err := s.Get(ctx, k)
	if err != nil || len(r) == 0 {
		return 0, store.Absent, err
	}
	n, err := strconv.Atoi(string(r[0].Body))
	return n, r[0].Version, err
}

func testCounters(t *testing.T, s store.Store) {
	const increments, counters = 20, 3
	inParallel(t, func(ctx context.Context, worker int) error {
		for i := range increments {
			k := key("counters", strconv.Itoa((worker+i)%counters))
			e := event(fmt.Sprintf("%d-%d", worker, i), "incremented")
			err := retry(ctx, conflicting, func() error {
				n, version, err := number(ctx, s, k)
				if err != nil {
					return err
				}
				return s.Commit(ctx, store.Tx{Writes: []store.Write{put(k, version, strconv.Itoa(n+1))},
					Events: []store.Event{e}})
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	sum := 0
	for _, r := range queryAll(t, s, "counters", "", 0) {
		n, err := strconv.Atoi(string(r.Body))
		if err != nil {
			t.Fatal(err)
		}
		if store.Version(n) != r.Version { //nolint:gosec // n counts up from 0
			t.Errorf("counter %s is %d at version %d", r.Key.Sort, n, r.Version)
		}
		sum += n
	}
	if want := workers * increments; sum != want {
		t.Errorf("the sum of the counters is %d after %d increments", sum, want)
	}
	if events := drain(t, s); len(events) != workers*increments {
		t.Errorf("%d events after %d increments", len(events), workers*increments)
	}
}

func testOneCreatorWins(t *testing.T, s store.Store) {
	const rounds = 10
	won := make([][rounds]bool, workers)
	inParallel(t, func(ctx context.Context, worker int) error {
		for round := range rounds {
			k := key("races", strconv.Itoa(round))
			mine := strconv.Itoa(worker)
			err := retry(ctx, throttled, func() error {
				return s.Commit(ctx, store.Tx{
					Writes: []store.Write{put(k, store.Absent, mine),
						put(key("entrants/"+mine, k.Sort), store.Any, mine)},
				})
			})
			if err != nil && !errors.Is(err, store.ErrConflict) {
				return err
			}
			won[worker][round] = err == nil
		}
		return nil
	})
	for round := range rounds {
		winners := 0
		for worker := range workers {
			mine := strconv.Itoa(worker)
			entered := len(get(t, s, key("entrants/"+mine, strconv.Itoa(round)))) == 1
			if entered != won[worker][round] {
				t.Errorf("round %d, worker %s: commit succeeded %v, its other record exists %v", round, mine,
					won[worker][round], entered)
			}
			if won[worker][round] {
				winners++
				wantRecord(t, s, key("races", strconv.Itoa(round)), 1, mine)
			}
		}
		// A driver whose transactions collide may reject all of them, but must not accept two.
		if winners > 1 {
			t.Errorf("round %d has %d winners", round, winners)
		}
	}
}

func testNoTornReads(t *testing.T, s store.Store) {
	const moves, total = 20, 1000
	a, b := key("accounts/a", "balance"), key("accounts/b", "balance")
	commit(t, s, put(a, store.Absent, strconv.Itoa(total)), put(b, store.Absent, "0"))
	inParallel(t, func(ctx context.Context, worker int) error {
		for range moves {
			err := retry(ctx, conflicting, func() error {
				na, va, err := number(ctx, s, a)
				if err != nil {
					return err
				}
				nb, vb, err := number(ctx, s, b)
				if err != nil {
					return err
				}
				if worker%2 == 0 { // a reader
					err := s.Commit(ctx, store.Tx{Writes: []store.Write{check(a, va), check(b, vb)}})
					if err == nil && na+nb != total {
						return fmt.Errorf("read %d and %d together; their sum must be %d", na, nb, total)
					}
					return err
				}
				return s.Commit(ctx,
					store.Tx{Writes: []store.Write{put(a, va, strconv.Itoa(na-1)), put(b, vb, strconv.Itoa(nb+1))}})
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	wantRecord(t, s, a, 1+workers/2*moves, strconv.Itoa(total-workers/2*moves))
	wantRecord(t, s, b, 1+workers/2*moves, strconv.Itoa(workers/2*moves))
}

// testNoWriteSkew lets each of two workers retire if it sees that the other is on duty. If each transaction also
// checks the other's record, one worker retires and one stays.
func testNoWriteSkew(t *testing.T, s store.Store) {
	const rounds = 5
	for round := range rounds {
		partition := fmt.Sprintf("duty/%d", round)
		duty := func(worker int) store.Key { return key(partition, strconv.Itoa(worker)) }
		for w := range workers {
			commit(t, s, put(duty(w), store.Absent, "1"))
		}
		inParallel(t, func(ctx context.Context, worker int) error {
			own, others := duty(worker), duty(worker^1)
			return retry(ctx, conflicting, func() error {
				mine, version, err := number(ctx, s, own)
				if err != nil {
					return err
				}
				other, otherVersion, err := number(ctx, s, others)
				if err != nil || mine == 0 || other == 0 {
					return err
				}
				return s.Commit(ctx,
					store.Tx{Writes: []store.Write{put(own, version, "0"), check(others, otherVersion)}})
			})
		})
		for w := 0; w < workers; w += 2 {
			a, _, errA := number(t.Context(), s, duty(w))
			b, _, errB := number(t.Context(), s, duty(w+1))
			if err := errors.Join(errA, errB); err != nil {
				t.Fatal(err)
			}
			if a+b != 1 {
				t.Fatalf("round %d: %d of pair %d are on duty, want 1", round, a+b, w/2)
			}
		}
	}
}

// testStaleCheck is write skew, one step at a time.
func testStaleCheck(t *testing.T, s store.Store) {
	a, b := key("p", "a"), key("q", "b")
	commit(t, s, put(a, store.Absent, "1"), put(b, store.Absent, "1"))
	commit(t, s, put(a, 1, "0"), check(b, 1))
	wantConflict(t, s, store.Tx{Writes: []store.Write{put(b, 1, "0"), check(a, 1)}}, a)
	wantRecord(t, s, b, 1, "1")
}

func testReadYourWrites(t *testing.T, s store.Store) {
	inParallel(t, func(ctx context.Context, worker int) error {
		k := key("own/"+strconv.Itoa(worker), "record")
		for i := range 20 {
			body := strconv.Itoa(i)
			err := retry(ctx, throttled, func() error {
				return s.Commit(ctx, store.Tx{Writes: []store.Write{put(k, store.Version(i), body)}}) //nolint:gosec // i counts up from 0
			})
			if err != nil {
				return err
			}
			r, err := s.Get(ctx, k)
			if err != nil {
				return err
			}
			if len(r) != 1 || string(r[0].Body) != body {
				return fmt.Errorf("after the commit of %s, Get = %v", body, r)
			}
			q, _, err := s.Query(ctx, k.Partition, "", store.Page{})
			if err != nil {
				return err
			}
			if len(q) != 1 || string(q[0].Body) != body {
				return fmt.Errorf("after the commit of %s, Query = %v", body, q)
			}
		}
		return nil
	})
}
