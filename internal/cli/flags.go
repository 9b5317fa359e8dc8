package cli

import (
	"cmp"
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// maxDescription is the API's maximum length of a description in characters.
const maxDescription = 1024

// Count adds a flag for a whole number, such as a number of tasks.
func Count(f *pflag.FlagSet, to *int, name, usage string) {
	f.Var(&bounded{set: func(v float64) { *to = int(v) }, most: record.MaxCount, whole: true}, name, usage)
}

// Amount adds a flag for an amount of one resource.
func Amount(f *pflag.FlagSet, to *float64, name, usage string) {
	f.Var(&bounded{set: func(v float64) { *to = v }, most: record.MaxAmount}, name, usage)
}

// bounded is a flag for a number of at least 0.
type bounded struct {
	set   func(float64)
	said  string
	most  float64
	whole bool
}

// String implements pflag.Value.
func (b *bounded) String() string { return cmp.Or(b.said, "0") }

// Type implements pflag.Value.
func (b *bounded) Type() string {
	if b.whole {
		return "int"
	}
	return "float"
}

// Set implements pflag.Value.
func (b *bounded) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	what := "a number"
	if b.whole {
		what = "a whole number"
	}
	if err != nil || !(v >= 0 && v <= b.most) || b.whole && v != math.Trunc(v) {
		return fmt.Errorf("must be %s from 0 to %s", what, text.Number(b.most))
	}
	b.set(v)
	b.said = s
	return nil
}

// price is a flag for an amount of money that goes to a number.
type price struct {
	command.Money
	to *float64
}

// Set implements pflag.Value.
func (p *price) Set(s string) error {
	if err := p.Money.Set(s); err != nil {
		return err
	}
	*p.to = float64(p.Value)
	return nil
}

// CheckTexts validates the name of a queue and its text flags.
func CheckTexts(name, parent, description string) error {
	const hint = "use letters, digits, '.', '_' and '-', beginning with a letter or digit, at most 128"
	switch {
	case dag.CheckName(name) != nil:
		return command.BadInput(hint, "%q is not a valid queue name", name)
	case parent != "" && dag.CheckName(parent) != nil:
		return command.BadInput(hint, "--parent: %q is not a valid queue name", parent)
	case len([]rune(description)) > maxDescription:
		return command.BadInput(
			"",
			"--description: it has %d characters, more than the maximum %d",
			len([]rune(description)),
			maxDescription,
		)
	}
	return nil
}
