// Package text has the limits of models and the form of amounts in texts, for all forms of the optimizer.
package text

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Limits on a model, so that a malicious file or a wrong unit cannot exhaust memory or overflow a sum.
const (
	MaxPlaces     = 2048
	MaxTasks      = 100_000
	MaxCandidates = 20_000_000 // over all tasks
	MaxEdges      = 2_000_000
)

// Span formats hours like a job file, "1h36m", in whole seconds. Less than a second, or more than a duration can
// hold, is formatted as a number of hours.
func Span(hours float64, whole func(float64) float64) string {
	const most = float64(math.MaxInt64 / int64(time.Hour))
	seconds := math.Round(hours*3600*1e6) / 1e6 // without rounding errors
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

// USD formats an amount with six significant digits and without an exponent.
func USD(v float64) string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	if err != nil { // cannot happen: the number was just formatted
		rounded = v
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}
