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

	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/host"
)

// Choice is a flag that takes one of some words.
type Choice struct {
	Value   string
	allowed []string
}

// NewChoice makes a flag that takes one of some words; the first is its default.
func NewChoice(value string, allowed ...string) Choice { return Choice{Value: value, allowed: allowed} }

func (c *Choice) String() string { return c.Value }

// Type is what the help shows for the value.
func (c *Choice) Type() string { return strings.Join(c.allowed, "|") }

// Set takes one of the words.
func (c *Choice) Set(s string) error {
	if !slices.Contains(c.allowed, s) {
		return fmt.Errorf("it has to be %s", text.List(c.allowed, "or"))
	}
	c.Value = s
	return nil
}

// Span is a flag that takes a duration, of days as well.
type Span struct{ Value time.Duration }

func (f *Span) String() string {
	if f.Value == 0 {
		return ""
	}
	return f.Value.String()
}

// Type is what the help shows for the value.
func (f *Span) Type() string { return "duration" }

// Set takes a duration as 90m, 6h or 2d12h.
func (f *Span) Set(s string) error {
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
	f.Value = total
	return nil
}

// OutputFlag adds -o.
func OutputFlag(c *cobra.Command) *Choice {
	o := NewChoice("table", "table", "json")
	c.Flags().VarP(&o, "output", "o", "form of the output")
	CompleteChoice(c, "output", &o)
	return &o
}

// JSON says that a program reads the output.
func (c *Choice) JSON() bool { return c.Value == "json" }

// CompleteChoice has a shell complete the words of such a flag.
func CompleteChoice(c *cobra.Command, name string, f *Choice) {
	// It fails for a flag that does not exist only.
	_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(f.allowed, cobra.ShellCompDirectiveNoFileComp))
}

// StateFlag adds --state.
func (a *App) StateFlag(c *cobra.Command, state *string) {
	c.Flags().StringVar(state, "state", a.DefaultState(), "folder of the broker's records, outputs and token")
	_ = c.MarkFlagDirname("state")
}

// DefaultState is the folder of the broker where nothing else is said.
func (a *App) DefaultState() string {
	if dir := a.Lookup("TRADEWIND_STATE"); dir != "" {
		return dir
	}
	return host.DefaultState()
}

// CatalogFlag adds the flag for the folder of the catalogue.
func CatalogFlag(c *cobra.Command, dir *string) {
	c.Flags().StringVar(dir, "catalog", "", "folder of CSV catalogues (default: the one in the program)")
	_ = c.MarkFlagDirname("catalog")
}

// Args refuses any other number of arguments than the command's usage names.
func Args(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		switch {
		case len(given) < least:
			return BadInput("usage: "+c.UseLine(), "%s needs %s", c.CommandPath(), wanted(c))
		case len(given) > most:
			return BadInput("usage: "+c.UseLine(), "%s does not take %q", c.CommandPath(), given[most])
		}
		return nil
	}
}

// wanted names a command's arguments as its usage does.
func wanted(c *cobra.Command) string {
	_, rest, _ := strings.Cut(c.Use, " ")
	return rest
}

// Group makes a command that only has commands below it: without one it shows its help, and an unknown one is an error
// with what was meant.
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

// Root makes a program's root command: a Group with a --version flag. elsewhere maps commands of the other program to
// their names there, for the hint of an unknown command. There is no version template, as a template engine would double
// the program's size.
func Root(c *cobra.Command, version string, elsewhere map[string]string) {
	Group(c)
	show := c.Flags().Bool("version", false, "version for "+c.Name())
	group := c.RunE
	c.RunE = func(c *cobra.Command, given []string) error {
		switch {
		case *show && len(given) == 0:
			_, err := fmt.Fprintf(c.OutOrStdout(), "%s %s\n", c.Name(), version)
			return err
		case len(given) > 0 && elsewhere[given[0]] != "":
			return BadInput("use `"+elsewhere[given[0]]+"`", "unknown command %q of %s", given[0], c.Name())
		}
		return group(c, given)
	}
}

func unknownCommand(c *cobra.Command, name string) error {
	hint := fmt.Sprintf("`%s --help` lists the commands", c.CommandPath())
	if meant := nearest(name, c.SuggestionsFor(name)); len(meant) > 0 {
		hint = "did you mean " + text.List(quoted(meant), "or") + "? " + hint
	}
	return BadInput(hint, "unknown command %q of %s", name, c.CommandPath())
}

// nearest are those of some words that are as near to a name as the nearest. What begins with it is nearer than any
// slip of the hand.
func nearest(name string, words []string) (meant []string) {
	least := len(name) + 1
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

// FlagError says what is wrong with a flag, and which one was meant.
func (a *App) FlagError(c *cobra.Command, err error) error {
	hint := fmt.Sprintf("`%s --help` lists the flags", c.CommandPath())
	if c.HasSubCommands() {
		// What looks like a flag of this command may be one of a command that does not exist.
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
	if meant := cmp.Or(fault.Nearest(name, known), begun); meant != "" {
		return "--" + meant
	}
	return ""
}
