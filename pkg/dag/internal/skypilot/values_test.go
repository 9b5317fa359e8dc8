package skypilot_test

import (
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag/internal/skypilot"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// A variable in a file has no value. Planning and converting the file must work, and submitting it must return the
// error.
func TestVariableWithoutValueIsRefusedAtSubmission(t *testing.T) {
	text := "run: x\nenvs:\n  A:\n  B: \"\"\n  C: null\n"
	j, err := skypilot.Parse("sky.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := "sky.yaml:3:3: envs.A: has no value (give it with --env A=VALUE)\n" +
		"sky.yaml:5:3: envs.C: has no value (give it with --env C=VALUE)"
	if err := j.CheckValues(); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	if b, given := j.Tasks[0].Env["B"]; b != "" || !given {
		t.Error("an empty value is a value")
	}
	j, err = read.JobWithEnv("sky.yaml", strings.NewReader(text), map[string]string{"A": "1", "C": ""})
	if err != nil || j.CheckValues() != nil || j.Tasks[0].Env["A"] != "1" {
		t.Error(err, j.CheckValues())
	}
}
