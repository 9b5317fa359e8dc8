package planning

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// sharedPlan is a plan of two tasks that share one machine, and of one with its own.
func sharedPlan() (*dag.Job, *record.Plan) {
	share := dag.Task{Nodes: 1, Share: dag.ShareJob, Resources: []dag.Resources{{}}}
	a, b, own := share, share, dag.Task{Name: "own", Nodes: 1, Resources: []dag.Resources{{}}}
	a.Name, b.Name = "a", "b"
	spec := &dag.Job{Name: "j", Tasks: []dag.Task{a, b, own}}
	offer := func(id, kind string, spot bool) record.Planned {
		return record.Planned{ID: id, Offer: apitypes.Offer{Cloud: "aws", Region: "us-east-1", InstanceType: kind, Spot: spot}}
	}
	return spec.WithWorkers(), &record.Plan{
		Status: "feasible", USD: 5.5,
		Offers: []record.Planned{offer("aws/us-east-1/use1-az1/c7a.large/spot", "c7a.large", true), offer("o", "m6i.large", false)},
		Choice: []int32{0, 0, 1, 0, -1}, On: []int32{3, 3, -1, -1, -1},
		TaskUSD: []float64{1, 2, 2, 3, 0}, TaskHours: []float64{1, 2, 1, 3, 0},
		Fleets: []record.Fleet{{Offer: 0, Machines: 1, Tasks: 2, USD: 3, Hours: 3, Utilisation: 0.934}},
	}
}

func TestPlanShowsFleetsAndNoWorkers(t *testing.T) {
	spec, plan := sharedPlan()
	r := planResult(inputOf(spec, time.Time{}), plan)
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `"fleets":[{"offer":"aws/us-east-1/use1-az1/c7a.large/spot","market":"spot","cloud":"aws",` +
		`"region":"us-east-1","instanceType":"c7a.large","machines":1,"tasks":2,"usd":3,"hours":3,"utilisation":0.934}]`
	if len(r.Tasks) != 3 || r.Tasks[1].USD != 2 || r.TransferUSD != 0.5 || !strings.Contains(string(text), want) {
		t.Errorf("%d tasks, %v USD for data: %s", len(r.Tasks), r.TransferUSD, text)
	}
	var out bytes.Buffer
	if err := (app{&command.App{Env: &command.Env{Out: &out}}}).fleetLines(r.Fleets); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "\n1 × c7a.large spot in aws/us-east-1: 2 tasks, utilisation 93 %, 3.00 USD\n" {
		t.Errorf("%q", got)
	}
}
