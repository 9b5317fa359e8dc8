package benchreport_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/benchreport"
)

func TestReplaceKeepsOtherSections(t *testing.T) {
	page := "# Results\n\nold words\n\n## A\n\nold a\n\n## B\n\nold b\n"
	got := benchreport.Replace(page, "A", "## A\n\nnew a\n")
	got = benchreport.Replace(got, "C", "## C\n\nnew c\n")
	for _, want := range []string{"new a", "old b", "new c"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(got, "old a") || strings.Contains(got, "old words") {
		t.Errorf("what was replaced is still there:\n%s", got)
	}
	if strings.Index(got, "## A") > strings.Index(got, "## B") || strings.Index(got, "## B") > strings.Index(got, "## C") {
		t.Errorf("the order changed:\n%s", got)
	}
	if again := benchreport.Replace(got, "C", "## C\n\nnew c\n"); again != got {
		t.Errorf("replacing a section by itself changes the page:\n%s", again)
	}
}

func TestSectionHasDateAndMachine(t *testing.T) {
	s := benchreport.Section("A", benchreport.Table([]benchreport.Row{{"x", "1", "2", "make x"}}), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	if !strings.HasPrefix(s, "## A\n\n2026-01-02, ") || !strings.Contains(s, "| x | 1 | 2 | `make x` |") {
		t.Error(s)
	}
}
