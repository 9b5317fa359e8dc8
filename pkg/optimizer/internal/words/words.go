// Package words writes what plans take and cost for people.
package words

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Span writes hours as a job file does, "1h36m", in whole seconds. What is less than one, or more than a duration
// holds, it writes as a number of hours.
func Span(hours float64, whole func(float64) float64) string {
	const most = float64(math.MaxInt64 / int64(time.Hour))
	seconds := math.Round(hours*3600*1e6) / 1e6 // without what arithmetic left over
	if seconds < 1 || hours >= most {
		return fmt.Sprintf("%.6g h", hours)
	}
	s := (time.Duration(whole(seconds)) * time.Second).String()
	for _, none := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, none) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// USD writes an amount with six digits that count, and without an exponent.
func USD(v float64) string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	if err != nil { // of a number that was just written: cannot be
		rounded = v
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}
