package dag

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// Quantities are written like this: times 2.1h, 40m or 1h30m, sizes 2GiB, amounts 8, 8+ or 8-16, accelerators V100:4,
// money 40 or 40 USD. The functions that parse them also check their limits.

const timeHint = "write a number with ms, s, m, h or d: 90s, 40m, 2.1h, 1h30m"

// ParseDuration reads a time. A number without a unit is an error, because some users would mean seconds and others
// hours.
func ParseDuration(s string) (time.Duration, error) {
	if _, err := jobtext.ParseNumber(s); err == nil && s != "0" {
		return 0, fault.New("the time "+fault.Quote(s)+" has no unit", timeHint)
	}
	var total time.Duration
	rest := strings.TrimSpace(s)
	if strings.HasPrefix(rest, "-") {
		return 0, fault.New("a time cannot be negative", "")
	}
	if rest == "" {
		return 0, fault.New(fault.Quote(s)+" is not a time", timeHint)
	}
	for rest != "" && rest != "0" {
		n := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if n <= 0 {
			return 0, fault.New(fault.Quote(s)+" is not a time", timeHint)
		}
		unit := rest[n:]
		if m := strings.IndexAny(unit, "0123456789. "); m >= 0 {
			unit = unit[:m]
		}
		part, err := parsePart(rest[:n], unit)
		if err != nil {
			return 0, fault.New(fault.Quote(s)+" is not a time", timeHint)
		}
		if part > MaxDuration || total > MaxDuration-part {
			return 0, fault.New(fault.Quote(s)+" is more than "+FormatDuration(MaxDuration), "")
		}
		total += part
		rest = strings.TrimLeft(rest[n+len(unit):], " ")
	}
	return total, checkDuration(total)
}

// parsePart reads one number with its unit. Days are 24 hours.
func parsePart(number, unit string) (time.Duration, error) {
	if len(number) > 32 {
		return 0, strconv.ErrRange
	}
	v, err := jobtext.ParseNumber(number)
	if err != nil {
		return 0, err
	}
	if unit == "d" {
		hours := min(v*24, MaxDuration.Hours()+1)
		return time.Duration(math.Round(hours * float64(time.Hour))), nil
	}
	one, err := time.ParseDuration("1" + unit)
	if err != nil {
		return 0, err
	}
	if v*one.Seconds() > MaxDuration.Seconds() {
		return MaxDuration + 1, nil // ParseDuration might overflow
	}
	return time.ParseDuration(number + unit)
}

// FormatDuration writes a time in the form that ParseDuration reads. It omits the zero parts at the end of
// Duration.String.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-len("0s")]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-len("0m")]
	}
	return s
}

// binaryUnit is a unit in which sizes are written, in GiB.
type binaryUnit struct {
	name string
	gib  float64
}

// binaryUnits returns the units in which sizes are written, the largest first.
func binaryUnits() [7]binaryUnit {
	return [...]binaryUnit{
		{"EiB", 1 << 30}, {"PiB", 1 << 20}, {"TiB", 1 << 10}, {"GiB", 1},
		{"MiB", 1. / (1 << 10)}, {"KiB", 1. / (1 << 20)}, {"B", 1. / (1 << 30)},
	}
}

// sizeUnits returns the units in which sizes can be read, in GiB.
func sizeUnits() map[string]float64 {
	const gib = 1 << 30
	units := map[string]float64{
		"EB": 1e18 / gib, "PB": 1e15 / gib, "TB": 1e12 / gib, "GB": 1e9 / gib, "MB": 1e6 / gib,
		"kB": 1e3 / gib, "KB": 1e3 / gib,
	}
	for _, u := range binaryUnits() {
		units[u.name] = u.gib
		if short, ok := strings.CutSuffix(u.name, "iB"); ok {
			units[short+"i"] = u.gib
		}
	}
	return units
}

// ParseSize reads a size: a number of GiB, or a number with a unit.
func ParseSize(s string) (GiB, error) {
	return ParseSizeIn(s, sizeUnits(), "write 2GiB, 500MiB or 150GB; a number alone is GiB")
}

// ParseSizeIn reads a size with the given units, whose sizes are in GiB. The hint is for text that is not a size.
func ParseSizeIn(s string, units map[string]float64, hint string) (GiB, error) {
	text := strings.TrimSpace(s)
	number := strings.TrimRightFunc(text, unicode.IsLetter)
	name, factor := text[len(number):], 1.0
	if name != "" {
		var ok bool
		if factor, ok = units[name]; !ok {
			return 0, fault.New(fault.Quote(s)+" is not a size", hint)
		}
		number = strings.TrimRight(number, " ")
	}
	v, err := jobtext.ParseNumber(number)
	if err != nil {
		return 0, fault.New(fault.Quote(s)+" is not a size", hint)
	}
	g := GiB(v * factor)
	return g, g.Check()
}

// FormatSize writes a size in the largest binary unit that makes it a whole number.
func FormatSize(g GiB) string {
	const exact = 1 << 53
	for _, u := range binaryUnits() {
		if n := float64(g) / u.gib; n >= 1 && n < exact && n == math.Trunc(n) {
			return jobtext.FormatNumber(n) + u.name
		}
	}
	return jobtext.FormatNumber(float64(g)) + "GiB"
}

// ParseRange reads an amount with bounds: 8, 8+ or 8-16. A number alone is exact. parse reads each number. The maximum
// is most.
func ParseRange(s, what, hint string, most float64, parse func(string) (float64, error)) (Range, error) {
	notOne := func() (Range, error) { return Range{}, fault.New(fault.Quote(s)+" is not an amount of "+what, hint) }
	text := strings.TrimSpace(s)
	if strings.HasPrefix(text, "-") {
		return Range{}, fault.New("cannot be negative", hint)
	}
	lower, open := strings.CutSuffix(text, "+")
	lower, upper, both := cutDash(lower)
	if open && both {
		return notOne()
	}
	least, err := parse(lower)
	if err != nil {
		return notOne()
	}
	r := Range{Min: least}
	switch {
	case both:
		if r.Max, err = parse(upper); err != nil {
			return notOne()
		}
	case !open:
		r.Max = least
	}
	if r.Max == 0 && (!open || least == 0) {
		return Range{}, fault.New("no machine has 0 "+what, hint)
	}
	return r, r.Check(most)
}

const cpusHint = "write 8, 8+ for at least 8, or 8-16"

// ParseCPUs reads a number of vCPUs: 4, 4+ or 2-8.
func ParseCPUs(s string) (Range, error) {
	return ParseRange(s, "cpus", cpusHint, jobtext.MaxCPUs, jobtext.ParseNumber)
}

const memoryHint = "write 32, 32+ for at least 32, or 32-64; a number alone is GiB"

// parseMemory reads an amount of memory: 16, 16+, 512MB. The default unit is GiB.
func parseMemory(s string) (Range, error) {
	return ParseRange(s, "memory", memoryHint, jobtext.MaxMemoryGiB, func(s string) (float64, error) {
		g, err := ParseSize(s)
		return float64(g), err
	})
}

// cutDash cuts s at its first dash that is not the sign of an exponent.
func cutDash(s string) (before, after string, found bool) {
	for i := 1; i < len(s); i++ {
		if s[i] == '-' && s[i-1] != 'e' && s[i-1] != 'E' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// ParseCPUsAtLeast reads vCPUs as native files have them: a number alone is a minimum, =4 is exactly 4.
func ParseCPUsAtLeast(s string) (Range, error) { return parseAtLeast(s, ParseCPUs) }

// ParseMemoryAtLeast reads memory in the form of native files: a number alone is a minimum, =16 is exactly 16 GiB,
// and GB means GiB. Memory is sold in GiB, and a user who writes 16GB means the machine with 16 GiB.
func ParseMemoryAtLeast(s string) (Range, error) {
	return parseAtLeast(binaryMemory.Replace(s), parseMemory)
}

var binaryMemory = strings.NewReplacer("MB", "MiB", "GB", "GiB", "TB", "TiB")

func parseAtLeast(s string, parse func(string) (Range, error)) (Range, error) {
	text, exact := strings.CutPrefix(strings.TrimSpace(s), "=")
	_, _, both := cutDash(text)
	r, err := parse(text)
	switch {
	case err != nil:
	case exact && (r.Max == 0 || both):
		err = fault.New(fault.Quote(s)+" is not a single amount", "write =8 for exactly 8")
	case !exact && !both:
		r.Max = 0
	}
	return r, err
}

// formatRange writes an amount in the form that native files have.
func formatRange(r Range, format func(float64) string) string {
	switch {
	case r.Max == 0:
		return format(r.Min) + "+"
	case r.Min == r.Max:
		return "=" + format(r.Min)
	}
	return format(r.Min) + "-" + format(r.Max)
}

// formatMemory writes an amount of memory, in GiB, in the form that parseMemory reads.
func formatMemory(v float64) string {
	if v == 0 {
		return "0"
	}
	return FormatSize(GiB(v))
}

// ParseBudget reads the budget of a job.
func ParseBudget(s string) (USD, error) { return parseUSD(s, checkBudget) }

// ParseHourly reads the maximum price of a machine, in USD per hour.
func ParseHourly(s string) (USD, error) { return parseUSD(s, checkHourly) }

// ParseAmount reads an amount of money that may be 0, such as a limit.
func ParseAmount(s string) (USD, error) {
	return parseUSD(s, func(u USD) error {
		if u == 0 {
			return nil
		}
		return checkUSD(u, "an amount", "")
	})
}

func parseUSD(s string, check func(USD) error) (USD, error) {
	number := strings.TrimSpace(s)
	if n, ok := strings.CutSuffix(number, "USD"); ok {
		number = strings.TrimRight(n, " ")
	} else if n, ok := strings.CutPrefix(number, "$"); ok {
		number = n
	}
	v, err := jobtext.ParseNumber(number)
	if err != nil {
		return 0, fault.New(fault.Quote(s)+" is not an amount of money", "write 40 or 40 USD")
	}
	return USD(v), check(USD(v))
}

// ParseAccelerator reads NAME or NAME:COUNT.
func ParseAccelerator(s string) (name string, count float64, err error) {
	name, number, some := strings.Cut(strings.TrimSpace(s), ":")
	count = 1
	if some {
		if count, err = jobtext.ParseNumber(strings.TrimSpace(number)); err != nil {
			return "", 0, fault.New(
				fault.Quote(s)+" has no count after the colon",
				"write NAME or NAME:COUNT, such as V100:4",
			)
		}
	}
	if name, err = normalizeAccelerator(strings.TrimSpace(name)); err != nil {
		return "", 0, err
	}
	return name, count, checkAccelerator(name, count)
}

// TimeKey returns the canonical form of a key of estimates: NAME or NAME:COUNT of an accelerator, or an instance
// type. No instance type has a colon, and those of the clouds have several parts, so a single word that is similar to
// an accelerator is a typing error.
func TimeKey(s string) (string, error) {
	if !strings.Contains(s, ":") {
		name, err := normalizeAccelerator(s)
		if err != nil && strings.ContainsAny(s, ".-_") {
			return s, jobtext.CheckWord(s)
		}
		if err != nil {
			return "", err
		}
		return name, jobtext.CheckWord(name)
	}
	name, count, err := ParseAccelerator(s)
	if err != nil {
		return "", err
	}
	return AcceleratorKey(name, count), nil
}
