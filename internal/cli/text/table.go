package text

import (
	"cmp"
	"strings"
)

// Column is one column of a Table.
type Column struct {
	Name  string
	Right bool // numbers
	// Flexible columns are shortened, widest first, if the table is too wide.
	Flexible bool
	// Least is the minimum width of a flexible column; 0 means 8.
	MinWidth int
	// Optional columns are omitted, highest number first, if shortening is not enough; 0 means never.
	Optional int
	// Fit shortens a cell; nil means cut it.
	Fit func(cell string, width int) string
}

// Cell is a text with a tone.
type Cell struct {
	Text string
	Tone Tone
}

// Table has rows of cells under columns.
type Table struct {
	Columns []Column
	Rows    [][]Cell
	// Bare omits the header.
	Bare bool
}

// Row appends a row of plain cells.
func (t *Table) Row(cells ...string) {
	row := make([]Cell, len(cells))
	for i, c := range cells {
		row[i] = Cell{Text: c}
	}
	t.Rows = append(t.Rows, row)
}

// gap separates two columns.
const gap = "  "

// least is the default minimum width of a flexible column.
const least = 8

// Lines lays out the table in at most width cells; 0 means no limit. It omits empty columns.
func (t *Table) Lines(width int, style Style) []string {
	shown, widths := t.layout(width)
	lines := make([]string, 0, len(t.Rows)+1)
	if !t.Bare {
		header := make([]Cell, len(t.Columns))
		for i, c := range t.Columns {
			header[i] = Cell{Text: c.Name, Tone: Faint}
		}
		lines = append(lines, t.line(header, shown, widths, style))
	}
	for _, row := range t.Rows {
		lines = append(lines, t.line(row, shown, widths, style))
	}
	return lines
}

// layout chooses the columns and their widths.
func (t *Table) layout(width int) (shown []int, widths []int) {
	widths = make([]int, len(t.Columns))
	for i, c := range t.Columns {
		filled := false
		for _, row := range t.Rows {
			widths[i] = max(widths[i], Width(row[i].Text))
			filled = filled || row[i].Text != ""
		}
		if !t.Bare {
			widths[i] = max(widths[i], Width(c.Name))
		}
		if filled || len(t.Rows) == 0 {
			shown = append(shown, i)
		}
	}
	if width <= 0 {
		return shown, widths
	}
	for {
		if t.shrink(shown, widths, width) {
			return shown, widths
		}
		drop := -1
		for k, i := range shown {
			if t.Columns[i].Optional > 0 && (drop < 0 || t.Columns[i].Optional > t.Columns[shown[drop]].Optional) {
				drop = k
			}
		}
		if drop < 0 {
			return shown, widths
		}
		shown = append(shown[:drop:drop], shown[drop+1:]...)
	}
}

// shrink narrows the flexible columns until the table fits, and reports whether it does. If it does not, the widths
// stay unchanged.
func (t *Table) shrink(shown, widths []int, width int) bool {
	total := (len(shown) - 1) * len(gap)
	narrow := append([]int(nil), widths...)
	for _, i := range shown {
		total += widths[i]
	}
	for total > width {
		widest := -1
		for _, i := range shown {
			if c := &t.Columns[i]; c.Flexible && narrow[i] > cmp.Or(c.MinWidth, least) &&
				(widest < 0 || narrow[i] > narrow[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		narrow[widest]--
		total--
	}
	copy(widths, narrow)
	return true
}

func (t *Table) line(row []Cell, shown, widths []int, style Style) string {
	var b strings.Builder
	for k, i := range shown {
		if k > 0 {
			b.WriteString(gap)
		}
		cell := row[i].Text
		if Width(cell) > widths[i] {
			if fit := t.Columns[i].Fit; fit != nil {
				cell = fit(cell, widths[i])
			} else {
				cell = Cut(cell, widths[i])
			}
		}
		// Padding stays unpainted, so that only the text is coloured.
		fill := strings.Repeat(" ", max(widths[i]-Width(cell), 0))
		cell = style.Paint(row[i].Tone, cell)
		if t.Columns[i].Right {
			cell = fill + cell
		} else {
			cell += fill
		}
		b.WriteString(cell)
	}
	return strings.TrimRight(b.String(), " ")
}
