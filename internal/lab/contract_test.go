package lab

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
)

// tree returns all commands of the program.
func tree() []*cobra.Command {
	var all []*cobra.Command
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		all = append(all, c)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(app{command.New(context.Background(), &command.Env{}, nil)}.root())
	return all
}

func TestCommandsAndFlagsMatchContract(t *testing.T) {
	want := []string{
		"tradewind-lab backtest availability: changeover deadline every nodes output policy seed spot-ratio traces work zones",
		"tradewind-lab backtest bid: deadline every output policy prices restart seed train types work",
		"tradewind-lab backtest cluster: every nodes output pods policy speed stay weights",
		"tradewind-lab backtest workflow: dag deadlines output policy prices repeats restart seed time train types",
		"tradewind-lab bill: boot-times market output preempted seeds within",
		"tradewind-lab chaos: boot-times history jobs mail older output seeds services",
		"tradewind-lab optimize: time-limit",
		"tradewind-lab place: anti-affinity apps containers data generate machines out output priority seed solver steps time-limit verify",
		"tradewind-lab prices chart: days output prices state",
		"tradewind-lab prices import: output state",
		"tradewind-lab reproduce: data output page",
		"tradewind-lab version: output",
		"tradewind-lab windtunnel: alike candidates gap load output partitions phase policy rate schedulers score-variance seed slots switch",
	}
	var got []string
	for _, c := range tree() {
		if c.HasSubCommands() || c.Hidden {
			continue
		}
		var flags []string
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
		slices.Sort(flags)
		got = append(got, c.CommandPath()+": "+strings.Join(flags, " "))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the commands are\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCommandsAndFlagsAreDocumented(t *testing.T) {
	body, err := os.ReadFile("../../docs/lab.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range tree() {
		if c.Short == "" || c.Long == "" || c.Example == "" {
			t.Errorf("%s lacks a short text, a long text or an example", c.CommandPath())
		}
		if !strings.Contains(string(body), "`"+c.CommandPath()) {
			t.Errorf("%s is not in docs/lab.md", c.CommandPath())
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && f.Name != "version" && !strings.Contains(string(body), "`--"+f.Name) {
				t.Errorf("%s --%s is not in docs/lab.md", c.CommandPath(), f.Name)
			}
		})
	}
}
