package sandbox_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/rehearsal/sandbox"
)

// TestLongChainIsRecursive: a chain of requests may invoke the same function at most sixteen times. Other functions
// in the chain are counted separately.
func TestLongChainIsRecursive(t *testing.T) {
	first := function(t, func(f *sandbox.Function) { f.ARN = "arn:first" })
	second := function(t, func(f *sandbox.Function) { f.ARN = "arn:second" })
	second.MayLoop = true
	header, n := "", 0
	for ; !first.Recursive(header) && n < 100; n++ {
		for _, f := range []*sandbox.Function{first, second} {
			got, err := f.Invoke(t.Context(), []byte("trace"), url.PathEscape(header), "Root=1-2;Lineage=00000000:9")
			if err != nil {
				t.Fatal(err)
			}
			header = string(got)
		}
	}
	if n != 16 || first.Usage().Dropped != 1 || first.Usage().Chain != 16 {
		t.Errorf("dropped after %d invocations: %+v", n, first.Usage())
	}
	if second.Recursive(header) || first.Recursive() || first.Recursive("Root=1-2;Parent=3") {
		t.Error("a chain is dropped that need not be")
	}
	if got := sandbox.LineageOf(header)["00000000"]; got != 9 || !strings.Contains(header, "Root=") {
		t.Errorf("%s", header)
	}
}
