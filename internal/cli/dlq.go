package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// maxDeadLetters is the maximum number of dead letters in one API response.
const maxDeadLetters = 1000

func (a *app) dlqCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "dlq",
		Short: "List and redrive dead letters",
		Long: "The broker consists of functions that handle events. An event that a function cannot handle after\n" +
			"several tries becomes a dead letter, with the reason. To redrive a dead letter means to deliver it\n" +
			"again, as if for the first time.",
		Example: "  tradewind dlq list\n  tradewind dlq show ID\n  tradewind dlq redrive ID\n" +
			"  tradewind dlq redrive --all --queue provision",
	}
	command.Group(c)
	c.AddCommand(a.dlqListCommand(), a.dlqShowCommand(), a.dlqRedriveCommand())
	return c
}

// functionFlag adds --queue and completes it with the names of the functions.
func functionFlag(c *cobra.Command, queue *string) {
	c.Flags().StringVar(queue, "queue", "", "only dead letters of this function")
	// It fails only for a missing flag.
	_ = c.RegisterFlagCompletionFunc("queue",
		cobra.FixedCompletions(events.Functions(), cobra.ShellCompDirectiveNoFileComp))
}

func (a *app) dlqListCommand() *cobra.Command {
	var state, queue string
	limit := 100
	c := &cobra.Command{
		Use: "list", Short: "List dead letters, oldest first",
		Long: "Lists dead letters, oldest first, with the function that could not handle each and the reason.",
		Example: "  tradewind dlq list\n  tradewind dlq list --queue provision\n" +
			"  tradewind dlq list -o json | jq -r '.deadLetters[].id'",
		Args: command.Args(0, 0),
	}
	a.brokerFlags(c, &state)
	functionFlag(c, &queue)
	c.Flags().IntVar(&limit, "limit", limit, fmt.Sprintf("number of dead letters to list, at most %d", maxDeadLetters))
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if limit < 1 || limit > maxDeadLetters {
			return command.BadInput("", "--limit %d is not between 1 and %d", limit, maxDeadLetters)
		}
		return a.reading(c, state, func(ctx context.Context, s *conn) error {
			return a.listLetters(ctx, s, queue, limit, output)
		})
	}
	return c
}

func (a *app) listLetters(ctx context.Context, s *conn, queue string, limit int, output *command.Choice) error {
	list, err := s.DeadLetters(ctx, queue, limit)
	if err != nil {
		return err
	}
	if output.JSON() {
		return a.PrintJSON(list)
	}
	if len(list.DeadLetters) == 0 {
		a.Tell("there are no dead letters")
		return nil
	}
	if err := a.PrintTable(letterTable(list.DeadLetters)); err != nil {
		return err
	}
	if len(list.DeadLetters) == limit && limit < maxDeadLetters {
		a.Tell("there may be more: --limit %d shows them", maxDeadLetters)
	}
	return nil
}

func letterTable(letters []apitypes.DeadLetter) *text.Table {
	t := &text.Table{Columns: []text.Column{
		{Name: "ID", Flexible: true}, {Name: "QUEUE"}, {Name: "TYPE"}, {Name: "TRIES", Right: true},
		{Name: "GIVEN UP", Optional: 1}, {Name: "REASON", Flexible: true},
	}}
	for _, l := range letters {
		t.Row(text.Clean(l.ID), letterQueue(l), text.Clean(shortType(l.Type)), fmt.Sprint(l.Attempts), moment(l.At),
			text.Clean(l.Reason))
	}
	return t
}

// letterQueue returns the name of a letter's queue, or a dash.
func letterQueue(l apitypes.DeadLetter) string {
	if l.Queue == "" {
		return "-"
	}
	return text.Clean(l.Queue)
}

// shortType returns an event's type without the common prefix.
func shortType(t string) string {
	return strings.TrimPrefix(t, "tradewind.")
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

func (a *app) dlqShowCommand() *cobra.Command {
	var state, queue string
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show a dead letter",
		Long: "Shows a dead letter: the reason and the event itself. If several functions could not handle the event,\n" +
			"it is shown once for each; --queue selects one function.",
		Example: "  tradewind dlq show 01J8\n  tradewind dlq show 01J8 -o json | jq '.deadLetters[0].event.data'",
		Args:    command.Args(1, 1),
	}
	a.brokerFlags(c, &state)
	functionFlag(c, &queue)
	output := command.OutputFlag(c)
	c.ValidArgsFunction = a.completeLetter(&state, &queue, 1)
	c.RunE = func(c *cobra.Command, given []string) error {
		return a.reading(c, state, func(ctx context.Context, s *conn) error {
			return a.showLetter(ctx, s, queue, given[0], output)
		})
	}
	return c
}

func (a *app) showLetter(ctx context.Context, s *conn, queue, id string, output *command.Choice) error {
	list, err := s.DeadLetters(ctx, queue, maxDeadLetters)
	if err != nil {
		return err
	}
	read := len(list.DeadLetters)
	list.DeadLetters = slices.DeleteFunc(list.DeadLetters, func(l apitypes.DeadLetter) bool { return l.ID != id })
	switch {
	case len(list.DeadLetters) > 0:
	case read == maxDeadLetters:
		return command.BadInput("--queue searches only one function's dead letters",
			"none of the %d oldest dead letters has ID %q", read, id)
	default:
		return errNoDeadLetter(id)
	}
	if output.JSON() {
		return a.PrintJSON(list)
	}
	for i, l := range list.DeadLetters {
		if i > 0 {
			if err := a.Printf("\n"); err != nil {
				return err
			}
		}
		if err := a.Printf("%s", describeLetter(l)); err != nil {
			return err
		}
	}
	return nil
}

func errNoDeadLetter(id string) error {
	return command.BadInput("`tradewind dlq list` lists them", "unknown dead letter %q", id)
}

// describeLetter renders a letter for a person, with its event as it would be delivered again.
func describeLetter(l apitypes.DeadLetter) string {
	var b strings.Builder
	for _, row := range [][2]string{
		{"ID", l.ID}, {"Type", l.Type}, {"Group", l.Group}, {"Queue", letterQueue(l)}, {"Given up", moment(l.At)},
		{"Tries", fmt.Sprint(l.Attempts)}, {"Reason", l.Reason},
	} {
		if row[1] != "" {
			fmt.Fprintf(&b, "%-10s%s\n", row[0], text.Clean(row[1]))
		}
	}
	var event bytes.Buffer
	if len(l.Event) > 0 && json.Indent(&event, l.Event, "", "  ") == nil {
		fmt.Fprintf(&b, "Event\n%s\n", command.Lines(event.String()))
	}
	return b.String()
}

func (a *app) dlqRedriveCommand() *cobra.Command {
	var state, queue string
	var all bool
	c := &cobra.Command{
		Use:   "redrive [ID]...",
		Short: "Deliver dead letters again",
		Long: "Delivers the dead letters with the given IDs again, as if for the first time; with --all, all dead\n" +
			"letters, or with --queue all of one function. Fix the cause of the failure first.",
		Example: "  tradewind dlq redrive 01J8 01J9\n  tradewind dlq redrive --all --queue provision\n" +
			"  tradewind dlq redrive --all",
	}
	a.brokerFlags(c, &state)
	functionFlag(c, &queue)
	c.Flags().BoolVar(&all, "all", false, "all dead letters, or all of the function in --queue")
	output := command.OutputFlag(c)
	c.ValidArgsFunction = a.completeLetter(&state, &queue, maxDeadLetters)
	c.Args = func(_ *cobra.Command, given []string) error {
		switch {
		case all && len(given) > 0:
			return command.BadInput(
				"leave out one of them",
				"--all selects every dead letter, and %q names one",
				given[0],
			)
		case !all && len(given) == 0:
			return command.BadInput("`tradewind dlq list` lists the IDs; --all delivers every dead letter again",
				"no ID given")
		case len(given) > maxDeadLetters:
			return command.BadInput(
				"--all --queue NAME delivers all of a function again",
				"%d IDs are more than the maximum %d",
				len(given),
				maxDeadLetters,
			)
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, given []string) error {
		return a.reading(c, state, func(ctx context.Context, s *conn) error {
			return a.redrive(ctx, s, queue, given, output)
		})
	}
	return c
}

func (a *app) redrive(ctx context.Context, s *conn, queue string, ids []string, output *command.Choice) error {
	done, err := s.Redrive(ctx, apitypes.Redrive{Queue: queue, IDs: ids})
	if err != nil {
		return err
	}
	if output.JSON() {
		err = a.PrintJSON(done)
	} else {
		err = a.Printf("%s again\n", text.Count(done.Redriven, "event")+" to be delivered")
	}
	switch {
	case err != nil:
		return err
	case done.Redriven == 0 && len(ids) == 1:
		return errNoDeadLetter(ids[0])
	case done.Redriven < len(ids):
		return command.BadInput("`tradewind dlq list` lists them",
			"%d of the %d IDs are not dead letters, or no function handles their events any more",
			len(ids)-done.Redriven, len(ids))
	}
	return nil
}

// completeLetter completes up to N IDs of dead letters (N = most).
func (a *app) completeLetter(state, queue *string, most int) cobra.CompletionFunc {
	return a.completing(state,
		func(ctx context.Context, s *conn, given []string, typed string) ([]string, cobra.ShellCompDirective) {
			const none = cobra.ShellCompDirectiveNoFileComp
			list, err := s.DeadLetters(ctx, *queue, maxDeadLetters)
			if err != nil {
				return nil, none
			}
			var words []string
			for _, l := range list.DeadLetters {
				if strings.HasPrefix(l.ID, typed) && !slices.Contains(given, l.ID) {
					words = append(words,
						cobra.CompletionWithDesc(l.ID, strings.TrimSpace(l.Queue+" "+shortType(l.Type))))
				}
			}
			return words, none | cobra.ShellCompDirectiveKeepOrder
		}, most)
}
