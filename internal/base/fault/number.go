package fault

import (
	"math"
	"strconv"
)

// Number writes an amount with three digits, or with all digits before the point: 14.9, 0.75, 32768. A number that is
// not whole gets up to three decimals if it would look whole with fewer. For example, 14.994 is less than the 15 that
// a machine has.
func Number(v float64) string {
	const digits, decimals = 3, 3
	whole := len(strconv.FormatFloat(math.Trunc(math.Abs(v)), 'f', -1, 64))
	for n := max(digits, whole); ; n++ {
		short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', n, 64), 64)
		if err != nil || short != math.Trunc(short) || v == math.Trunc(v) || n >= whole+decimals {
			return strconv.FormatFloat(short, 'f', -1, 64)
		}
	}
}
