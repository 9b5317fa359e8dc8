package azure_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// mishaps causes random failures in a subscription.
func mishaps(r *rand.Rand, w *world) {
	kinds := []string{"PUT machine", "DELETE machine", "GET machine", "GET machines", "GET operation", "PUT resource", "GET resources", "DELETE resource"}
	faults := []*arm.Fault{
		nil, nil, nil, // a lost answer
		{Status: http.StatusInternalServerError, Code: "InternalServerError", Message: "oops"},
		{Status: http.StatusTooManyRequests, Code: "TooManyRequests", Message: "slow down", RetryAfter: time.Second},
		{Status: http.StatusConflict, Code: "AnotherOperationInProgress", Message: "wait"},
	}
	for range 3 + r.IntN(6) {
		w.arm.Make(arm.Trouble{Kind: kinds[r.IntN(len(kinds))], After: r.IntN(6), Times: 1 + r.IntN(2), Fault: faults[r.IntN(len(faults))]})
	}
	for range r.IntN(3) {
		codes := []string{"AllocationFailed", "QuotaExceeded", "InternalExecutionError"}
		w.arm.FailLate(r.IntN(4), 1, &arm.Fault{Status: http.StatusConflict, Code: codes[r.IntN(len(codes))], Message: "on second thoughts"})
	}
	w.arm.Strand(r.IntN(3))
	w.arm.Lag(r.IntN(3))
}

// Calls fail at random. A successful launch must return each machine once. After other processes have terminated
// everything, nothing may be left.
func TestRandomFailuresLeaveNothingBehind(t *testing.T) {
	for seed := range uint64(25) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t, arm.Config{Page: 3}, nil)
			mishaps(r, w)
			const clusters = 4
			ends := make([]bool, clusters) // terminated during the launch
			for i := range ends {
				ends[i] = r.IntN(3) == 0
			}
			var wg sync.WaitGroup
			for i := range clusters {
				wg.Go(func() {
					name, nodes := fmt.Sprint("c", i), 1+i
					for try := range 3 {
						driver := w.azure
						if try%2 == 1 {
							driver = w.driver(w.cfg)
						}
						machines, err := driver.Launch(t.Context(), spec(name, spot, nodes))
						seen := map[string]bool{}
						for _, m := range machines {
							seen[m.ID] = true
						}
						if err == nil && len(seen) != nodes {
							t.Errorf("%s: %d machines of %d", name, len(seen), nodes)
						}
						if err == nil || cloud.KindOf(err) != cloud.Transient && cloud.KindOf(err) != cloud.Throttled {
							break
						}
					}
				})
				if ends[i] {
					wg.Go(func() { _ = w.azure.Terminate(t.Context(), fmt.Sprint("c", i)) })
				}
			}
			wg.Wait()
			last := w.driver(w.cfg)
			until := func(what string, f func() error) {
				var err error
				for range 30 {
					if err = f(); err == nil {
						return
					}
				}
				t.Fatalf("%s: %v", what, err)
			}
			for i := range clusters {
				until("terminate", func() error { return last.Terminate(t.Context(), fmt.Sprint("c", i)) })
			}
			w.arm.Settle()
			// Lists may lag: if a cluster's rank 0 no longer exists, a remaining machine is found only in a later
			// list. reconcile lists again and again, too.
			for range 3 {
				var machines []cloud.Machine
				until("list", func() (err error) { machines, err = last.Machines(t.Context(), ""); return err })
				for _, m := range machines {
					until("terminate", func() error { return last.Terminate(t.Context(), m.Cluster) })
				}
				w.arm.Settle()
			}
			until("sweep", func() error { _, err := last.Sweep(t.Context()); return err })
			w.clean()
		})
	}
}
