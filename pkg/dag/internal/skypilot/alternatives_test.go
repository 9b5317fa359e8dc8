package skypilot_test

import (
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/skypilot"
)

func TestAlternativesThatNoCloudHereSellsAreLeftOut(t *testing.T) {
	j, err := skypilot.Parse("job.yaml", []byte(`run: echo
resources:
  any_of:
    - accelerators: A100-80GB-SXM:1
    - {accelerators: T4:1, cloud: runpod}
    - {accelerators: {H100-SXM: 1, L4: 1}}
    - accelerators: T4:1
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range j.Tasks[0].Resources {
		got = append(got, r.Accelerator)
	}
	if strings.Join(got, " ") != "L4 T4" {
		t.Errorf("the alternatives are %v", got)
	}
	warnings := strings.Join(j.Warnings, "\n")
	for _, want := range []string{
		`job.yaml:4:21: resources.accelerators: "A100-80GB-SXM:1" is left out: no cloud here sells it`,
		`job.yaml:5:7: resources.any_of[1]: is left out: the cloud runpod is not supported`,
		`"H100-SXM:1" is left out: no cloud here sells it`,
	} {
		if !strings.Contains(warnings, want) {
			t.Errorf("no warning %q in %s", want, warnings)
		}
	}
}

func TestHeaderOfJobGroupIsRecognisedByAnyField(t *testing.T) {
	for _, field := range []string{"name: g", "execution: parallel", "primary_tasks: [a]", "termination_delay: 10s"} {
		docs, _, err := yamlfile.Decode([]byte(field + "\n---\nname: a\nrun: echo\n"))
		if err != nil || !skypilot.IsSkyPilot(docs[0]) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
