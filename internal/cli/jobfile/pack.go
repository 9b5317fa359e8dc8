package jobfile

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Limits are the flags that limit the size of a pack.
type Limits struct {
	size  size
	files int
}

// LimitFlags adds the limit flags to a command.
func LimitFlags(c *cobra.Command) *Limits {
	l := &Limits{size: pack.DefaultBytes}
	c.Flags().Var(&l.size, "pack-size", "maximum size of a local folder that the job uploads")
	c.Flags().IntVar(&l.files, "pack-files", pack.DefaultFiles, "maximum number of files in a local folder that the "+
		"job uploads")
	return l
}

// Options returns the packing options. note is called for files that are left out.
func (l *Limits) Options(note func(string)) pack.Options {
	return pack.Options{MaxBytes: int64(l.size), MaxFiles: l.files, Note: note}
}

// size is a flag for an amount of data in bytes.
type size int64

func (s *size) String() string { return dag.FormatSize(dag.GiB(float64(*s) / (1 << 30))) }

// Type is the placeholder of the value in the help.
func (s *size) Type() string { return "size" }

// Set accepts sizes such as 500MiB or 10GiB.
func (s *size) Set(text string) error {
	g, err := dag.ParseSize(text)
	if err != nil || g <= 0 {
		return fmt.Errorf("must be an amount of data such as 500MiB or 10GiB")
	}
	*s = size(float64(g) * (1 << 30))
	return nil
}
