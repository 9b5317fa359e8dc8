package text

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/tradewind-broker/tradewind/internal/readable"
)

// USD formats an amount of money like the broker.
func USD(v float64) string { return readable.USD(v) }

// Amount formats an amount of money with its unit. An estimate, for machines that were simulated, is marked.
func Amount(v float64, estimate bool) string {
	if estimate {
		return USD(v) + " USD est."
	}
	return USD(v) + " USD"
}

// Estimate is Amount without the unit, for tables.
func Estimate(v float64, estimate bool) string {
	if estimate {
		return USD(v) + " est."
	}
	return USD(v)
}

// Simulated is the label of a job, or a broker, whose machines are simulated. scale is how many wall seconds a second
// takes; 0 and 1 are real time.
func Simulated(scale float64) string {
	const label = "SIMULATED, nothing is bought"
	switch {
	case scale <= 0 || scale == 1:
		return label
	case scale < 1:
		return label + "; time runs " + times(1/scale) + " times faster"
	default:
		return label + "; time runs " + times(scale) + " times slower"
	}
}

// times formats a factor of at least 1.
func times(v float64) string {
	if v < 10 {
		return Tenth(v)
	}
	return Thousands(int(math.Round(v)))
}

// Saved compares an amount with another: "58% less", "5% more" or "the same".
func Saved(v, than float64) string {
	if than <= 0 {
		return ""
	}
	share := 100 * (1 - v/than)
	switch {
	case share >= 0.5:
		return fmt.Sprintf("%.0f%% less", share)
	case share <= -0.5:
		return fmt.Sprintf("%.0f%% more", -share)
	default:
		return "the same"
	}
}

// AsPlanned reports whether tasks took about as long as planned. If they were far shorter, the planned cost of other
// offers cannot be compared with the actual cost.
func AsPlanned(spent, planned float64) bool { return spent >= planned/2 }

// Span formats a duration in its two largest units: "2h 7m", "34m 10s", "12.3s", "40ms".
func Span(d time.Duration) string {
	if d < 0 {
		return "-" + Span(-d)
	}
	const day = 24 * time.Hour
	switch {
	case d == 0:
		return "0s"
	case d < time.Second:
		return strconv.FormatInt(max(d.Round(time.Millisecond).Milliseconds(), 1), 10) + "ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', -1, 64) + "s"
	}
	switch d = d.Round(time.Second); {
	case d < time.Minute:
		return two(d, time.Second, "s", 0, "")
	case d < time.Hour:
		return two(d, time.Minute, "m", time.Second, "s")
	}
	switch d = d.Round(time.Minute); {
	case d < 2*day:
		return two(d, time.Hour, "h", time.Minute, "m")
	default:
		return two(d.Round(time.Hour), day, "d", time.Hour, "h")
	}
}

func two(d, unit time.Duration, name string, sub time.Duration, subName string) string {
	s := strconv.FormatInt(int64(d/unit), 10) + name
	if sub > 0 {
		if n := int64(d % unit / sub); n > 0 {
			s += " " + strconv.FormatInt(n, 10) + subName
		}
	}
	return s
}

// Hours converts hours to a duration, limited to the range of a duration.
func Hours(h float64) time.Duration {
	const most = float64(math.MaxInt64 / int64(time.Hour))
	return time.Duration(min(max(h, -most), most) * float64(time.Hour))
}

// Clock formats a time since the start: "+0:02:10".
func Clock(d time.Duration) string {
	d = max(d, 0).Truncate(time.Second)
	return fmt.Sprintf("+%d:%02d:%02d", int64(d/time.Hour), int64(d%time.Hour/time.Minute),
		int64(d%time.Minute/time.Second))
}

// Count formats a number with its noun: "1 task", "1,000 tasks".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Thousands(n) + " " + noun + "s"
}

// Thousands formats a number in groups of three digits.
func Thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Clean makes an untrusted text safe to print on one line: it removes escape sequences and control characters.
func Clean(s string) string {
	if !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	s = ansi.Strip(s)
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r):
			return -1
		default:
			return r
		}
	}, s))
}

// Gist shortens a text of several lines, such as the last output of a failed program, to its first and last line with
// an ellipsis between them. The last line usually explains why a program ended. The result is as safe to print as that
// of Clean.
func Gist(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(Clean(line)); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) > 2 {
		lines = []string{lines[0], "…", lines[len(lines)-1]}
	}
	return strings.Join(lines, " ")
}

// Width returns the number of terminal cells of a text.
func Width(s string) int { return ansi.StringWidth(s) }

// Cut shortens a text to a number of cells and ends it with an ellipsis.
func Cut(s string, width int) string {
	if width <= 0 {
		return ""
	}
	return ansi.Truncate(s, width, "…")
}

// Pad adds spaces after a text, or before it if right, up to a number of cells.
func Pad(s string, width int, right bool) string {
	n := width - Width(s)
	switch {
	case n <= 0:
		return s
	case right:
		return strings.Repeat(" ", n) + s
	default:
		return s + strings.Repeat(" ", n)
	}
}

// Place formats an offer's ID in at most width cells: whole; or without its region if it has a zone; or only the cloud
// and the machine; or cut.
func Place(id string, width int) string {
	id = Clean(id)
	if Width(id) <= width {
		return id
	}
	parts := strings.Split(id, "/")
	if len(parts) < 3 {
		return Cut(id, width)
	}
	market := parts[len(parts)-1]
	for _, short := range []string{
		strings.Join(append([]string{parts[0]}, parts[2:]...), "/"), // aws/use1-az1/p3.2xlarge/spot
		parts[0] + "/" + parts[len(parts)-2] + "/" + market,         // aws/p3.2xlarge/spot
	} {
		if len(parts) >= 5 && Width(short) <= width {
			return short
		}
	}
	return Cut(parts[0]+"/"+parts[len(parts)-2]+"/"+market, width)
}

// List joins words like a sentence: "a, b or c".
func List(words []string, conjunction string) string {
	switch n := len(words); n {
	case 0:
		return ""
	case 1:
		return words[0]
	default:
		return strings.Join(words[:n-1], ", ") + " " + conjunction + " " + words[n-1]
	}
}

// Tenth formats a number with at most one decimal.
func Tenth(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }

// Number formats a number with as many digits as it needs.
func Number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// Wrap breaks a text into lines of at most width cells, between words if possible; a width below 20 means no limit.
func Wrap(s string, width int) []string {
	const narrowest = 20
	if width < narrowest {
		return []string{s}
	}
	return strings.Split(ansi.Wrap(s, width, "/"), "\n")
}

// Bytes formats an amount of data.
func Bytes(n int64) string {
	unit, v := 0, float64(n)
	for v >= 1024 && unit < 4 {
		v, unit = v/1024, unit+1
	}
	if unit == 0 || v >= 100 {
		return fmt.Sprintf("%.0f %s", v, []string{"B", "KiB", "MiB", "GiB", "TiB"}[unit])
	}
	return fmt.Sprintf("%.1f %s", v, []string{"B", "KiB", "MiB", "GiB", "TiB"}[unit])
}
