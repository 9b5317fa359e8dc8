package text

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

// USD writes an amount of money, as the broker does.
func USD(v float64) string { return record.TellUSD(v) }

// Saved says how much less an amount is than another: "58% less", or what it is instead.
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

// AsPlanned says whether tasks took about as long as planned. Where they were far shorter, what their hours were
// planned to cost elsewhere says nothing of what they have cost.
func AsPlanned(spent, planned float64) bool { return spent >= planned/2 }

// Span writes a duration in its two largest units: "2h 7m", "34m 10s", "12.3s", "40ms".
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

// Hours makes a duration of a number of hours, which may be beyond what a duration holds.
func Hours(h float64) time.Duration {
	const most = float64(math.MaxInt64 / int64(time.Hour))
	return time.Duration(min(max(h, -most), most) * float64(time.Hour))
}

// Clock writes a time since the start: "+0:02:10".
func Clock(d time.Duration) string {
	d = max(d, 0).Truncate(time.Second)
	return fmt.Sprintf("+%d:%02d:%02d", int64(d/time.Hour), int64(d%time.Hour/time.Minute),
		int64(d%time.Minute/time.Second))
}

// Count writes a number with its noun: "1 task", "1,000 tasks".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Thousands(n) + " " + noun + "s"
}

// Thousands writes a number in groups of three digits.
func Thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Clean makes a text from elsewhere safe to print on one line: escape sequences and control characters are taken out.
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

// Gist makes one line of a text of several, such as the last lines of a program that failed: its first and its last,
// with an ellipsis for what lies between. What a program says last is mostly why it ended. It is as safe to print as
// Clean is.
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

// Width is the number of terminal cells a text takes.
func Width(s string) int { return ansi.StringWidth(s) }

// Cut shortens a text to a number of cells, with an ellipsis where it was cut.
func Cut(s string, width int) string {
	if width <= 0 {
		return ""
	}
	return ansi.Truncate(s, width, "…")
}

// Pad fills a text with spaces on the right, or the left, to a number of cells.
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

// Place writes an offer's ID in at most width cells: whole, without its region where it names a zone,
// then the cloud and the machine alone, then cut.
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

// List joins words as a sentence does: "a, b or c".
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

// Tenth writes a number to a tenth, without one that is 0.
func Tenth(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }

// Number writes a number with as many digits as it needs.
func Number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// Wrap breaks a text into lines of at most width cells, between words where it can; a width below 20 is no limit.
func Wrap(s string, width int) []string {
	const narrowest = 20
	if width < narrowest {
		return []string{s}
	}
	return strings.Split(ansi.Wrap(s, width, "/"), "\n")
}

// Bytes writes an amount of data.
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
