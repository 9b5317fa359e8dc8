// Package parallel runs calls that mostly wait for other systems concurrently.
package parallel

import "golang.org/x/sync/errgroup"

// Each calls do for 0 … n-1, at most limit calls at a time, and returns when all calls have returned. With a limit of
// one, the calls run in the caller's goroutine, as a simulator requires.
func Each(limit, n int, do func(i int)) {
	if limit <= 1 {
		for i := range n {
			do(i)
		}
		return
	}
	var g errgroup.Group
	g.SetLimit(limit)
	for i := range n {
		g.Go(func() error {
			do(i)
			return nil
		})
	}
	_ = g.Wait() // no call returns an error
}
