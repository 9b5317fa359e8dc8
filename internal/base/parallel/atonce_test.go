package parallel_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/parallel"
)

// Each thing is done once, and no more of them at a time than the limit says.
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

// With one at a time they are done where the caller is: it needs no lock, and hears a panic.
func TestOneAtATimeIsDoneByTheCaller(t *testing.T) {
	defer func() {
		if r := recover(); r != "ended" {
			t.Errorf("the caller hears %v", r)
		}
	}()
	parallel.Each(1, 3, func(int) { panic("ended") })
}
