package dax_test

import (
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dagtest"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dax"
)

func TestErrorsHavePositions(t *testing.T) { dagtest.Errors(t, "job.xml", dax.Parse) }

func TestEveryFieldIsRead(t *testing.T) { dagtest.Workflows(t, dax.Parse) }

func FuzzDAX(f *testing.F) { dagtest.Fuzz(f, dax.Parse) }

// A file has a negative size, as in Epigenomics_997 of the Pegasus gallery, whose generator had an overflow. There
// must be a warning.
func TestNegativeSizeGetsWarning(t *testing.T) {
	j, err := dax.Parse("e.xml", []byte(`<adag>
<job id="a" runtime="1"><uses file="big" link="output" size="-2147483648"/></job>
<job id="b" runtime="1"><uses file="big" link="input" size="-1"/><uses file="in" link="input" size="1073741824"/></job>
</adag>`))
	if err != nil {
		t.Fatal(err)
	}
	if len(j.Edges) != 1 || j.Edges[0].Data != 0 || j.Tasks[1].Inputs[0].Size != 1 {
		t.Errorf("edges %v, inputs %v", j.Edges, j.Tasks[1].Inputs)
	}
	want := []string{
		`e.xml:2:25: adag/job[1]/uses[1]/@size: the negative size "-2147483648" is treated as unknown`,
		`e.xml:3:25: adag/job[2]/uses[1]/@size: the negative size "-1" is treated as unknown`,
	}
	if !slices.Equal(j.Warnings, want) {
		t.Errorf("warnings %q, want %q", j.Warnings, want)
	}
}
