package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/broker/session"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
)

// PolicyCommand is the queue policy command.
func PolicyCommand(a *command.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Check a scheduling policy",
		Long: "A scheduling policy is a file with actions and plugins. They decide which waiting task starts first,\n" +
			"and which running tasks must give up machines for others. `tradewind up --policy FILE` uses a policy.\n" +
			"See docs/scheduling.md for its contents.",
		Example: "  tradewind queue policy check policy.yaml",
	}
	command.Group(c)
	c.AddCommand(checkCommand(a))
	return c
}

func checkCommand(a *command.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "Check the policy in a file",
		Long: "Reads a policy as the broker does, and lists the parts that have no effect. Exits with 2 and prints\n" +
			"the line and field if the policy is invalid. - is standard input.",
		Example: "  tradewind queue policy check policy.yaml\n" +
			"  tradewind queue policy check policy.yaml -o json | jq '.idle[].name'",
		Args:              command.Args(1, 1),
		ValidArgsFunction: command.CompleteFile,
	}
	output := command.OutputFlag(c)
	c.RunE = func(_ *cobra.Command, given []string) error { return check(a, given[0], output) }
	return c
}

// PolicyResult is the output of `queue policy check -o json`.
type PolicyResult struct {
	File    string               `json:"file"`
	Actions []string             `json:"actions"`
	Tiers   [][]string           `json:"tiers"` // names of plugins
	Idle    []session.PolicyNote `json:"idle"`  // parts that have no effect
}

func check(a *command.App, path string, output *command.Choice) error {
	name, body, err := a.ReadInput(path)
	if err != nil {
		return err
	}
	p, err := session.ReadPolicy(name, body)
	if err != nil {
		return err
	}
	r := PolicyResult{File: name, Actions: p.Actions, Tiers: make([][]string, len(p.Tiers)),
		Idle: session.PolicyNotes(p)}
	if r.Idle == nil {
		r.Idle = []session.PolicyNote{}
	}
	for i, tier := range p.Tiers {
		r.Tiers[i] = []string{}
		for _, conf := range tier {
			r.Tiers[i] = append(r.Tiers[i], conf.Name)
		}
	}
	if output.JSON() {
		return a.PrintJSON(r)
	}
	if err := a.Printf("%s: actions %s; %s of plugins\n", name, strings.Join(r.Actions, ", "),
		text.Count(len(r.Tiers), "tier")); err != nil || len(r.Idle) == 0 {
		return err
	}
	t := &text.Table{Columns: []text.Column{{Name: "NO EFFECT"}, {Name: "FOR"}, {Name: "BECAUSE", Flexible: true}}}
	for _, n := range r.Idle {
		t.Row(n.Name, n.Where, n.Reason)
	}
	return a.PrintTable(t)
}
