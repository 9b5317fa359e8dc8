// Package capacity counts what an account has paid for already: in machines where it has reserved them, in what they
// are made of or cost where it has committed itself to use so much. It knows neither offers nor clouds.
//
// Amounts are whole numbers of small units, so that sums are exact: what is asked for is rounded up and what there is
// is rounded down, and no sum of rounding errors takes more than there is.
package capacity

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/fault"
)

// Amount is how much of some capacity there is, or how much of it something takes, in all that it is counted in.
// Capacity that is not counted in one of them is 0 there, and has no room for what takes some of it.
type Amount struct {
	Machines  int64 `json:"machines,omitempty"`  // of one type
	MilliVCPU int64 `json:"milliVCPU,omitempty"` // thousandths of a vCPU
	MiB       int64 `json:"mib,omitempty"`       // memory
	MicroUSD  int64 `json:"microUSD,omitempty"`  // millionths of a USD for each hour
	// CentiUnits are hundredths of a normalised unit, by which AWS compares the sizes of a family: a small one is 1.
	CentiUnits int64 `json:"centiUnits,omitempty"`
}

// most bounds each part of an amount, so that sums of them do not overflow.
const most = 1e12

// Machines is an amount of so many.
func Machines(n int) Amount { return Amount{Machines: int64(n)} }

// TakenUSD is what costs so many USD an hour, rounded up; HadUSD is so much that there is, rounded down.
func TakenUSD(usd float64) Amount { return Amount{MicroUSD: up(usd * 1e6)} }

// HadUSD is so many USD an hour that there are, rounded down.
func HadUSD(usd float64) Amount { return Amount{MicroUSD: down(usd * 1e6)} }

// TakenBy is what a machine with so many vCPUs and so much memory takes, rounded up.
func TakenBy(vcpu, gib float64) Amount {
	return Amount{MilliVCPU: up(vcpu * 1000), MiB: up(gib * 1024)}
}

// slack is how much of a unit rounding may be off by itself: 0.1 × 10⁶ is not 100,000 to the last bit.
const slack = 1e-6

func up(x float64) int64 { return int64(math.Ceil(math.Min(x, most) - slack)) }

func down(x float64) int64 { return int64(math.Floor(math.Min(x, most) + slack)) }

// parts are an amount's numbers.
func (a Amount) parts() [5]int64 {
	return [...]int64{a.Machines, a.MilliVCPU, a.MiB, a.MicroUSD, a.CentiUnits}
}

// of is the amount of such numbers.
func of(p [5]int64) Amount {
	return Amount{Machines: p[0], MilliVCPU: p[1], MiB: p[2], MicroUSD: p[3], CentiUnits: p[4]}
}

// Plus is both together.
func (a Amount) Plus(b Amount) Amount {
	x, y := a.parts(), b.parts()
	for i := range x {
		x[i] += y[i]
	}
	return of(x)
}

// Minus is what is left without b. A part of it may be below 0.
func (a Amount) Minus(b Amount) Amount { return a.Plus(b.Times(-1)) }

// Times is so many of it.
func (a Amount) Times(n int) Amount {
	x := a.parts()
	for i := range x {
		x[i] *= int64(n)
	}
	return of(x)
}

// Floor is the amount with nothing below 0.
func (a Amount) Floor() Amount {
	x := a.parts()
	for i := range x {
		x[i] = max(x[i], 0)
	}
	return of(x)
}

// Within says whether there is room for it in b: no part is larger.
func (a Amount) Within(b Amount) bool {
	x, y := a.parts(), b.parts()
	for i := range x {
		if x[i] > y[i] {
			return false
		}
	}
	return true
}

// Compare puts amounts in an order, in which one that is within another does not come after it.
func (a Amount) Compare(b Amount) int {
	x, y := a.parts(), b.parts()
	for i := range x {
		if c := cmp.Compare(x[i], y[i]); c != 0 {
			return c
		}
	}
	return 0
}

// IsZero says whether it is nothing.
func (a Amount) IsZero() bool { return a == Amount{} }

// Sound says whether each part is a number that an account can have.
func (a Amount) Sound() bool {
	for _, n := range a.parts() {
		if n < 0 || n > most {
			return false
		}
	}
	return true
}

// Holds is how many times b there is room for: 0 where b is nothing.
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

// String tells it to people: 4 machines; 96 vCPUs and 384 GiB; 1.5 USD an hour.
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

// Check says what is wrong with an amount that an account is said to have.
func (a Amount) Check() error {
	if !a.Sound() || a.IsZero() {
		return fmt.Errorf("%s is no amount of capacity", a)
	}
	return nil
}
