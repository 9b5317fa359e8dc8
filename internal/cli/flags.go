package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/suggest"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/host"
)

// choice is a flag that takes one of some words.
type choice struct {
	value   string
	allowed []string
}

func newChoice(value string, allowed ...string) choice { return choice{value: value, allowed: allowed} }

func (c *choice) String() string { return c.value }

// Type is what the help shows for the value.
func (c *choice) Type() string { return strings.Join(c.allowed, "|") }

// Set takes one of the words.
func (c *choice) Set(s string) error {
	if !slices.Contains(c.allowed, s) {
		return fmt.Errorf("it has to be %s", text.List(c.allowed, "or"))
	}
	c.value = s
	return nil
}

// spanFlag is a flag that takes a duration, of days as well.
type spanFlag struct{ value time.Duration }

func (f *spanFlag) String() string {
	if f.value == 0 {
		return ""
	}
	return f.value.String()
}

// Type is what the help shows for the value.
func (f *spanFlag) Type() string { return "duration" }

// Set takes a duration as 90m, 6h or 2d12h.
func (f *spanFlag) Set(s string) error {
	rest, total := s, time.Duration(0)
	if days, after, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || n < 0 || n > dag.MaxDuration.Hours()/24 {
			return errors.New("it has to be a time such as 90m, 6h or 2d12h")
		}
		total, rest = time.Duration(n*24*float64(time.Hour)), after
	}
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil {
			return errors.New("it has to be a time such as 90m, 6h or 2d12h")
		}
		total += d
	}
	if total <= 0 || total > dag.MaxDuration {
		return fmt.Errorf("it has to be above 0 and at most %s", text.Span(dag.MaxDuration))
	}
	f.value = total
	return nil
}

// outputFlag adds -o.
func outputFlag(c *cobra.Command) *choice {
	o := newChoice("table", "table", "json")
	c.Flags().VarP(&o, "output", "o", "form of the output")
	completeChoice(c, "output", &o)
	return &o
}

func (c *choice) json() bool { return c.value == "json" }

func completeChoice(c *cobra.Command, name string, f *choice) {
	// It fails for a flag that does not exist only.
	_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(f.allowed, cobra.ShellCompDirectiveNoFileComp))
}

// stateFlag adds --state.
func (a *app) stateFlag(c *cobra.Command, state *string) {
	c.Flags().StringVar(state, "state", a.defaultState(), "folder of the broker's records, outputs and token")
	_ = c.MarkFlagDirname("state")
}

func (a *app) defaultState() string {
	if dir := a.lookup("TRADEWIND_STATE"); dir != "" {
		return dir
	}
	return host.DefaultState()
}

func catalogFlag(c *cobra.Command, dir *string) {
	c.Flags().StringVar(dir, "catalog", "", "folder of CSV catalogues (default: the one in the program)")
	_ = c.MarkFlagDirname("catalog")
}

// worldFlags add what a broker on this computer can be told.
func (a *app) worldFlags(c *cobra.Command, o *host.Options) {
	a.stateFlag(c, &o.State)
	catalogFlag(c, &o.Catalog)
	f := c.Flags()
	f.Float64Var(&o.TimeScale, "time-scale", 1, "wall seconds per second of the job: at 0.001 an hour takes 3.6 s;\nat 0 recorded tasks take no time")
	f.StringVar(&o.Scenario, "scenario", "", "file that says which launches fail and which machines are taken")
	_ = c.MarkFlagFilename("scenario", "yaml", "yml", "json")
	f.Uint64Var(&o.Seed, "seed", 0, "have launches fail and spot machines be taken at random, the same\nway for the same number; 0 is a calm world")
	policyFlag(c, o)
	f.IntVar(&o.MaxMachines, "max-machines", 0, "most machines at once on this computer (default: by its processors)")
}

// checkWorld refuses values that no broker can take.
func checkWorld(o *host.Options) error {
	const most = 1000 // a second in sixteen minutes: slower than real is for looking closely
	switch {
	case o.TimeScale < 0 || o.TimeScale > most || o.TimeScale != o.TimeScale:
		return badInput("1 is real time, 0.001 a thousand times faster", "--time-scale: %v is not between 0 and %d", o.TimeScale, most)
	case o.Scenario != "" && o.Seed != 0:
		return badInput("a scenario says what goes wrong, a seed makes it up", "--scenario and --seed exclude each other")
	case o.MaxMachines < 0:
		return badInput("", "--max-machines: %d is below 0", o.MaxMachines)
	case o.Policy != "": // before anything is started
		body, err := readFile(o.Policy)
		if err != nil {
			return err
		}
		_, err = loadPolicy(o.Policy, body)
		return err
	}
	return nil
}

// args refuses any other number of arguments than the command's usage names.
func args(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		switch {
		case len(given) < least:
			return badInput("usage: "+c.UseLine(), "%s needs %s", c.CommandPath(), wanted(c))
		case len(given) > most:
			return badInput("usage: "+c.UseLine(), "%s does not take %q", c.CommandPath(), given[most])
		}
		return nil
	}
}

// wanted names a command's arguments as its usage does.
func wanted(c *cobra.Command) string {
	_, rest, _ := strings.Cut(c.Use, " ")
	return rest
}

// group makes a command that only has commands below it: without one it shows its help, and an unknown one is an error with
// what was meant.
func group(c *cobra.Command) {
	c.Args = cobra.ArbitraryArgs
	c.SuggestionsMinimumDistance = 2
	c.RunE = func(c *cobra.Command, given []string) error {
		if len(given) == 0 {
			return c.Help()
		}
		return unknownCommand(c, given[0])
	}
}

func unknownCommand(c *cobra.Command, name string) error {
	hint := fmt.Sprintf("`%s --help` lists the commands", c.CommandPath())
	if meant := c.SuggestionsFor(name); len(meant) > 0 {
		hint = "did you mean " + text.List(quoted(meant), "or") + "? " + hint
	}
	return badInput(hint, "unknown command %q of %s", name, c.CommandPath())
}

func quoted(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = strconv.Quote(w)
	}
	return out
}

// flagError says what is wrong with a flag, and which one was meant.
func (a *app) flagError(c *cobra.Command, err error) error {
	hint := fmt.Sprintf("`%s --help` lists the flags", c.CommandPath())
	if c.HasSubCommands() {
		// What looks like a flag of this command may be one of a command that does not exist.
		for _, word := range a.args {
			if !strings.HasPrefix(word, "-") && word != c.Name() {
				return unknownCommand(c, word)
			}
		}
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if meant := suggestFlag(c, unknown.GetSpecifiedName()); meant != "" {
			hint = "did you mean " + meant + "? " + hint
		}
		return because(err, ExitBadInput, hint, "unknown flag: %s", unknownFlagName(unknown))
	}
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		return because(err, ExitBadInput, hint, "--%s: %q: %v", value.GetFlag().Name, value.GetValue(), plainCause(value.Unwrap()))
	}
	return because(err, ExitBadInput, hint, "%v", err)
}

func unknownFlagName(e *pflag.NotExistError) string {
	if short := e.GetSpecifiedShortnames(); short != "" {
		return "-" + short
	}
	return "--" + e.GetSpecifiedName()
}

// plainCause says in words what a number's parser says in Go's.
func plainCause(err error) error {
	var num *strconv.NumError
	if errors.As(err, &num) {
		return errors.New("it has to be a number")
	}
	return err
}

// suggestFlag finds the flag that a misspelt one was meant as, or begins.
func suggestFlag(c *cobra.Command, name string) string {
	var known []string
	begun := ""
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		known = append(known, f.Name)
		if begun == "" && len(name) >= 2 && strings.HasPrefix(f.Name, name) {
			begun = f.Name
		}
	})
	if meant := cmp.Or(suggest.Nearest(name, known), begun); meant != "" {
		return "--" + meant
	}
	return ""
}
