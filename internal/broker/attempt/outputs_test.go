package attempt

import (
	"reflect"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// TestAssignmentListsOutputsOfFailure: an assignment lists the outputs that are uploaded only on success, and those
// that are uploaded also on failure.
func TestAssignmentListsOutputsOfFailure(t *testing.T) {
	spec := &dag.Job{Name: "j", Tasks: []dag.Task{{Name: "t", Run: "true", Outputs: []dag.Output{
		{Name: "log", Path: "l", URI: "s3://b/l", OnFailure: true}, {Name: "model", Path: "m", URI: "s3://b/m"},
	}}}}
	a := Assignment(config.Default(), record.Job{}, spec, record.Cluster{}, record.Task{}, apitypes.Attempt{}, Inherited{})
	want := []wire.Output{
		{Name: "log", Path: "l", URI: "s3://b/l", OnFailure: true}, {Name: "model", Path: "m", URI: "s3://b/m"},
	}
	if !reflect.DeepEqual(a.Outputs, want) {
		t.Errorf("%+v", a.Outputs)
	}
}
