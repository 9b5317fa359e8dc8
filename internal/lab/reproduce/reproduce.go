// Package reproduce computes the tables and figures of the papers that Tradewind is based on, next to the papers'
// own numbers. Every item uses public data or generated data, says which, and names the reason for a difference.
package reproduce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/chart"
)

// ErrUnknown means that there is no such paper or figure.
var ErrUnknown = errors.New("unknown")

// Row is one row of a table, by column.
type Row map[string]any

// Item is one table or figure.
type Item struct {
	ID      string   `json:"id"`
	Title   string   `json:"title"`
	Columns []string `json:"columns"`
	Rows    []Row    `json:"rows"`
	// PaperRows are the paper's numbers, as far as its text has them, with the same columns.
	PaperRows []Row `json:"paperRows"`
	// Note names the data, and why the numbers differ.
	Note   string        `json:"note"`
	Panels []chart.Panel `json:"-"`
}

// Result is what `reproduce PAPER -o json` prints.
type Result struct {
	Paper string `json:"paper"`
	Title string `json:"title"`
	Items []Item `json:"items"`
	// Missing are the paper's experiments that are not reproduced, for people.
	Missing string `json:"missing,omitempty"`
}

// figure computes one item.
type figure struct {
	id  string
	run func(ctx context.Context, s *source) (Item, error)
}

// paper is a paper with the items that are reproduced, in its order.
type paper struct {
	name, title string
	figures     []figure
	missing     string // of the paper's tables and figures
}

func papers() []paper {
	return []paper{
		{"skypilot", "From the intercloud broker to SkyPilot (Yang et al., NSDI '23)", []figure{
			{"table1", choices}, {"figure2", preemptions}, {"attempts", attempts}, {"applications", applications},
			{"audit", audit(skypilotParts())}},
			"the evaluation's own applications, costs and times: the text of the paper that this page follows ends " +
				"before it"},
		{"wcssi", "Workflow cost saver based on spot instances (Liao et al.)", []figure{
			{"figure2", relativePrices}, {"figure5", priceByDeadline}, {"figure6", relativeCosts}, {"table4",
				beatsAIB}, {"audit", audit(wcssiParts())}},
			""},
		{"parsync", "Scaling large production clusters with partitioned synchronization (Feng et al., ATC '21)",
			[]figure{
				{"rate", byRate.run}, {"gap", byGap.run}, {"variance", byVariance.run},
				{"partitions", byPartitions.run}, {"policies", policies}, {"classes", classes},
				{"exclusive", exclusive}, {"audit", audit(parsyncParts())}},
			"the two resource managers: the text of the paper names them in the setting of the wind tunnel, but does " +
				"not say what they do"},
		{"aladdin", "Aladdin: optimized maximum flow management for shared production clusters (Wu et al., IPDPS '20)",
			[]figure{
				{"placement", comparison}, {"edges", networkSize}, {"latency", ablation},
				{"audit", audit(aladdinParts())}},
			"Medea as an integer program"},
		{"volcano", "Volcano: containers and batch computing (Huawei Cloud)", []figure{
			{"scenarios", scenarios}, {"actions", actions}, {"states", states},
			{"audit", audit(volcanoParts())}},
			""},
	}
}

// Papers returns the names of the papers.
func Papers() (names []string) {
	for _, p := range papers() {
		names = append(names, p.name)
	}
	return names
}

// Figures returns the IDs of a paper's items.
func Figures(name string) (ids []string) {
	for _, p := range papers() {
		for _, f := range p.figures {
			if p.name == name {
				ids = append(ids, f.id)
			}
		}
	}
	return ids
}

// Run computes the items of a paper, or only one of them. data is the folder of the public data. tell is called
// before each item. Errors wrap ErrUnknown for an unknown paper or figure.
func Run(ctx context.Context, name, only, data string, tell func(id string)) (*Result, error) {
	at := slices.IndexFunc(papers(), func(p paper) bool { return p.name == name })
	if at < 0 {
		return nil, fmt.Errorf("%w paper %q; the papers are %s", ErrUnknown, name, strings.Join(Papers(), ", "))
	}
	p := papers()[at]
	s := newSource(data)
	r := &Result{Paper: p.name, Title: p.title, Items: []Item{}, Missing: p.missing}
	for _, f := range p.figures {
		if only != "" && f.id != only {
			continue
		}
		tell(f.id)
		item, err := f.run(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", p.name, f.id, err)
		}
		if item.ID = f.id; item.PaperRows == nil {
			item.PaperRows = []Row{}
		}
		r.Items = append(r.Items, item)
	}
	if len(r.Items) == 0 {
		return nil, fmt.Errorf("%w figure %q of %s; its items are %s", ErrUnknown, only, name,
			strings.Join(Figures(name), ", "))
	}
	return r, ctx.Err()
}

// Cell formats a value of a row: numbers with at most four significant digits, empty if the row lacks it.
func Cell(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.4f", v), "0"), ".")
	default:
		return fmt.Sprint(v)
	}
}

// Page writes the results as the page docs/reproduction.md.
func Page(results []*Result) string {
	var b strings.Builder
	b.WriteString("# The papers, reproduced\n\nEach table has the paper's numbers, as far as its text has them, " +
		"and those that this program computes. `make reproduce` writes this page; `tradewind-lab reproduce PAPER " +
		"FIGURE` computes one item, and `-o svg` draws it.\n")
	for _, r := range results {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", r.Paper, r.Title)
		for i := range r.Items {
			r.Items[i].page(&b)
		}
		if r.Missing != "" {
			fmt.Fprintf(&b, "\nNot reproduced: %s.\n", r.Missing)
		}
	}
	return b.String()
}

func (i *Item) page(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s: %s\n\n|  | %s |\n|%s\n", i.ID, i.Title, strings.Join(i.Columns, " | "),
		strings.Repeat(" --- |", 1+len(i.Columns)))
	line := func(of string, row Row) {
		fmt.Fprintf(b, "| %s |", of)
		for _, c := range i.Columns {
			fmt.Fprintf(b, " %s |", Cell(row[c]))
		}
		b.WriteString("\n")
	}
	for _, row := range i.PaperRows {
		line("paper", row)
	}
	for _, row := range i.Rows {
		line("here", row)
	}
	fmt.Fprintf(b, "\n%s\n", i.Note)
}
