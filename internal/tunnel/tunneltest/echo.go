package tunneltest

import (
	"bufio"
	"io"
	"slices"
	"time"
)

// MeasureEcho sends n bytes, each after the one before has come back, and returns the round-trip times. Three more
// bytes are sent first and not counted, while the other side starts.
func MeasureEcho(to io.Writer, from io.Reader, n int) ([]time.Duration, error) {
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

// Quantile returns the duration that a share of the times does not exceed.
func Quantile(took []time.Duration, share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}
