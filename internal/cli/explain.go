package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/planning"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func (a *app) explainCommand() *cobra.Command {
	var state string
	var members bool
	c := &cobra.Command{
		Use:   "explain JOB",
		Short: "Show the history of a job: every plan, attempt, price and reason",
		Long: "Shows what happened to a job, in order of time: every plan, every attempt (one try of a task) with its\n" +
			"cost and outcome, and every place that was refused, with the reason. Then shows for each task why it\n" +
			"runs where it does. Equal entries of several members of an array are one line; --members shows each.\n" +
			"JOB is an ID, the beginning of one, or \"last\".",
		Example: "  tradewind explain last\n  tradewind explain train-infer -o json | jq '.entries[] | select(.kind " +
			"== \"preempted\")'",
		Args: command.Args(1, 1), ValidArgsFunction: a.completeJob(&state, false),
	}
	a.brokerFlags(c, &state)
	c.Flags().BoolVar(&members, "members", false, "show each member of an array in a separate row")
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		return a.reading(c, state, func(ctx context.Context, s *conn) error {
			return a.explain(ctx, s, given[0], members, output)
		})
	}
	return c
}

func (a *app) explain(ctx context.Context, s *conn, arg string, members bool, output *command.Choice) error {
	id, err := a.job(ctx, s, arg)
	if err != nil {
		return err
	}
	story, err := s.Explain(ctx, id)
	if err != nil {
		return err
	}
	s.markStopped(&story.Job)
	if output.JSON() {
		return a.PrintJSON(story)
	}
	if story.Job.NoBroker {
		a.tellNoBroker(s)
	}
	if !members {
		story.Entries, story.Choices = foldedEntries(story.Entries), foldedChoices(story.Choices)
	}
	return a.printHistory(story)
}

// foldedEntries merges successive entries of the same kind about members of the same array.
func foldedEntries(entries []apitypes.Entry) (out []apitypes.Entry) {
	of := func(e *apitypes.Entry) string {
		if array, _, ok := text.Member(e.Task); ok {
			return array + " " + e.Kind
		}
		return ""
	}
	for i := 0; i < len(entries); {
		k := i + 1
		for k < len(entries) && of(&entries[i]) != "" && of(&entries[k]) == of(&entries[i]) {
			k++
		}
		e := entries[i]
		if array, _, _ := text.Member(e.Task); k > i+1 {
			e.Text = fmt.Sprintf("%s: %s", text.Count(k-i, "member"), e.Task+" "+e.Text)
			e.Task = array
		}
		out, i = append(out, e), k
	}
	return out
}

// foldedChoices merges the choices of the members of an array that run on the same offer.
func foldedChoices(choices []apitypes.TaskWhy) (out []apitypes.TaskWhy) {
	names := make([]string, len(choices))
	for i := range choices {
		names[i] = choices[i].Task
	}
	next := 0
	for _, run := range text.MemberRuns(names) {
		out = append(out, choices[next:run[0]]...)
		for i := run[0]; i < run[1]; {
			k := i + 1
			for k < run[1] && choices[k].Chosen == choices[i].Chosen {
				k++
			}
			one := choices[i]
			if k > i+1 {
				one.Task = fmt.Sprintf("%s  %s", text.Array(names[i:k]), text.Count(k-i, "member"))
			}
			for _, w := range choices[i+1 : k] {
				one.USD += w.USD
			}
			out, i = append(out, one), k
		}
		next = run[1]
	}
	return append(out, choices[next:]...)
}

// kindTones are the tones of entries that stand out.
var kindTones = map[string]text.Tone{
	"planned": text.Active, "refused": text.Warn, "blocked": text.Warn, "preempted": text.Warn, "lost": text.Warn,
	"budget": text.Warn, "failed": text.Bad, "succeeded": text.Good, "waiting": text.Warn,
}

func (a *app) printHistory(s *apitypes.Story) error {
	style := a.Style(a.Out)
	label := ""
	if s.Job.Simulated {
		label = style.Paint(text.Warn, text.Simulated(s.Job.TimeScale)) + "\n"
	}
	if err := a.Printf("%s  %s\n%s\n", style.Paint(text.Strong, s.Job.ID), s.Job.StateText(), label); err != nil {
		return err
	}
	for _, e := range s.Entries {
		if err := a.entry(e, s.Job.Submitted, style); err != nil {
			return err
		}
	}
	if kept := keptText(&s.Job); kept != "" {
		if err := a.Printf("\n%s\n", kept); err != nil {
			return err
		}
	}
	if len(s.Choices) == 0 {
		return nil
	}
	if err := a.Printf("\n%s\n", style.Paint(text.Strong, "Why there")); err != nil {
		return err
	}
	t := text.Table{Columns: []text.Column{
		{Name: "TASK", Flexible: true}, {Name: "CHOSEN, AND NEXT BEST", Flexible: true, Fit: text.Place},
		{Name: "USD", Right: true}, {Name: "EXPECTED", Right: true, Optional: 1}, {Name: "WOULD ADD", Right: true},
	}}
	for _, w := range s.Choices {
		t.Rows = append(t.Rows, choiceRows(w, s.Job.Objective)...)
	}
	return a.PrintTable(&t)
}

// entry prints one entry, indented below its time and task so that long reasons stay readable.
func (a *app) entry(e apitypes.Entry, since time.Time, style text.Style) error {
	at := text.Clock(e.At.Sub(since))
	kind := fmt.Sprintf("%-9s", e.Kind)
	what := text.Gist(e.Text)
	if e.Task != "" {
		what = text.Clean(e.Task) + ": " + what
	}
	indent := text.Width(at) + 2 + text.Width(kind) + 2
	for i, line := range text.Wrap(what, command.Width(a.Out)-indent) {
		head := fmt.Sprintf("%*s", indent, "")
		if i == 0 {
			head = style.Paint(text.Faint, at) + "  " + style.Paint(kindTones[e.Kind], kind) + "  "
		}
		if err := a.Printf("%s%s\n", head, line); err != nil {
			return err
		}
	}
	return nil
}

func choiceRows(w apitypes.TaskWhy, objective string) [][]text.Cell {
	rows := [][]text.Cell{{
		{Text: text.Clean(w.Task)}, {Text: text.Clean(w.Chosen), Tone: text.Good}, {Text: text.USD(w.USD)},
		{Text: text.Span(text.Hours(w.Hours))}, {},
	}}
	for _, r := range w.Runners {
		rows = append(rows, []text.Cell{
			{}, {Text: text.Clean(r.ID), Tone: text.Faint}, {Text: text.USD(r.USD)},
			{Text: text.Span(text.Hours(r.Hours))}, {Text: planning.Adds(r, objective)},
		})
	}
	return rows
}
