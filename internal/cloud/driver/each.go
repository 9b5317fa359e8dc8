package driver

import (
	"errors"

	"github.com/tradewind-broker/tradewind/internal/base/parallel"
)

// Each calls f for 0 … n-1, at most atOnce calls at a time, and joins the errors.
func Each(n, atOnce int, f func(i int) error) error {
	errs := make([]error, max(n, 0))
	parallel.Each(atOnce, n, func(i int) { errs[i] = f(i) })
	return errors.Join(errs...)
}
