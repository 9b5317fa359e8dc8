package command

import (
	"errors"
	"strconv"

	"github.com/spf13/pflag"
)

// Limit is what a broker may have of bought machines at the same time, as flags set it. Zero means no limit.
type Limit struct {
	Machines   int
	USDPerHour Money
}

// Flags adds --limit-machines and --limit-usd-per-hour.
func (l *Limit) Flags(f *pflag.FlagSet) {
	f.Var((*count)(&l.Machines), "limit-machines",
		"maximum number of bought machines at the same time; further tasks wait")
	f.Var(&l.USDPerHour, "limit-usd-per-hour",
		"maximum cost of the bought machines in an hour, with spot machines at their bids: 20, '20 USD' or '$20'")
}

// count is a flag for a number above 0.
type count int

func (c *count) String() string {
	if *c == 0 {
		return ""
	}
	return strconv.Itoa(int(*c))
}

// Type is the placeholder of the value in the help.
func (c *count) Type() string { return "int" }

// Set accepts a number above 0.
func (c *count) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n <= 0 {
		return errors.New("must be a number above 0")
	}
	*c = count(n)
	return nil
}
