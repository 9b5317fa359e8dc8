package reproduce_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/lab/reproduce"
)

const data = "../../../../shared/data"

func run(t *testing.T, paper, figure string) reproduce.Item {
	t.Helper()
	r, err := reproduce.Run(t.Context(), paper, figure, data, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	return r.Items[0]
}

// The policies of ParSync differ as in the paper: the less delay, the less quality. The adaptive policy changes to the
// freshest partitions, and keeps the delay of each phase at its limit.
func TestPoliciesTradeDelayForQuality(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates four clusters")
	}
	var delay, quality float64
	rows := run(t, "parsync", "policies").Rows
	for i, policy := range []string{"latency", "parsync", "quality", "statesync"} {
		d, q := rows[i]["delay"].(float64), rows[i]["quality"].(float64)
		if rows[i]["policy"] != policy || d <= delay || q <= quality {
			t.Errorf("%v: after a delay of %.4f s and a quality of %.4f", rows[i], delay, quality)
		}
		delay, quality = d, q
	}
	if d := rows[1]["delay"].(float64); d > 1.5 {
		t.Errorf("the adaptive policy has a delay of %.2f s", d)
	}
}

func TestTestsOfVolcanoExist(t *testing.T) {
	for _, figure := range reproduce.Figures("volcano") {
		for _, row := range run(t, "volcano", figure).Rows {
			test := row["test"].(string)
			if test == "" {
				continue // its row says that it is missing
			}
			file, name, _ := strings.Cut(test, " ")
			text, err := os.ReadFile(filepath.Join("../../..", file))
			if err != nil || !strings.Contains(string(text), name) {
				t.Errorf("%s: no test %s (%v)", row["article"], test, err)
			}
		}
	}
}

func TestPageHasEveryItem(t *testing.T) {
	r, err := reproduce.Run(t.Context(), "aladdin", "edges", data, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	page := reproduce.Page([]*reproduce.Result{r})
	for _, want := range []string{"## aladdin", "| here | containers × machines | 1000000000 |", "| paper | with apps and racks | about 300,000 |"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

func TestUnknownNamesAreRejected(t *testing.T) {
	for _, args := range [][2]string{{"omega", ""}, {"wcssi", "figure9"}} {
		_, err := reproduce.Run(t.Context(), args[0], args[1], data, func(string) {})
		if !errors.Is(err, reproduce.ErrUnknown) || !strings.Contains(err.Error(), args[0]) {
			t.Errorf("%v: %v", args, err)
		}
	}
	if _, err := reproduce.Run(t.Context(), "wcssi", "figure2", "no-such-folder", func(string) {}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing data: %v", err)
	}
}
