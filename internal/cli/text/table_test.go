package text

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func offers() *Table {
	t := &Table{Columns: []Column{
		{Name: "TASK", Flexible: true}, {Name: "WHERE", Flexible: true, MinWidth: 19, Optional: 1, Fit: Place}, {Name: "NOTE", Optional: 3}, {Name: "USD", Right: true, Optional: 2},
	}}
	t.Row("train", "aws/us-east-1/use1-az1/p3.2xlarge/spot", "", "12.50")
	t.Row("a-task-with-a-long-name", "gcp/us-central1/us-central1-a/n1-standard-8/spot", "", "3.00")
	return t
}

func TestTableFitsWidth(t *testing.T) {
	for width, want := range map[int]string{
		0: `
TASK                     WHERE                                               USD
train                    aws/us-east-1/use1-az1/p3.2xlarge/spot            12.50
a-task-with-a-long-name  gcp/us-central1/us-central1-a/n1-standard-8/spot   3.00`,
		70: `
TASK                     WHERE                                     USD
train                    aws/us-east-1/use1-az1/p3.2xlarge/spot  12.50
a-task-with-a-long-name  gcp/us-central1-a/n1-standard-8/spot     3.00`,
		40: `
TASK          WHERE                  USD
train         aws/p3.2xlarge/spot  12.50
a-task-with…  gcp/n1-standard-8/…   3.00`,
		32: `
TASK         WHERE
train        aws/p3.2xlarge/spot
a-task-wit…  gcp/n1-standard-8/…`,
		20: `
TASK
train
a-task-with-a-long-…`,
	} {
		got := "\n" + strings.Join(offers().Lines(width, Style{}), "\n")
		if got != want {
			t.Errorf("in %d cells:%s\nwant:%s", width, got, want)
		}
	}
}

func TestTableLinesNeverExceedWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := &Table{Columns: []Column{{Name: "A", Flexible: true}, {Name: "B", Optional: 2}, {Name: "C", Right: true, Optional: 1}}}
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			cell := rapid.StringMatching(`[a-z界 ]{0,30}`)
			table.Row(cell.Draw(t, "a"), cell.Draw(t, "b"), cell.Draw(t, "c"))
		}
		width := rapid.IntRange(8, 80).Draw(t, "width")
		for _, line := range table.Lines(width, NewStyle(true)) {
			if Width(line) > width {
				t.Fatalf("%q is wider than %d", line, width)
			}
		}
	})
}

func TestPaintKeepsWidths(t *testing.T) {
	table := offers()
	for _, row := range table.Rows {
		row[1].Tone = Good
	}
	plain, painted := table.Lines(60, Style{}), table.Lines(60, NewStyle(true))
	for i := range plain {
		if Width(plain[i]) != Width(painted[i]) {
			t.Errorf("%q is not as wide as %q", painted[i], plain[i])
		}
	}
}

func TestBareTableHasNoHeader(t *testing.T) {
	table := offers()
	table.Bare = true
	if got := table.Lines(0, Style{}); len(got) != 2 || slices.Contains(got, "TASK") {
		t.Errorf("got %q", got)
	}
}
