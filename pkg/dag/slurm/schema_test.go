package slurm_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dagtest"
	"github.com/tradewind-broker/tradewind/pkg/dag/slurm"
)

// Every option of sbatch (doc/man/man1/sbatch.1 of Slurm, commit 284c3b95f08a) and of the plugin pyxis that
// testdata/schema.txt lists is done, ignored with a warning, or refused, as the documentation says.
func TestEveryOptionOfSbatchIsConsidered(t *testing.T) {
	dagtest.Fields(t, "from-slurm.md", func(f dagtest.Field) string {
		option := "#SBATCH --" + f.Path
		if f.Value != "" {
			option += "=" + f.Value
		}
		return option + "\ntrue\n"
	}, slurm.Parse)
}
