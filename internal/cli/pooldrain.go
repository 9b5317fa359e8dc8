package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func (a *app) poolDrainCommand() *cobra.Command {
	var state string
	var now, undo bool
	c := &cobra.Command{
		Use:   "drain POOL [MACHINE]",
		Short: "Stop placing tasks on a pool or a machine, or empty it",
		Long: "Stops placing tasks on a pool, or on one of its machines. Running tasks continue to their end; with\n" +
			"--now they save their work, stop, and resume elsewhere. With --undo, the pool or machine accepts tasks\n" +
			"again.",
		Example: "  tradewind pool drain lab m1\n  tradewind pool drain lab --now\n" +
			"  tradewind pool drain lab m1 --undo",
		Args:              command.Args(1, 2),
		ValidArgsFunction: a.completePool(&state, true),
	}
	a.brokerFlags(c, &state)
	c.Flags().BoolVar(&now, "now", false, "running tasks save their work and resume elsewhere")
	c.Flags().BoolVar(&undo, "undo", false, "accept tasks again")
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		how := apitypes.DrainSoon
		switch {
		case now && undo:
			return command.BadInput("leave out one of them", "--now and --undo exclude each other")
		case now:
			how = apitypes.DrainNow
		case undo:
			how = apitypes.DrainUndo
		}
		return a.reading(c, state, func(ctx context.Context, s *conn) error {
			return a.drainPool(ctx, s, given, how, output)
		})
	}
	return c
}

// machineArg returns the machine argument; empty means all machines.
func machineArg(given []string) string {
	if len(given) < 2 {
		return ""
	}
	return given[1]
}

func (a *app) drainPool(
	ctx context.Context,
	s *conn,
	given []string,
	how apitypes.Drain,
	output *command.Choice,
) error {
	pool, err := s.Drain(ctx, given[0], machineArg(given), how)
	if err != nil {
		return err
	}
	if output.JSON() {
		return a.PrintJSON(pool)
	}
	list, err := s.Pools(ctx)
	if err != nil {
		return err
	}
	return a.PrintTable(poolTable(list.Now, *pool))
}

// PoolRemoved is the output of `pool remove -o json`.
type PoolRemoved struct {
	Pool     string   `json:"pool"`
	Machines []string `json:"machines"`          // the removed machines
	Removed  bool     `json:"removed,omitempty"` // whether the pool was removed, too
}

func (a *app) poolRemoveCommand() *cobra.Command {
	var state string
	c := &cobra.Command{
		Use:   "remove POOL [MACHINE]",
		Short: "Remove a pool, or a machine from it",
		Long: "Removes a machine from a pool, or the pool with all its machines. A machine that still runs tasks is\n" +
			"not removed: drain it first. The token of a removed machine becomes invalid: to use the machine again,\n" +
			"run `tradewind pool join` on it with a new join token.",
		Example: "  tradewind pool remove lab m1\n  tradewind pool drain lab --now && tradewind pool " +
			"remove lab",
		Args:              command.Args(1, 2),
		ValidArgsFunction: a.completePool(&state, true),
	}
	a.brokerFlags(c, &state)
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		return a.reading(c, state, func(ctx context.Context, s *conn) error {
			return a.removePool(ctx, s, given, output)
		})
	}
	return c
}

func (a *app) removePool(ctx context.Context, s *conn, given []string, output *command.Choice) error {
	list, err := s.Pools(ctx)
	if err != nil {
		return err
	}
	pool, err := findPool(list, given[0])
	if err != nil {
		return err
	}
	done := PoolRemoved{Pool: pool.Name, Machines: []string{}}
	machines := []string{machineArg(given)}
	if machines[0] == "" {
		machines = machines[:0]
		for i := range pool.Machines {
			machines = append(machines, pool.Machines[i].ID)
		}
		if err := busyMachines(pool); err != nil {
			return err
		}
	}
	for _, m := range machines {
		if err := s.RemoveMachine(ctx, pool.Name, m); err != nil {
			return err
		}
		done.Machines = append(done.Machines, m)
	}
	if done.Removed = len(given) == 1; done.Removed {
		if err := s.RemovePool(ctx, pool.Name); err != nil {
			return err
		}
	}
	if output.JSON() {
		return a.PrintJSON(done)
	}
	for _, m := range done.Machines {
		a.Tell("removed %s from pool %s", m, pool.Name)
	}
	if done.Removed {
		a.Tell("removed pool %s", pool.Name)
	}
	return nil
}

// busyMachines refuses to remove a pool if some of its machines still run tasks.
func busyMachines(p *apitypes.PoolView) error {
	var busy []string
	for i := range p.Machines {
		if len(p.Machines[i].Tasks) > 0 {
			busy = append(busy, p.Machines[i].ID)
		}
	}
	if len(busy) == 0 {
		return nil
	}
	return command.Failed("`tradewind pool drain "+p.Name+" --now` empties it", "tasks still run on %s",
		strings.Join(busy, ", "))
}

// completePool completes a pool name as the first argument and, if machines, a machine name as the second.
func (a *app) completePool(state *string, machines bool) cobra.CompletionFunc {
	return a.completing(state,
		func(ctx context.Context, s *conn, given []string, typed string) ([]string, cobra.ShellCompDirective) {
			const none = cobra.ShellCompDirectiveNoFileComp
			list, err := s.Pools(ctx)
			if err != nil {
				return nil, none
			}
			var words []string
			add := func(name, about string) {
				if strings.HasPrefix(name, typed) {
					words = append(words, cobra.CompletionWithDesc(name, about))
				}
			}
			for i := range list.Pools {
				p := &list.Pools[i]
				if len(given) == 0 {
					add(p.Name, p.Description)
					continue
				}
				for j := range p.Machines {
					if p.Name == given[0] {
						add(p.Machines[j].ID, p.Machines[j].State)
					}
				}
			}
			return words, none
		}, 1+boolToInt(machines))
}
