package native_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dagtest"
)

func TestMarshalRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { dagtest.ReadBack(t, dagtest.Job().Draw(t, "job")) })
}

func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := dagtest.Job().Draw(t, "job")
		data, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		got := new(dag.Job)
		if err := json.Unmarshal(data, got); err != nil {
			t.Fatal(err)
		}
		if err := got.Validate(); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		if !reflect.DeepEqual(got, j) {
			t.Fatalf("got\n%+v\nwant\n%+v", got, j)
		}
	})
}

func TestMarshalRejectsInvalidJobs(t *testing.T) {
	if _, err := dag.Marshal(&dag.Job{Name: "x", Objective: dag.MinimizeCost}); err == nil {
		t.Error("a job without tasks was written")
	}
}
