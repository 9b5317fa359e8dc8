package names_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/base/names"
)

// TestNamesAreWhatTheirPatternSays compares the checks of names with regular expressions, over allowed and other
// characters.
func TestNamesAreWhatTheirPatternSays(t *testing.T) {
	bucket := regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$`)
	made := regexp.MustCompile(`^[A-Za-z-]{1,31}$`)
	letters := rapid.SampledFrom(strings.Split("a z 0 9 A Z . _ - / ü \x00 \xff", " "))
	rapid.Check(t, func(t *rapid.T) {
		name := strings.Join(rapid.SliceOfN(letters, 0, 8).Draw(t, "name"), "") +
			strings.Repeat("n", rapid.SampledFrom([]int{0, 1, 2, 23, 31, 214, 222, 223}).Draw(t, "more")) +
			rapid.SampledFrom([]string{"", "-", "a"}).Draw(t, "end")
		if got, want := names.Bucket(name), bucket.MatchString(name); got != want {
			t.Errorf("a bucket may be called %q: %v, want %v", name, got, want)
		}
		if got, want := names.Made(name, 1, 31, names.Upper+names.Lower+"-"), made.MatchString(name); got != want {
			t.Errorf("%q is made of letters: %v, want %v", name, got, want)
		}
	})
}
