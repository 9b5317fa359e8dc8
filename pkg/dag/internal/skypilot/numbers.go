package skypilot

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/lazyregexp"
)

// The number formats of YAML 1.1 as in PyYAML, with which SkyPilot reads its files.
var (
	wholeForm = pattern(`[-+]?(0b[01_]+|0[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|[1-9][0-9_]*(:[0-5]?[0-9])+)`)
	realForm  = pattern(`[-+]?[0-9][0-9_]*\.[0-9_]*([eE][-+][0-9]+)?|\.[0-9][0-9_]*([eE][-+][0-9]+)?|` +
		`[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)`)
)

// pattern returns a regular expression for whole words.
func pattern(of string) lazyregexp.Regexp { return lazyregexp.New("^(" + of + ")$") }

// number returns the text that Python writes for a word that is a number in YAML 1.1, such as 8 for 010 and 750 for
// 12:30. It returns false for other words.
func number(word string) (text string, ok bool) {
	s := strings.ReplaceAll(word, "_", "")
	switch {
	case wholeForm.MatchString(word):
		return integerText(s)
	case realForm.MatchString(word):
		return floatText(s)
	}
	return "", false
}

// integerText returns the decimal text of an integer of any length.
func integerText(s string) (string, bool) {
	rest := strings.TrimLeft(s, "+-")
	base := 10
	switch {
	case strings.HasPrefix(rest, "0b"):
		rest, base = rest[2:], 2
	case strings.HasPrefix(rest, "0x"):
		rest, base = rest[2:], 16
	case len(rest) > 1 && rest[0] == '0':
		base = 8
	}
	sum := new(big.Int)
	for part := range strings.SplitSeq(rest, ":") {
		n, ok := new(big.Int).SetString(part, base)
		if !ok {
			return "", false // only underscores: Python fails too
		}
		sum.Add(sum.Mul(sum, big.NewInt(60)), n)
	}
	if s[0] == '-' {
		sum.Neg(sum)
	}
	return sum.String(), true
}

// floatText returns the text of a number with a decimal point, like Python: always with a fraction, and with an
// exponent where Python writes one.
func floatText(s string) (string, bool) {
	switch strings.ToLower(strings.TrimPrefix(s, "+")) {
	case ".inf":
		return "inf", true
	case "-.inf":
		return "-inf", true
	case ".nan":
		return "nan", true
	}
	var sum float64
	for part := range strings.SplitSeq(strings.TrimLeft(s, "+-"), ":") {
		x, err := strconv.ParseFloat(part, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return "", false
		}
		sum = sum*60 + x
	}
	if s[0] == '-' {
		sum = -sum
	}
	if math.IsInf(sum, 0) {
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(sum, 'f', -1, 64), "+")), true
	}
	if size := max(sum, -sum); size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.FormatFloat(sum, 'e', -1, 64), true
	}
	text := strconv.FormatFloat(sum, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text, true
}
