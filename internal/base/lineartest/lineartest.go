// Package lineartest checks that reading a file takes time in proportion to its size.
package lineartest

import (
	"runtime"
	"testing"
	"time"
)

// Reading checks a reader on files of two sizes. shape returns a file of n elements, and read reads it.
func Reading(t *testing.T, shape func(n int) string, read func(text string) error) {
	t.Helper()
	const small, times, attempts, patience = 500, 16, 8, 10 * time.Second
	texts := []string{shape(small), shape(small * times)}
	// The fastest of several attempts is used. It is measured in processor time of this thread, so that other
	// programs do not count. A reader whose time is the square of the size takes 16 times as long for each byte.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	best := []time.Duration{time.Hour, time.Hour}
	ratio := 0.0
	for start, k := time.Now(), 0; k < attempts || time.Since(start) < patience; k++ {
		for i, text := range texts {
			begin := threadTime()
			err := read(text)
			if best[i] = min(best[i], threadTime()-begin); err != nil {
				t.Fatal(err)
			}
		}
		perByte := func(i int) float64 { return float64(best[i]) / float64(len(texts[i])) }
		if ratio = perByte(1) / perByte(0); ratio < times/2. {
			return
		}
	}
	t.Errorf("a file %d times as long takes %.1f times as long for each byte: %v and %v",
		times, ratio, best[0], best[1])
}
