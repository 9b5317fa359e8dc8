package attempt

import (
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// The machines of a Spark task get a script that starts its application, and a gang so that they reach each other.
// Only the first machine has outputs.
func TestSparkTaskBecomesScript(t *testing.T) {
	spec := &dag.Job{Tasks: []dag.Task{{Name: "etl", Nodes: 2, Resources: []dag.Resources{{}},
		Spark: &dag.SparkApp{Main: "jobs/etl.py", Args: []string{"$TRADEWIND_OUTPUT"}}}}}
	cluster := record.Cluster{ID: "j.0.1", Nodes: []record.Node{{Address: "10.0.0.1"}, {Address: "10.0.0.2"}}}
	a := Assignment(config.Default(), record.Job{}, spec, cluster, record.Task{}, apitypes.Attempt{}, Inherited{})
	if !strings.Contains(a.Run, "'jobs/etl.py' \\\n\t\"$TRADEWIND_OUTPUT\"") || !a.FirstHasOutputs {
		t.Errorf("%+v", a)
	}
	g, err := Gang(nil, record.Job{}, spec, cluster)
	if err != nil || g == nil || len(g.Members) != 1 || len(g.Members[0].Nodes) != 2 {
		t.Errorf("%+v, %v", g, err)
	}
}
