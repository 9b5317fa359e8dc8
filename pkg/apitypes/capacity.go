package apitypes

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
)

// Amount is an amount of capacity, counted in several units at once: available capacity, or the
// capacity that something needs. A field is 0 if capacity is not counted in its unit. Nothing that
// needs some of that unit then fits.
type Amount struct {
	Machines  int64 `json:"machines,omitempty"`  // of one type
	MilliVCPU int64 `json:"milliVCPU,omitempty"` // thousandths of a vCPU
	MiB       int64 `json:"mib,omitempty"`       // memory
	MicroUSD  int64 `json:"microUSD,omitempty"`  // millionths of a USD for each hour
	// CentiUnits are hundredths of a normalised unit, the unit in which AWS compares the sizes of an instance family:
	// size "small" is 1.
	CentiUnits int64 `json:"centiUnits,omitempty"`
}

// parts returns the numbers of an amount.
func (a Amount) parts() [5]int64 {
	return [...]int64{a.Machines, a.MilliVCPU, a.MiB, a.MicroUSD, a.CentiUnits}
}

// amountOf is the inverse of parts.
func amountOf(p [5]int64) Amount {
	return Amount{Machines: p[0], MilliVCPU: p[1], MiB: p[2], MicroUSD: p[3], CentiUnits: p[4]}
}

// Plus returns a + b.
func (a Amount) Plus(b Amount) Amount {
	x, y := a.parts(), b.parts()
	for i := range x {
		x[i] += y[i]
	}
	return amountOf(x)
}

// Minus returns a - b. Parts of it may be negative.
func (a Amount) Minus(b Amount) Amount { return a.Plus(b.Times(-1)) }

// Times returns n times a.
func (a Amount) Times(n int) Amount {
	x := a.parts()
	for i := range x {
		x[i] *= int64(n)
	}
	return amountOf(x)
}

// Floor returns a with negative parts set to 0.
func (a Amount) Floor() Amount {
	x := a.parts()
	for i := range x {
		x[i] = max(x[i], 0)
	}
	return amountOf(x)
}

// Within reports whether a fits in b: no part is larger.
func (a Amount) Within(b Amount) bool {
	x, y := a.parts(), b.parts()
	for i := range x {
		if x[i] > y[i] {
			return false
		}
	}
	return true
}

// Compare orders amounts. If a is within b, a does not come after b.
func (a Amount) Compare(b Amount) int {
	x, y := a.parts(), b.parts()
	for i := range x {
		if c := cmp.Compare(x[i], y[i]); c != 0 {
			return c
		}
	}
	return 0
}

// IsZero reports whether all parts are 0.
func (a Amount) IsZero() bool { return a == Amount{} }

// maxPart bounds each part of an amount, so that sums of them do not overflow.
const maxPart = 1e12

// sound reports whether each part is between 0 and maxPart.
func (a Amount) sound() bool {
	for _, n := range a.parts() {
		if n < 0 || n > maxPart {
			return false
		}
	}
	return true
}

// Holds returns how many times b fits in a; 0 if b is zero.
func (a Amount) Holds(b Amount) int {
	times := int64(math.MaxInt32)
	if b.IsZero() {
		return 0
	}
	x, y := a.parts(), b.parts()
	for i := range x {
		if y[i] > 0 {
			times = min(times, max(x[i], 0)/y[i])
		}
	}
	return int(times)
}

// String returns a readable form: 4 machines; 96 vCPUs and 384 GiB; 1.5 USD an hour.
func (a Amount) String() string {
	var parts []string
	exact := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	tell := func(n int64, unit float64, one, many string, number func(float64) string) {
		switch {
		case n == 0:
		case float64(n) == unit:
			parts = append(parts, "1 "+one)
		default:
			parts = append(parts, number(float64(n)/unit)+" "+many)
		}
	}
	tell(a.Machines, 1, "machine", "machines", exact)
	tell(a.MilliVCPU, 1000, "vCPU", "vCPUs", exact)
	tell(a.MiB, 1024, "GiB", "GiB", fault.Number)
	tell(a.MicroUSD, 1e6, "USD an hour", "USD an hour", exact)
	tell(a.CentiUnits, 100, "normalised unit", "normalised units", exact)
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, " and ")
}

// Check returns an error if a is not a valid amount for an account's capacity: it is zero, negative or too large.
func (a Amount) Check() error {
	if !a.sound() || a.IsZero() {
		return fmt.Errorf("%s is not a valid amount of capacity", a)
	}
	return nil
}
