// Package echo measures how long a byte takes to whoever sends it back.
package echo

import (
	"bufio"
	"io"
	"slices"
	"time"
)

// Measure sends bytes, one when the one before has come back, and returns how long each took. The first three are not
// counted: they wait until the other side is there.
func Measure(to io.Writer, from io.Reader, n int) ([]time.Duration, error) {
	const first = 3
	back := bufio.NewReaderSize(from, 1)
	var took []time.Duration
	for i := range n + first {
		began := time.Now()
		if _, err := to.Write([]byte{'a' + byte(i%26)}); err != nil {
			return nil, err
		}
		if _, err := back.ReadByte(); err != nil {
			return nil, err
		}
		if i >= first {
			took = append(took, time.Since(began))
		}
	}
	return took, nil
}

// At is the duration that a share of them does not exceed.
func At(took []time.Duration, share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}
