package driver

import (
	"errors"
	"sync"
)

// Each calls f for 0 … n-1, at most so many at a time, and joins the errors.
func Each(n, atOnce int, f func(i int) error) error {
	errs := make([]error, max(n, 0))
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = f(i)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
