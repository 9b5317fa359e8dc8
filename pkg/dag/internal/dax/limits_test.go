package dax_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dax"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// TestLimitsOfFile checks that the maximum of each limit is accepted, and that one more is rejected.
func TestLimitsOfFile(t *testing.T) {
	profile := func(text string) string {
		return `<profile namespace="env" key="A">` + text + `</profile>`
	}
	for name, c := range map[string]struct {
		most int
		text func(n int) string
	}{
		"attributes": {100, func(n int) string {
			text := "<uses"
			for i := range n {
				text += fmt.Sprintf(` a%d="x"`, i)
			}
			return strings.Replace(text, "a0", "name", 1) + "/>"
		}},
		"depth":     {64, func(n int) string { return strings.Repeat("<x>", n) + strings.Repeat("</x>", n) }},
		"text":      {jobtext.MaxTextBytes, func(n int) string { return profile(strings.Repeat("x", n)) }},
		"two texts": {jobtext.MaxTextBytes, func(n int) string { return profile("x<file/>" + strings.Repeat("x", n-1)) }},
		"nodes": {jobtext.MaxNodes, func(n int) string {
			return fmt.Sprintf(`<profile namespace="pegasus" key="nodes">%d</profile>`, n)
		}},
	} {
		for n, want := range map[int]bool{c.most: true, c.most + 1: false} {
			_, err := dax.Parse("j.xml", []byte(`<adag><job id="a">`+c.text(n)+`</job></adag>`))
			if (err == nil) != want {
				t.Errorf("%s: %d of them: %v", name, n, err)
			}
		}
	}
}

// TestProfiles checks that a file element within a text is replaced by its name, and that other namespaces are
// ignored.
func TestProfiles(t *testing.T) {
	j, err := dax.Parse("j.xml", []byte(`<adag><job id="a">
<profile namespace="env" key="A">x <file name="f"><!-- of the job --></file> y</profile>
<profile namespace="pegasus" key="nodes">3</profile>
<profile namespace="condor" key="nodes">7</profile>
<profile namespace="pegasus" key="queue">7</profile>
<uses name="in" link="input" size="0"/>
</job></adag>`))
	if err != nil {
		t.Fatal(err)
	}
	if task := j.Tasks[0]; task.Env["A"] != "x f y" || task.Nodes != 3 {
		t.Errorf("%d nodes, %q", task.Nodes, task.Env)
	}
	if len(j.Warnings) != 1 { // the warning is about the run time, not about a size of 0
		t.Errorf("warnings %q", j.Warnings)
	}
}
