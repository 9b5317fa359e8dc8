package lab

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/base/chart"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/lab/reproduce"
)

// reproduceOptions are the flags of reproduce.
type reproduceOptions struct {
	data, page string
	output     command.Choice
}

func (a app) reproduceCommand() *cobra.Command {
	o := &reproduceOptions{output: command.NewChoice("table", "table", "json", "svg")}
	c := &cobra.Command{
		Use:   "reproduce PAPER [FIGURE]",
		Short: "Compute the tables and figures of the papers, next to the papers' own numbers",
		Long: "Computes a paper's tables and figures and prints them with the paper's numbers and the reason for each\n" +
			"difference. If a paper's data is not public, the note says which data replaces it. The item audit lists the parts\n" +
			"of the paper, with a test or command for each, or the reason why it is missing.\n\n" +
			"Papers: skypilot, wcssi, parsync, aladdin, volcano; `all` computes every paper. With --page it writes all items\n" +
			"as a page; `make reproduce` writes docs/reproduction.md.",
		Example: "  tradewind-lab reproduce parsync\n" +
			"  tradewind-lab reproduce wcssi figure6 -o svg > figure6.svg\n" +
			"  tradewind-lab reproduce all --page docs/reproduction.md",
		Args: command.Args(1, 2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return reproduce.Figures(args[0]), cobra.ShellCompDirectiveNoFileComp
			}
			return append(reproduce.Papers(), "all"), cobra.ShellCompDirectiveNoFileComp
		},
	}
	f := c.Flags()
	f.StringVar(&o.data, "data", "../shared/data", "folder of the public data, as its README.md describes it")
	f.StringVar(&o.page, "page", "", "write the items to this Markdown file instead of printing them")
	f.VarP(&o.output, "output", "o", "output format")
	_ = c.MarkFlagDirname("data")
	command.CompleteChoice(c, "output", &o.output)
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		return a.reproduce(ctx, o, args)
	}
	return c
}

func (a app) reproduce(ctx context.Context, o *reproduceOptions, args []string) error {
	names, figure := args[:1], ""
	if len(args) > 1 {
		figure = args[1]
	}
	if args[0] == "all" {
		if names = reproduce.Papers(); figure != "" {
			return command.BadInput("", "name the paper of %s: %s", figure, "tradewind-lab reproduce PAPER FIGURE")
		}
	}
	var results []*reproduce.Result
	for _, name := range names {
		r, err := reproduce.Run(ctx, name, figure, o.data, func(id string) { a.Tell("%s %s", name, id) })
		if errors.Is(err, reproduce.ErrUnknown) {
			return command.BadInput("", "%v", err)
		}
		if errors.Is(err, os.ErrNotExist) {
			return command.Because(err, command.ExitBadInput, "--data names the folder of the public data", "%v", err)
		}
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	switch {
	case o.page != "":
		return os.WriteFile(o.page, []byte(reproduce.Page(results)), 0o644) //nolint:gosec // a public page
	case o.output.Value == "svg":
		return a.drawReproduction(results)
	case o.output.JSON() && len(results) == 1:
		return a.PrintJSON(results[0])
	case o.output.JSON():
		return a.PrintJSON(map[string]any{"papers": results})
	}
	return a.printReproduction(results)
}

func (a app) drawReproduction(results []*reproduce.Result) error {
	var panels []chart.Panel
	for _, r := range results {
		for i := range r.Items {
			panels = append(panels, r.Items[i].Panels...)
		}
	}
	if len(panels) == 0 {
		return command.BadInput("print it with -o table or -o json", "this item has no figure to draw")
	}
	return chart.SVG(a.Out, panels...)
}

func (a app) printReproduction(results []*reproduce.Result) error {
	for _, r := range results {
		if err := a.Printf("%s: %s\n", r.Paper, r.Title); err != nil {
			return err
		}
		for i := range r.Items {
			item := &r.Items[i]
			t := &text.Table{Columns: []text.Column{{Name: "FROM"}}}
			for _, c := range item.Columns {
				t.Columns = append(t.Columns, text.Column{Name: c, Flexible: true})
			}
			for _, rows := range []struct {
				of   string
				rows []reproduce.Row
			}{{"paper", item.PaperRows}, {"here", item.Rows}} {
				for _, row := range rows.rows {
					cells := []string{rows.of}
					for _, c := range item.Columns {
						cells = append(cells, reproduce.Cell(row[c]))
					}
					t.Row(cells...)
				}
			}
			if err := a.Printf("\n%s: %s\n", item.ID, item.Title); err != nil {
				return err
			}
			if err := a.PrintTable(t); err != nil {
				return err
			}
			if err := a.PrintLines([]string{item.Note}); err != nil {
				return err
			}
		}
	}
	return nil
}
