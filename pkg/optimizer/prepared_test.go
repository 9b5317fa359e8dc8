package optimizer_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"pgregory.net/rapid"
)

// Several goroutines solve one prepared model at the same time. Their results must equal those of Solve.
func TestPreparedMatchesSolve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := boundedModel(t)
		want, err := optimizer.Solve(t.Context(), m, optimizer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := optimizer.Prepare(m)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				got, err := p.Solve(t.Context(), optimizer.Options{})
				if err != nil || got.Status != want.Status || got.Objective != want.Objective || !slices.Equal(got.Picks, want.Picks) {
					t.Errorf("%+v, %v; Solve returns %+v", got, err, want)
				}
			})
		}
		wg.Wait()
	})
}
