package command

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

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Choice is a flag with a fixed set of values.
type Choice struct {
	Value   string
	allowed []string
}

// NewChoice returns a Choice with a default value and its allowed values.
func NewChoice(value string, allowed ...string) Choice { return Choice{Value: value, allowed: allowed} }

func (c *Choice) String() string { return c.Value }

// Type is the placeholder of the value in the help.
func (c *Choice) Type() string { return strings.Join(c.allowed, "|") }

// Set accepts one of the allowed values.
func (c *Choice) Set(s string) error {
	if !slices.Contains(c.allowed, s) {
		return fmt.Errorf("must be %s", text.List(c.allowed, "or"))
	}
	c.Value = s
	return nil
}

// Span is a duration flag that also accepts days.
type Span struct{ Value time.Duration }

func (f *Span) String() string {
	if f.Value == 0 {
		return ""
	}
	return f.Value.String()
}

// Type is the placeholder of the value in the help.
func (f *Span) Type() string { return "duration" }

// Set accepts a duration such as 90m, 6h or 2d12h.
func (f *Span) Set(s string) error {
	rest, total := s, time.Duration(0)
	if days, after, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || n < 0 || n > dag.MaxDuration.Hours()/24 {
			return errors.New("must be a time such as 90m, 6h or 2d12h")
		}
		total, rest = time.Duration(n*24*float64(time.Hour)), after
	}
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil {
			return errors.New("must be a time such as 90m, 6h or 2d12h")
		}
		total += d
	}
	if total <= 0 || total > dag.MaxDuration {
		return fmt.Errorf("must be above 0 and at most %s", text.Span(dag.MaxDuration))
	}
	f.Value = total
	return nil
}

// Money is a flag for an amount of money, read as in a job file: 5, 5 USD or $5.
type Money struct {
	Value dag.USD
	// Parse reads the amount; nil reads one above 0.
	Parse func(string) (dag.USD, error)
}

func (f *Money) String() string {
	if f.Value == 0 {
		return ""
	}
	return text.Number(float64(f.Value)) + " USD"
}

// Type is the placeholder of the value in the help.
func (f *Money) Type() string { return "USD" }

// Set accepts an amount of money.
func (f *Money) Set(s string) (err error) {
	parse, least := f.Parse, "of at least 0"
	if parse == nil {
		parse, least = dag.ParseBudget, "above 0"
	}
	if f.Value, err = parse(s); err != nil {
		return fmt.Errorf("must be an amount of money %s and at most %s USD, such as 5, '5 USD' or '$5'", least,
			text.Number(float64(dag.MaxBudget)))
	}
	return nil
}

// Moment is a flag for a time in the past.
type Moment struct {
	Value time.Time
	Now   func() time.Time // its location is that of times without one
	text  string
}

func (f *Moment) String() string { return f.text }

// Type is the placeholder of the value in the help.
func (f *Moment) Type() string { return "time" }

// Set accepts how long ago it was, such as 10m, or a date with or without a time.
func (f *Moment) Set(s string) error {
	f.text = s
	var ago Span
	if ago.Set(s) == nil {
		f.Value = f.Now().Add(-ago.Value)
		return nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04",
		"2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, f.Now().Location()); err == nil {
			f.Value = t
			return nil
		}
	}
	return errors.New("must be how long ago, such as 10m, or a time such as 2026-01-31T15:04:05Z")
}

// OutputFlag adds -o: a table, JSON or YAML, and more formats of the command. See YAMLOutput.
func OutputFlag(c *cobra.Command, more ...string) *Choice {
	o := NewChoice("table", slices.Concat([]string{"table", "json", "yaml"}, more)...)
	c.Flags().VarP(&o, "output", "o", "output format")
	CompleteChoice(c, "output", &o)
	return &o
}

// JSON reports whether the output is for a program: JSON, or the same as YAML.
func (c *Choice) JSON() bool { return c.Value == "json" || c.Value == "yaml" }

// YAMLOutput makes the commands below root print YAML if their flag -o asks for it.
func YAMLOutput(root *cobra.Command, a *App) {
	root.PersistentPreRun = func(c *cobra.Command, _ []string) {
		f := c.Flags().Lookup("output")
		a.YAML = f != nil && f.Value.String() == "yaml"
	}
}

// CompleteChoice adds shell completion for the values of a Choice.
func CompleteChoice(c *cobra.Command, name string, f *Choice) {
	// It fails only for a missing flag.
	_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(f.allowed, cobra.ShellCompDirectiveNoFileComp))
}

// StateFlag adds --state.
func (a *App) StateFlag(c *cobra.Command, state *string) {
	c.Flags().StringVar(state, "state", a.DefaultState(), "folder for the broker's records, outputs and token")
	_ = c.MarkFlagDirname("state")
}

// DefaultState returns the default state folder.
func (a *App) DefaultState() string {
	if dir := a.Lookup("TRADEWIND_STATE"); dir != "" {
		return dir
	}
	return host.DefaultState()
}

// CatalogFlag adds the flag for the catalogue folder.
func CatalogFlag(c *cobra.Command, dir *string) {
	c.Flags().StringVar(dir, "catalog", "", "folder of CSV catalogues (default: the built-in one)")
	_ = c.MarkFlagDirname("catalog")
}

// Args accepts between least and most arguments.
func Args(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		switch {
		case len(given) < least:
			return BadInput("usage: "+c.UseLine(), "%s needs %s", c.CommandPath(), usageArgs(c))
		case len(given) > most:
			return BadInput("usage: "+c.UseLine(), "%s does not take %q", c.CommandPath(), given[most])
		}
		return nil
	}
}

// usageArgs returns a command's arguments as in its usage line.
func usageArgs(c *cobra.Command) string {
	_, rest, _ := strings.Cut(c.Use, " ")
	return rest
}

// Group makes a command that only has subcommands. Without a subcommand it shows its help; an unknown one is an error
// with a suggestion.
func Group(c *cobra.Command) {
	c.Args = cobra.ArbitraryArgs
	c.SuggestionsMinimumDistance = 2
	c.RunE = func(c *cobra.Command, given []string) error {
		if len(given) == 0 {
			return c.Help()
		}
		return unknownCommand(c, given[0])
	}
}

// Root makes a program's root command: a Group with a --version flag. elsewhere maps names of commands in other
// programs to what to type instead, for the hint. It does not use cobra's version template, because the template engine
// would double the program's size.
func Root(c *cobra.Command, version string, elsewhere map[string]string) {
	Group(c)
	c.Annotations = elsewhere
	show := c.Flags().Bool("version", false, "version for "+c.Name())
	group := c.RunE
	c.RunE = func(c *cobra.Command, given []string) error {
		if !*show || len(given) > 0 {
			return group(c, given)
		}
		_, err := fmt.Fprintf(c.OutOrStdout(), "%s %s\n", c.Name(), version)
		return err
	}
}

func unknownCommand(c *cobra.Command, name string) error {
	hint := fmt.Sprintf("`%s --help` lists the commands", c.CommandPath())
	if use := c.Annotations[name]; use != "" && !c.HasParent() {
		hint = "use `" + use + "`"
	} else if meant := nearest(name, c.SuggestionsFor(name)); len(meant) > 0 {
		hint = "did you mean " + text.List(quoted(meant), "or") + "? " + hint
	}
	return BadInput(hint, "unknown command %q of %s", name, c.CommandPath())
}

// nearest returns the words that are most similar to name, if they are similar enough to be meant. A word that begins
// with name wins over a misspelling.
func nearest(name string, words []string) (meant []string) {
	least := max(1, len(name)/3)
	for _, w := range words {
		d := fault.Distance(strings.ToLower(name), w, len(name))
		if strings.HasPrefix(w, name) {
			d = 0
		}
		if d < least {
			least, meant = d, nil
		}
		if d == least {
			meant = append(meant, w)
		}
	}
	return meant
}

func quoted(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = strconv.Quote(w)
	}
	return out
}

// FlagError explains a wrong flag and suggests a similar one.
func (a *App) FlagError(c *cobra.Command, err error) error {
	hint := fmt.Sprintf("`%s --help` lists the flags", c.CommandPath())
	if c.HasSubCommands() {
		// The unknown flag may belong to a subcommand that does not exist.
		for _, word := range a.Args {
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
		return Because(err, ExitBadInput, hint, "unknown flag: %s", unknownFlagName(unknown))
	}
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		return Because(err, ExitBadInput, hint, "--%s: %q: %v", value.GetFlag().Name, value.GetValue(),
			plainCause(value.Unwrap()))
	}
	return Because(err, ExitBadInput, hint, "%v", err)
}

func unknownFlagName(e *pflag.NotExistError) string {
	if short := e.GetSpecifiedShortnames(); short != "" {
		return "-" + short
	}
	return "--" + e.GetSpecifiedName()
}

// plainCause replaces the error of Go's number parser with a plain one.
func plainCause(err error) error {
	var num *strconv.NumError
	if errors.As(err, &num) {
		return errors.New("must be a number")
	}
	return err
}

// suggestFlag finds a flag that is similar to name or begins with it.
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
	if meant := cmp.Or(fault.Nearest(name, known), begun); meant != "" {
		return "--" + meant
	}
	return ""
}
