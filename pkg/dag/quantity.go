package dag

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// How quantities are written: times 2.1h, 40m or 1h30m, sizes 2GiB, amounts 8, 8+ or 8-16,
// accelerators V100:4, money 40 or 40 USD. What is parsed here is also checked.

const timeHint = "write a number with ms, s, m, h or d: 90s, 40m, 2.1h, 1h30m"

// parseDuration reads a time. A number without a unit is refused: some would mean seconds by it and
// some hours.
func parseDuration(s string) (time.Duration, error) {
	if _, err := parseNumber(s); err == nil && s != "0" {
		return 0, fault("the time "+quote(s)+" has no unit", timeHint)
	}
	var total time.Duration
	rest := strings.TrimSpace(s)
	if strings.HasPrefix(rest, "-") {
		return 0, fault("a time cannot be negative", "")
	}
	if rest == "" {
		return 0, fault(quote(s)+" is not a time", timeHint)
	}
	for rest != "" && rest != "0" {
		n := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if n <= 0 {
			return 0, fault(quote(s)+" is not a time", timeHint)
		}
		unit := rest[n:]
		if m := strings.IndexAny(unit, "0123456789. "); m >= 0 {
			unit = unit[:m]
		}
		part, err := parsePart(rest[:n], unit)
		if err != nil {
			return 0, fault(quote(s)+" is not a time", timeHint)
		}
		if part > MaxDuration || total > MaxDuration-part {
			return 0, fault(quote(s)+" is more than "+formatDuration(MaxDuration), "")
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
	v, err := parseNumber(number)
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
		return MaxDuration + 1, nil // which ParseDuration might not be able to hold
	}
	return time.ParseDuration(number + unit)
}

// formatDuration writes a time as parseDuration reads it, without the zero parts that
// Duration.String ends in.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-len("0s")]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-len("0m")]
	}
	return s
}

// parseNumber reads a decimal number: digits, a point, an exponent. ParseFloat alone would also take
// infinities, hexadecimal and underscores.
func parseNumber(s string) (float64, error) {
	if strings.ContainsFunc(s, func(r rune) bool { return (r < '0' || r > '9') && !strings.ContainsRune(".eE+-", r) }) || len(s) > 64 {
		return 0, strconv.ErrSyntax
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, err
	}
	return v, nil
}

// formatNumber writes a number as short as it reads back.
func formatNumber(v float64) string {
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e15) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// unit is a unit of size, in GiB.
type unit struct {
	name string
	gib  float64
}

// binaryUnits are the units that sizes are written in, the largest first.
func binaryUnits() [7]unit {
	return [...]unit{
		{"EiB", 1 << 30}, {"PiB", 1 << 20}, {"TiB", 1 << 10}, {"GiB", 1}, {"MiB", 1. / (1 << 10)}, {"KiB", 1. / (1 << 20)}, {"B", 1. / (1 << 30)},
	}
}

// sizeUnits are the units that sizes are read in.
func sizeUnits() []unit {
	binary := binaryUnits()
	return append(binary[:],
		unit{"EB", 1e18 / (1 << 30)}, unit{"PB", 1e15 / (1 << 30)}, unit{"TB", 1e12 / (1 << 30)}, unit{"GB", 1e9 / (1 << 30)},
		unit{"MB", 1e6 / (1 << 30)}, unit{"kB", 1e3 / (1 << 30)}, unit{"KB", 1e3 / (1 << 30)},
		unit{"Ei", 1 << 30}, unit{"Pi", 1 << 20}, unit{"Ti", 1 << 10}, unit{"Gi", 1}, unit{"Mi", 1. / (1 << 10)}, unit{"Ki", 1. / (1 << 20)})
}

const sizeHint = "write 2GiB, 500MiB or 150GB; a number alone is GiB"

// parseSize reads a size: a number of GiB, or a number with a unit.
func parseSize(s string) (GiB, error) { return parseSizeIn(s, sizeUnits(), sizeHint) }

func parseSizeIn(s string, units []unit, hint string) (GiB, error) {
	text := strings.TrimSpace(s)
	number := strings.TrimRightFunc(text, unicode.IsLetter)
	name, factor := text[len(number):], 1.0
	if name != "" {
		i := slices.IndexFunc(units, func(u unit) bool { return u.name == name })
		if i < 0 {
			return 0, fault(quote(s)+" is not a size", hint)
		}
		number, factor = strings.TrimRight(number, " "), units[i].gib
	}
	v, err := parseNumber(number)
	if err != nil {
		return 0, fault(quote(s)+" is not a size", hint)
	}
	g := GiB(v * factor)
	return g, checkSize(g)
}

// formatSize writes a size in the largest binary unit of which it is a whole number.
func formatSize(g GiB) string {
	const exact = 1 << 53
	for _, u := range binaryUnits() {
		if n := float64(g) / u.gib; n >= 1 && n < exact && n == math.Trunc(n) {
			return formatNumber(n) + u.name
		}
	}
	return formatNumber(float64(g)) + "GiB"
}

// parseRange reads an amount with bounds: 8, 8+ or 8-16, each number by parse.
func parseRange(s, what, hint string, most float64, parse func(string) (float64, error)) (Range, error) {
	notOne := func() (Range, error) { return Range{}, fault(quote(s)+" is not an amount of "+what, hint) }
	text := strings.TrimSpace(s)
	if strings.HasPrefix(text, "-") {
		return Range{}, fault("cannot be negative", hint)
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
		return Range{}, fault("no machine has 0 "+what, hint)
	}
	return r, checkRange(r, most)
}

const cpusHint = "write 8, 8+ for at least 8, or 8-16"

func parseCPUs(s string) (Range, error) {
	return parseRange(s, "cpus", cpusHint, MaxCPUs, parseNumber)
}

const memoryHint = "write 32, 32+ for at least 32, or 32-64; a number alone is GiB"

func parseMemory(s string) (Range, error) {
	return parseRange(s, "memory", memoryHint, MaxMemoryGiB, func(s string) (float64, error) {
		g, err := parseSize(s)
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

// formatRange writes an amount as parseRange reads it.
func formatRange(r Range, format func(float64) string) string {
	switch {
	case r.Max == 0:
		return format(r.Min) + "+"
	case r.Min == r.Max:
		return format(r.Min)
	}
	return format(r.Min) + "-" + format(r.Max)
}

func formatMemory(v float64) string {
	if v == 0 {
		return "0"
	}
	return formatSize(GiB(v))
}

// parseBudget reads an amount of money.
func parseBudget(s string) (USD, error) {
	number := strings.TrimSpace(s)
	if n, ok := strings.CutSuffix(number, "USD"); ok {
		number = strings.TrimRight(n, " ")
	} else if n, ok := strings.CutPrefix(number, "$"); ok {
		number = n
	}
	v, err := parseNumber(number)
	if err != nil {
		return 0, fault(quote(s)+" is not an amount of money", "write 40 or 40 USD")
	}
	return USD(v), checkBudget(USD(v))
}

// parseAccelerator reads NAME or NAME:COUNT.
func parseAccelerator(s string) (name string, count float64, err error) {
	name, number, some := strings.Cut(strings.TrimSpace(s), ":")
	count = 1
	if some {
		if count, err = parseNumber(strings.TrimSpace(number)); err != nil {
			return "", 0, fault(quote(s)+" has no count after the colon", "write NAME or NAME:COUNT, such as V100:4")
		}
	}
	if name, err = normalizeAccelerator(strings.TrimSpace(name)); err != nil {
		return "", 0, err
	}
	return name, count, checkAccelerator(name, count)
}

// parseInt reads a whole number.
func parseInt(s string, least, most int) (int, error) {
	v, err := parseNumber(s)
	if err != nil || v != math.Trunc(v) || math.Abs(v) > 1e9 {
		return 0, fault(quote(s)+" is not a whole number", "")
	}
	return int(v), checkCount(int(v), least, most)
}
