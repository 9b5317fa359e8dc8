// Package atonce does many things that each wait for somebody else.
package atonce

import "sync"

// Each does n things, so many of them at once, and returns when all are done. With a limit of one they are done in
// turn by the caller's own goroutine, which is all that a simulator can follow.
func Each(limit, n int, do func(i int)) {
	if limit <= 1 {
		for i := range n {
			do(i)
		}
		return
	}
	var all sync.WaitGroup
	next := make(chan int)
	for range min(limit, n) {
		all.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}
