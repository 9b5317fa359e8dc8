package parallel_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/parallel"
)

// Each item must be processed once, and never more at the same time than the limit allows.
func TestSoManyAreDoneAtOnce(t *testing.T) {
	for limit, seconds := range map[int]int{0: 10, 1: 10, 4: 3, 16: 1} {
		synctest.Test(t, func(t *testing.T) {
			began, done := time.Now(), make([]atomic.Int32, 10)
			parallel.Each(limit, len(done), func(i int) {
				time.Sleep(time.Second)
				done[i].Add(1)
			})
			if took := time.Since(began); took != time.Duration(seconds)*time.Second {
				t.Errorf("%d at once take %v, want %d s", limit, took, seconds)
			}
			for i := range done {
				if n := done[i].Load(); n != 1 {
					t.Errorf("%d at once: %d is done %d times", limit, i, n)
				}
			}
		})
	}
}

// With a limit of one, items are processed in the caller's goroutine. The caller needs no lock, and a panic reaches
// it.
func TestOneAtATimeIsDoneByTheCaller(t *testing.T) {
	defer func() {
		if r := recover(); r != "ended" {
			t.Errorf("the caller hears %v", r)
		}
	}()
	parallel.Each(1, 3, func(int) { panic("ended") })
}
