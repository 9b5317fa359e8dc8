package jobfile

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Limits are the flags that bound what is packed.
type Limits struct {
	size  size
	files int
}

// LimitFlags adds those flags to a command.
func LimitFlags(c *cobra.Command) *Limits {
	l := &Limits{size: pack.DefaultBytes}
	c.Flags().Var(&l.size, "pack-size", "the most that a folder of code or files may have to be packed")
	c.Flags().IntVar(&l.files, "pack-files", pack.DefaultFiles, "the most files it may have")
	return l
}

// Options are those of packing; note is told of what is left out.
func (l *Limits) Options(note func(string)) pack.Options {
	return pack.Options{MaxBytes: int64(l.size), MaxFiles: l.files, Note: note}
}

// size is a flag that takes an amount of data, bytes.
type size int64

func (s *size) String() string { return dag.FormatSize(dag.GiB(float64(*s) / (1 << 30))) }

// Type is what the help shows for the value.
func (s *size) Type() string { return "size" }

// Set takes 500MiB or 10GiB.
func (s *size) Set(text string) error {
	g, err := dag.ParseSize(text)
	if err != nil || g <= 0 {
		return fmt.Errorf("it has to be an amount of data such as 500MiB or 10GiB")
	}
	*s = size(float64(g) * (1 << 30))
	return nil
}
