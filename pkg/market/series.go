package market

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"time"
)

// Series is the recorded spot price of one market. Each entry holds from its time until the time of the next entry.
// The zero value is an empty series. It is stored as two plain columns and takes 16 bytes an entry.
type Series struct {
	at  []int64 // Unix milliseconds, strictly rising
	usd []float64
}

// Errors of Append.
var (
	ErrUnordered = errors.New("the time is not after the previous one")
	ErrBadPrice  = errors.New("a price must be a positive number")
)

// Append adds a price in USD per hour that holds from the time at. It returns ErrBadPrice if the price is not
// positive and finite, and ErrUnordered if the time is not after the last entry. After an error the series is
// unchanged.
func (s *Series) Append(at time.Time, usd float64) error {
	if !(usd > 0) || math.IsInf(usd, 0) {
		return fmt.Errorf("%w, not %v", ErrBadPrice, usd)
	}
	ms := at.UnixMilli()
	if n := len(s.at); n > 0 && ms <= s.at[n-1] {
		return fmt.Errorf("%w: %s after %s", ErrUnordered, at.UTC().Format(time.RFC3339),
			s.At(n-1).Format(time.RFC3339))
	}
	s.at, s.usd = append(s.at, ms), append(s.usd, usd)
	return nil
}

// Len returns the number of entries.
func (s *Series) Len() int { return len(s.at) }

// At returns the time of entry i, in UTC.
func (s *Series) At(i int) time.Time { return time.UnixMilli(s.at[i]).UTC() }

// USD returns the price of entry i.
func (s *Series) USD(i int) float64 { return s.usd[i] }

// Span returns the times of the first and the last entry. Both are zero for an empty series.
func (s *Series) Span() (first, last time.Time) {
	if len(s.at) == 0 {
		return first, last
	}
	return s.At(0), s.At(len(s.at) - 1)
}

// Query returns the price in force at a time; ok is false before the first entry.
func (s *Series) Query(at time.Time) (usd float64, ok bool) {
	i := s.index(at.UnixMilli())
	if i < 0 {
		return 0, false
	}
	return s.usd[i], true
}

// index returns the entry in force at ms, or -1 before the first.
func (s *Series) index(ms int64) int {
	return sort.Search(len(s.at), func(i int) bool { return s.at[i] > ms }) - 1
}

// Compact drops the entries that repeat the price before them, and all entries that ended before the given time (none
// if it is zero). The last entry stays because it records until when the series was observed.
func (s *Series) Compact(before time.Time) {
	n := len(s.at)
	if n == 0 {
		return
	}
	first := 0
	if !before.IsZero() {
		first = max(s.index(before.UnixMilli()), 0)
	}
	out := 0
	for i := first; i < n; i++ {
		if i > first && i < n-1 && s.usd[i] == s.usd[out-1] {
			continue
		}
		s.at[out], s.usd[out] = s.at[i], s.usd[i]
		out++
	}
	s.at, s.usd = s.at[:out], s.usd[:out]
}

// Hourly is a series on a regular grid: element i is the price of the hour that begins at Start + i hours.
type Hourly struct {
	Start time.Time
	USD   []float64
}

// Hourly samples the series once an hour, from its first entry (rounded up to a full hour) to its last. The price in
// force at the start of an hour is the price of that hour, as it was billed (WCSSI, assumption 3).
func (s *Series) Hourly() Hourly {
	if len(s.at) == 0 {
		return Hourly{}
	}
	const hour = int64(time.Hour / time.Millisecond)
	start := (s.at[0] + hour - 1) / hour * hour
	h := Hourly{Start: time.UnixMilli(start).UTC()}
	i := 0
	for ms := start; ms <= s.at[len(s.at)-1]; ms += hour {
		for i+1 < len(s.at) && s.at[i+1] <= ms {
			i++
		}
		h.USD = append(h.USD, s.usd[i])
	}
	return h
}

// Mean returns the mean price over [from, to), weighted by time. ok is false if the series does not cover from.
func (s *Series) Mean(from, to time.Time) (usd float64, ok bool) {
	a, b := from.UnixMilli(), to.UnixMilli()
	i := s.index(a)
	if i < 0 || b <= a {
		return 0, false
	}
	sum := 0.0
	for at := a; at < b; i++ {
		end := b
		if i+1 < len(s.at) {
			end = min(end, s.at[i+1])
		}
		sum += s.usd[i] * float64(end-at)
		at = end
	}
	return sum / float64(b-a), true
}
