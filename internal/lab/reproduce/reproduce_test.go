package reproduce_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
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

// Each part of a paper that is done, or done in part, names a test or a command that exists. One that is not done has a
// reason.
func TestPartsNameTestsThatExist(t *testing.T) {
	for _, paper := range reproduce.Papers() {
		figures := []string{"audit"}
		if paper == "volcano" { // all of its tables name tests
			figures = reproduce.Figures(paper)
		}
		for _, figure := range figures {
			for _, row := range run(t, paper, figure).Rows {
				test, _ := row["test"].(string)
				if row["state"] != "done" && figure == "audit" && row["note"] == nil || test == "" && row["state"] != "missing" {
					t.Errorf("%s: %v has no test or no reason", paper, row)
				}
				if test != "" && !exists(t, test) {
					t.Errorf("%s: %v: there is no %s", paper, row, test)
				}
			}
		}
	}
}

// exists reports whether a test, page, command of the lab or target of the Makefile exists.
func exists(t *testing.T, test string) bool {
	t.Helper()
	file, name, _ := strings.Cut(test, " ")
	words := strings.Fields(test)
	switch {
	case file == "make":
		file, name = "Makefile", "\n"+name+":"
	case file == "tradewind-lab" && words[1] == "reproduce":
		return slices.Contains(reproduce.Figures(words[2]), words[3])
	case file == "tradewind-lab":
		file, name = "docs/lab.md", "`tradewind-lab "+words[1]+" "+words[2]+"`"
	}
	text, err := os.ReadFile(filepath.Join("../../..", file))
	return err == nil && strings.Contains(string(text), name)
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
