package jobtext

import (
	"math"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
)

// maxFLOPs is far more than any task has: a year of a million accelerators.
const maxFLOPs = 1e30

// ParseFLOPs reads a number of floating-point operations, such as 3e18.
func ParseFLOPs(s string) (float64, error) {
	v, err := ParseNumber(s)
	if err != nil {
		return 0, fault.New(fault.Quote(s)+" is not a number of operations", "write one such as 3e18")
	}
	return v, CheckFLOPs(v)
}

// CheckFLOPs checks the number of floating-point operations of a task.
func CheckFLOPs(v float64) error {
	if !(v >= 1 && v <= maxFLOPs) {
		return fault.New(FormatNumber(v)+" is not a number of operations from 1 to 1e30", "write one such as 3e18")
	}
	return nil
}

// ParseEfficiency reads the share of their rating that accelerators reach.
func ParseEfficiency(s string) (float64, error) {
	v, err := ParseNumber(s)
	if err != nil {
		return 0, fault.New(fault.Quote(s)+" is not a number", "write a share of the rating, such as 0.4")
	}
	return v, CheckEfficiency(v)
}

// CheckEfficiency checks the share of their rating that accelerators reach.
func CheckEfficiency(v float64) error {
	if !(v > 0 && v <= 1) {
		return fault.New(FormatNumber(v)+" is not above 0 and at most 1", "write a share of the rating, such as 0.4")
	}
	return nil
}

// ParseSerial reads the share of a time that more machines do not shorten.
func ParseSerial(s string) (*float64, error) {
	v, err := ParseNumber(s)
	if err != nil {
		return nil, fault.New(fault.Quote(s)+" is not a number", "write a share of the time, such as 0.05")
	}
	return &v, CheckSerial(&v)
}

// CheckSerial checks the share of a time that more machines do not shorten.
func CheckSerial(v *float64) error {
	if !(*v >= 0 && *v <= 1) {
		return fault.New(FormatNumber(*v)+" is not from 0 to 1", "write a share of the time, such as 0.05")
	}
	return nil
}

// ParseNodes reads a number of machines, 4, or the numbers among which a plan chooses, 1-16. most is 0 for one number.
func ParseNodes(s string) (least, most int, err error) {
	from, to, isRange := strings.Cut(s, "-")
	if !isRange || strings.TrimSpace(from) == "" {
		least, err = ParseInt(s, 1, MaxNodes)
		return least, 0, err
	}
	if least, err = ParseInt(strings.TrimSpace(from), 1, MaxNodes); err == nil {
		most, err = ParseInt(strings.TrimSpace(to), 1, MaxNodes)
	}
	switch {
	case err != nil:
		return 0, 0, err
	case most < least:
		return 0, 0, fault.New(fault.Quote(s)+" has its minimum above its maximum", "write the smaller number first")
	case most == least:
		most = 0
	}
	return least, most, nil
}

// ParseNumber reads a decimal number: digits, a point, an exponent. ParseFloat alone would also accept infinities,
// hexadecimal numbers and underscores.
func ParseNumber(s string) (float64, error) {
	if strings.ContainsFunc(
		s,
		func(r rune) bool { return (r < '0' || r > '9') && !strings.ContainsRune(".eE+-", r) },
	) ||
		len(s) > 64 {
		return 0, strconv.ErrSyntax
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, err
	}
	return v, nil
}

// FormatNumber writes a number with the fewest digits that read back as the same number.
func FormatNumber(v float64) string {
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e15) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// ParseInt reads a whole number from least to most.
func ParseInt(s string, least, most int) (int, error) {
	v, err := ParseNumber(s)
	if err != nil || v != math.Trunc(v) || math.Abs(v) > 1e9 {
		return 0, fault.New(fault.Quote(s)+" is not a whole number", "")
	}
	return int(v), CheckCount(int(v), least, most)
}
