package quota

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

// maxDescription is how many characters of a description the API takes.
const maxDescription = 1024

// Count adds a flag that is a number of things: tasks, or parts.
func Count(f *pflag.FlagSet, to *int, name, usage string) {
	f.Var(&bounded{set: func(v float64) { *to = int(v) }, most: record.MaxCount, whole: true}, name, usage)
}

// Amount adds a flag that is an amount of one resource.
func Amount(f *pflag.FlagSet, to *float64, name, usage string) {
	f.Var(&bounded{set: func(v float64) { *to = v }, most: record.MaxAmount}, name, usage)
}

// bounded is a flag whose value is a number from 0 on.
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
		return fmt.Errorf("it has to be %s from 0 to %s", what, text.Number(b.most))
	}
	b.set(v)
	b.said = s
	return nil
}

// CheckTexts says what is wrong with the name of a queue, and with what its flags of words say.
func CheckTexts(name, parent, description string) error {
	const hint = "letters, digits, '.', '_' and '-', beginning with a letter or digit, at most 128"
	switch {
	case dag.CheckName(name) != nil:
		return command.BadInput(hint, "%q is not the name of a queue", name)
	case parent != "" && dag.CheckName(parent) != nil:
		return command.BadInput(hint, "--parent: %q is not the name of a queue", parent)
	case len([]rune(description)) > maxDescription:
		return command.BadInput("", "--description: it has %d characters, more than %d", len([]rune(description)),
			maxDescription)
	}
	return nil
}
