package native_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dagtest"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

func TestErrorsHavePositions(t *testing.T) { dagtest.Errors(t, "job.yaml", native.Parse) }

func TestEveryFieldIsRead(t *testing.T) { dagtest.Workflows(t, native.Parse) }

func TestTabsAreNotPartOfValues(t *testing.T) {
	text := "apiVersion: tradewind/v1\nname:\tfoo\ntasks:\t# all\n  a: {run:\tx\t,\n\tworkdir: .}\n"
	j, err := native.Parse("job.yaml", []byte(text))
	if err != nil || j.Name != "foo" || j.Tasks[0].Run != "x" {
		t.Errorf("%+v, %v", j, err)
	}
}

func FuzzNative(f *testing.F) { dagtest.Fuzz(f, native.Parse) }
