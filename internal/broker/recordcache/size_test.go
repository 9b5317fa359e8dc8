package recordcache

import (
	"strings"
	"testing"
)

func TestSizeOfIncludesReferencedValues(t *testing.T) {
	type inner struct {
		text string
		next *inner
	}
	long := strings.Repeat("x", 1000)
	for name, c := range map[string]struct {
		value any
		want  int
	}{
		"a number":                    {int64(1), 8},
		"a string":                    {long, 16 + 1000},
		"numbers, with room for more": {make([]float32, 2, 100), 24 + 400},
		"strings":                     {[]string{long, ""}, 24 + 32 + 1000},
		"structs, with room for more": {make([]inner, 1, 3), 24 + 72},
		"a pointer":                   {&inner{text: long}, 8 + 24 + 1000},
		"a chain of pointers":         {inner{next: &inner{text: long}}, 24 + 24 + 1000},
		"a map":                       {map[string]int64{long: 1, "ab": 2}, 8 + 2*24 + 1002},
		"interfaces":                  {[]any{int64(1), long, nil}, 24 + 3*16 + 8 + 16 + 1000},
		"rows of a table":             {[][]float64{make([]float64, 10), nil}, 24 + 48 + 80},
		"nil fields":                  {inner{}, 24},
		"an array of numbers":         {[4]int32{}, 16},
		"an array of strings":         {[2]string{long}, 32 + 1000},
	} {
		if got := sizeOf(c.value); got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
}
