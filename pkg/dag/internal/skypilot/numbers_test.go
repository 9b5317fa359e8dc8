package skypilot

import (
	"strings"
	"testing"
)

// asPython has words, and the results of Python's yaml.safe_load and str for each word (PyYAML 6.0.3).
const asPython = `
	010=8 0=0 -0=0 +5=5 007=7 08=08 09=09 1_000=1000 _1=_1 1_=1 0_=0 0b=0b 0b101=5 0b_1=1 0b1_0=2 -0b11=-3 0x1F=31
	0x=0x 0x_f=15 -0x10=-16 0o10=0o10 12:30=750 1:2:3=3723 12:60=12:60 12:5=725 -1:30=-90 +1:30=90 01:30=01:30
	1:30.5=90.5 1:30.=90.0 0:0.1=0.1 1.50=1.5 1.=1.0 0.1=0.1 -.5=-.5 .5=0.5 +.5=+.5 1e3=1e3 1.5e3=1.5e3
	1.5e+3=1500.0 1.5e-7=1.5e-07 1.0e+16=1e+16 123456789012345678.0=1.2345678901234568e+17 0.0001=0.0001
	0.00001=1e-05 99999999999999999999999=99999999999999999999999 1_0.5_0=10.5 .inf=inf -.INF=-inf +.inf=inf
	.nan=nan .NaN=nan 1.2.3=1.2.3 1-2=1-2 --1=--1 +-1=+-1 2020-01-01=2020-01-01 1,5=1,5 0.0=0.0 -0.0=-0.0
	1.5E+3=1500.0 .5e-3=0.0005 1__0=10 00=0 0777=511 -010=-8 12345678901234567890=12345678901234567890 3.14=3.14
	3.140=3.14 100=100 42=42 4.0e+0=4.0 5_=5 5_.=5.0 5._=5.0 ._5=._5 1e+3=1e+3 1.e+3=1000.0 0.1e-400=0.0
	1.0e+400=inf`

func TestNumbersAreWrittenLikePython(t *testing.T) {
	for line := range strings.FieldsSeq(asPython) {
		word, want, _ := strings.Cut(line, "=")
		got, is := number(word)
		if !is {
			got = word
		}
		if got != want {
			t.Errorf("%s is %q, want %q", word, got, want)
		}
	}
}

// FuzzNumbers checks that the text written for a number can be read as a number.
func FuzzNumbers(f *testing.F) {
	for word := range strings.FieldsSeq(asPython) {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		text, is := number(word)
		if !is {
			return
		}
		again, is := number(text)
		if strings.Contains(text, "e") || strings.ContainsAny(text, "in") { // 1e+16 and inf are not numbers in YAML 1.1
			return
		}
		if !is || again != text {
			t.Errorf("%s is %s, and that is %s (%v)", word, text, again, is)
		}
	})
}
