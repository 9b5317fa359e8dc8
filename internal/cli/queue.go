package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/api"
	"github.com/tradewind-broker/tradewind/pkg/broker"
)

func (a *app) queueCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "queue", Short: "List queues and set their quotas",
		Long:    "Jobs wait in queues; a queue's quota says how many tasks, and how many vCPUs, may hold machines at once.",
		Example: "  tradewind queue list\n  tradewind queue set research --max-running 20 --max-vcpu 256",
	}
	group(c)
	c.AddCommand(a.queueListCommand(), a.queueSetCommand())
	return c
}

func (a *app) queueListCommand() *cobra.Command {
	var state string
	c := &cobra.Command{
		Use: "list", Short: "List queues with their quotas and what is in use",
		Long:    "Lists the queues that were configured or used, with their quotas and what is in use.",
		Example: "  tradewind queue list\n  tradewind queue list -o json",
		Args:    args(0, 0),
	}
	a.stateFlag(c, &state)
	output := outputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, cancel := a.interrupts.context(c.Context())
		defer cancel()
		s, err := a.read(ctx, state)
		if err != nil {
			return err
		}
		return errors.Join(a.listQueues(ctx, s, output), s.Close())
	}
	return c
}

func (a *app) listQueues(ctx context.Context, s *session, output *choice) error {
	list, err := s.Queues(ctx)
	if err != nil {
		return err
	}
	if output.json() {
		return a.printJSON(list)
	}
	if len(list.Queues) == 0 {
		a.tell("no queue was used yet in %s", s.state)
		return nil
	}
	return a.printTable(queueTable(list.Queues...))
}

func queueTable(queues ...broker.Queue) *text.Table {
	t := &text.Table{Columns: []text.Column{
		{Name: "QUEUE", Flexible: true}, {Name: "RUNNING", Right: true}, {Name: "MOST", Right: true}, {Name: "VCPUS", Right: true}, {Name: "MOST", Right: true},
		{Name: "DESCRIPTION", Flexible: true, Optional: 1},
	}}
	for _, q := range queues {
		t.Row(q.Name, fmt.Sprint(q.Running), quota(float64(q.MaxRunning)), text.Number(q.VCPU), quota(q.MaxVCPU), text.Clean(q.Description))
	}
	return t
}

// quota writes a bound, where 0 is none.
func quota(v float64) string {
	if v == 0 {
		return "-"
	}
	return text.Number(v)
}

func (a *app) queueSetCommand() *cobra.Command {
	var state string
	var q api.QueueQuota
	c := &cobra.Command{
		Use: "set NAME", Short: "Create a queue or change its quota",
		Long:    "Creates a queue, or changes the quota of one; a flag that is left out leaves what it is about as it was.\nWhat is in use stays so.",
		Example: "  tradewind queue set research --max-running 20\n  tradewind queue set research --max-vcpu 0   # no limit",
		Args:    args(1, 1),
	}
	a.stateFlag(c, &state)
	f := c.Flags()
	f.IntVar(&q.MaxRunning, "max-running", 0, "tasks that may hold machines at once; 0 is no limit")
	f.Float64Var(&q.MaxVCPU, "max-vcpu", 0, "vCPUs that they may hold; 0 is no limit")
	f.StringVar(&q.Description, "description", "", "for people")
	output := outputFlag(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		ctx, cancel := a.interrupts.context(c.Context())
		defer cancel()
		s, err := a.read(ctx, state)
		if err != nil {
			return err
		}
		return errors.Join(a.setQueue(ctx, s, given[0], q, f.Changed, output), s.Close())
	}
	return c
}

func (a *app) setQueue(ctx context.Context, s *session, name string, q api.QueueQuota, set func(string) bool, output *choice) error {
	list, err := s.Queues(ctx)
	if err != nil {
		return err
	}
	for _, old := range list.Queues {
		if old.Name != name {
			continue
		}
		if !set("max-running") {
			q.MaxRunning = old.MaxRunning
		}
		if !set("max-vcpu") {
			q.MaxVCPU = old.MaxVCPU
		}
		if !set("description") {
			q.Description = old.Description
		}
	}
	queue, err := s.SetQueue(ctx, name, q)
	if err != nil {
		return err
	}
	if output.json() {
		return a.printJSON(queue)
	}
	return a.printTable(queueTable(*queue))
}
