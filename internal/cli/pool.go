package cli

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/base/files"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

func (a *app) poolCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "pool",
		Short: "Lend your own machines to the broker",
		Long: "A pool contains machines that you already have, for example your own servers. A task runs on one of\n" +
			"them if this costs less than buying a machine. A machine is in the pool as long as `tradewind pool\n" +
			"join` runs on it. See docs/scheduling.md.",
		Example: "  tradewind pool add lab --usd-per-hour 0.02 --place aws:us-east-1\n" +
			"  tradewind pool join lab      # on each machine, until Ctrl-C\n" +
			"  tradewind pool list\n  tradewind pool drain lab m1 --now\n  tradewind pool remove lab",
	}
	command.Group(c)
	c.AddCommand(a.poolAddCommand(), a.poolJoinCommand(), a.poolListCommand(), a.poolDrainCommand(),
		a.poolRemoveCommand())
	return c
}

func (a *app) poolListCommand() *cobra.Command {
	var state string
	c := &cobra.Command{
		Use:   "list [POOL]",
		Short: "List pools with their machines and running tasks",
		Long: "Lists pools with their machines: the capacity of each, how much of it is in use, its tasks, and when it\n" +
			"last reported.",
		Example: "  tradewind pool list\n  tradewind pool list lab -o json | jq -r " +
			"'.pools[].machines[].tasks[].job'",
		Args:              command.Args(0, 1),
		ValidArgsFunction: a.completePool(&state, false),
	}
	a.brokerFlags(c, &state)
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		return a.reading(c, state, func(ctx context.Context, s *conn) error {
			return a.listPools(ctx, s, given, output)
		})
	}
	return c
}

func (a *app) listPools(ctx context.Context, s *conn, given []string, output *command.Choice) error {
	list, err := s.Pools(ctx)
	if err != nil {
		return err
	}
	if len(given) > 0 {
		one, err := findPool(list, given[0])
		if err != nil {
			return err
		}
		list.Pools = []apitypes.PoolView{*one}
	}
	if output.JSON() {
		return a.PrintJSON(list)
	}
	if len(list.Pools) == 0 {
		a.Tell("there is no pool yet in %s; `tradewind pool add NAME` creates one", s.state)
		return nil
	}
	return a.PrintTable(poolTable(list.Now, list.Pools...))
}

func findPool(list *apitypes.PoolList, name string) (*apitypes.PoolView, error) {
	for i := range list.Pools {
		if list.Pools[i].Name == name {
			return &list.Pools[i], nil
		}
	}
	return nil, command.BadInput("`tradewind pool list` lists them, `tradewind pool add "+name+"` creates it",
		"unknown pool %s", name)
}

// poolTable has a line for each machine, and for each pool without one.
func poolTable(now time.Time, pools ...apitypes.PoolView) *text.Table {
	t := &text.Table{Columns: []text.Column{
		{Name: "POOL"}, {Name: "PLACE", Optional: 2}, {Name: "USD/H", Right: true, Optional: 1},
		{Name: "MACHINE", Flexible: true}, {Name: "STATE"}, {Name: "TYPE", Optional: 2}, {Name: "VCPUS", Right: true},
		{Name: "GIB", Right: true}, {Name: "GPUS", Right: true}, {Name: "TASKS", Flexible: true},
		{Name: "SEEN", Right: true, Optional: 1},
	}}
	for i := range pools {
		p := &pools[i]
		about := []string{p.Name, cmp.Or(p.Place, "-"), text.Number(p.USDPerHour)}
		if len(p.Machines) == 0 {
			t.Row(append(about, "-", cmp.Or(poolState(p), "-"), "-", "-", "-", "-", "-", "-")...)
		}
		for j := range p.Machines {
			m := &p.Machines[j]
			t.Row(append(about, m.ID, text.Clean(m.State), text.Clean(m.Type), share(m.Used.CPUs, m.Capacity.CPUs),
				share(m.Used.MemoryGiB, m.Capacity.MemoryGiB),
				gpus(m.Used, m.Capacity), text.Clean(tasksOf(m)), ago(now, m.Seen))...)
		}
	}
	return t
}

func poolState(p *apitypes.PoolView) string {
	if p.Draining {
		return "draining"
	}
	return ""
}

// share renders used capacity over total capacity.
func share(used, has float64) string { return text.Tenth(used) + "/" + text.Tenth(has) }

func gpus(used, has apitypes.Capacity) string {
	if has.Accelerators == 0 {
		return "-"
	}
	return share(used.Accelerators, has.Accelerators) + " " + text.Clean(has.Accelerator)
}

// tasksOf lists the tasks of a machine, or the reason why it has none.
func tasksOf(m *apitypes.MachineView) string {
	words := make([]string, 0, len(m.Tasks))
	for i := range m.Tasks {
		words = append(words, m.Tasks[i].Job+" "+m.Tasks[i].Task)
	}
	switch {
	case len(words) > 0:
		return strings.Join(words, ", ")
	case m.Reason != "":
		return "- (" + m.Reason + ")"
	}
	return "-"
}

// ago renders how long ago a machine last reported.
func ago(now, seen time.Time) string {
	if seen.IsZero() {
		return "-"
	}
	return text.Span(max(now.Sub(seen), 0).Truncate(time.Second)) + " ago"
}

func (a *app) poolAddCommand() *cobra.Command {
	var state, tokenFile string
	var p apitypes.PoolSettings
	c := &cobra.Command{
		Use: "add NAME", Short: "Create or change a pool, and print how machines join",
		Long: "Creates a pool, or changes its settings; settings without a flag stay unchanged. Each call also writes\n" +
			"a new join token to a file that only you can read, and prints the command with which a machine joins.\n" +
			"The token is valid for a day; machines that have joined no longer need it.",
		Example: "  tradewind pool add lab                                     # machines that cost nothing\n" +
			"  tradewind pool add lab --usd-per-hour 0.02 --place aws:us-east-1\n" +
			"  tradewind pool add lab -o json | jq -r .join.command",
		Args: command.Args(1, 1), ValidArgsFunction: a.completePool(&state, false),
	}
	a.brokerFlags(c, &state)
	f := c.Flags()
	f.Var(&price{command.Money{Parse: dag.ParseAmount}, &p.USDPerHour}, "usd-per-hour",
		"cost of an hour of a whole machine: 0.02, '0.02 USD' or '$0.02'; 0 means already paid")
	f.StringVar(&p.Place, "place", "",
		"`CLOUD:REGION` in which the machines are, for the cost of moving data; empty means unknown")
	f.IntVar(&p.Partitions, "partitions", 0,
		"number of records for the pool's machines; more let more scheduling sessions run in parallel; 0 means 8")
	f.StringVar(&p.Description, "description", "", "description for people")
	f.StringVar(&tokenFile, "token-file", "", "`FILE` to write the token to (default: in the state folder)")
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		return a.reading(c, state, func(ctx context.Context, s *conn) error {
			return a.addPool(ctx, s, given[0], p, f.Changed, a.tokenFile(state, tokenFile, given[0]), output)
		})
	}
	return c
}

// PoolJoin is how a machine joins a pool.
type PoolJoin struct {
	Command   string    `json:"command"` // to run on each machine
	TokenFile string    `json:"tokenFile"`
	Expires   time.Time `json:"expires"` // of the token, by the broker's clock
}

// PoolAdded is the output of `pool add -o json`.
type PoolAdded struct {
	Pool *apitypes.PoolView `json:"pool"`
	Join PoolJoin           `json:"join"`
}

// tokenFile returns the file of the join token.
func (a *app) tokenFile(state, file, pool string) string {
	if file != "" {
		return absolute(file)
	}
	return filepath.Join(absolute(state), "pools", pool, "join-token")
}

func (a *app) addPool(
	ctx context.Context,
	s *conn,
	name string,
	p apitypes.PoolSettings,
	set func(string) bool,
	file string,
	output *command.Choice,
) error {
	list, err := s.Pools(ctx)
	if err != nil {
		return err
	}
	for i := range list.Pools {
		if list.Pools[i].Name == name {
			keepPoolSettings(&p, &list.Pools[i], set)
		}
	}
	pool, err := s.SetPool(ctx, name, p)
	if err != nil {
		return err
	}
	a.WarnNewStateFolder(s.newStateFolder)
	token, err := s.Invite(ctx, name)
	if err != nil {
		return err
	}
	if err := writeSecret(file, token.Token); err != nil {
		return err
	}
	join := PoolJoin{Command: a.joinCommandLine(s, name, file), TokenFile: file, Expires: token.Expires}
	if output.JSON() {
		return a.PrintJSON(PoolAdded{Pool: pool, Join: join})
	}
	if err := a.PrintTable(poolTable(list.Now, *pool)); err != nil {
		return err
	}
	a.printJoin(s, name, join)
	return nil
}

// joinCommandLine returns the command with which a machine joins. On the broker's computer it needs no token file.
func (a *app) joinCommandLine(s *conn, pool, file string) string {
	if !s.remote {
		return "tradewind pool join " + pool + a.stateHint(s.state)
	}
	return "tradewind pool join " + pool + " --endpoint " + s.running.URL + " --token-file " + file
}

func (a *app) printJoin(s *conn, pool string, j PoolJoin) {
	a.Tell("run this on each machine, until Ctrl-C:\n  %s", j.Command)
	if !s.remote && !s.passive {
		a.Tell(
			"or, if machines reach this broker through a tunnel:\n  tradewind pool join %s --endpoint %s "+
				"--token-file %s",
			pool,
			s.running.URL,
			j.TokenFile,
		)
	}
	a.Tell("keep the token in %s secret; it is valid until %s", j.TokenFile, j.Expires.Local().Format(time.DateTime))
}

// writeSecret replaces a file that only its owner can read.
func writeSecret(file, secret string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil { //nolint:gosec // the user's own folder
		return err
	}
	return files.Write(file, 0o600, []byte(secret+"\n"))
}

// keepPoolSettings copies the old value of every setting whose flag is not given.
func keepPoolSettings(p *apitypes.PoolSettings, old *apitypes.PoolView, set func(string) bool) {
	if !set("usd-per-hour") {
		p.USDPerHour = old.USDPerHour
	}
	if !set("place") {
		p.Place = old.Place
	}
	if !set("partitions") {
		p.Partitions = old.Partitions
	}
	if !set("description") {
		p.Description = old.Description
	}
}
