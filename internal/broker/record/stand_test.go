package record_test

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// TestClashes tries each rule at each level with one other task, of the same job or another. An unknown place
// violates no rule, but its known parts count.
func TestClashes(t *testing.T) {
	at := func(zone, rack, machine string, count int) record.Spot {
		return record.Spot{Region: "aws:east", Zone: zone, Rack: rack, Machine: machine, Count: count}
	}
	west := record.Spot{Region: "aws:west", Zone: "1", Count: 1}
	for _, c := range []struct {
		name        string
		rule        dag.Placement
		mine, other record.Spot
		clash       bool
	}{
		{"two in one zone", dag.Placement{Spread: dag.LevelZone}, at("1", "", "", 1), at("1", "", "", 1), true},
		{"two zones", dag.Placement{Spread: dag.LevelZone}, at("1", "", "", 1), at("2", "", "", 1), false},
		{"zones of two regions", dag.Placement{Spread: dag.LevelZone}, at("1", "", "", 1), west, false},
		{"two of two", dag.Placement{Spread: dag.LevelZone, Max: 2}, at("1", "", "", 1), at("1", "", "", 1), false},
		{"three of two", dag.Placement{Spread: dag.LevelZone, Max: 2}, at("1", "", "", 2), at("1", "", "", 1), true},
		{"one region", dag.Placement{Spread: dag.LevelRegion}, at("1", "", "", 1), at("2", "", "", 1), true},
		{"one rack", dag.Placement{Spread: dag.LevelRack}, at("1", "r", "m", 1), at("1", "r", "n", 1), true},
		{"unknown racks", dag.Placement{Spread: dag.LevelRack}, at("1", "", "", 1), at("1", "", "", 1), false},
		{"one machine", dag.Placement{Spread: dag.LevelMachine}, at("1", "r", "m", 1), at("1", "r", "m", 1), true},
		{"bought machines", dag.Placement{Spread: dag.LevelMachine}, at("1", "", "", 1), at("1", "", "", 1), false},
		{"packed in two zones", dag.Placement{Pack: dag.LevelZone}, at("1", "", "", 1), at("2", "", "", 1), true},
		{"packed in one zone", dag.Placement{Pack: dag.LevelZone}, at("1", "", "", 1), at("1", "", "", 1), false},
		{"a rack is in one zone", dag.Placement{Pack: dag.LevelRack}, at("1", "", "", 1), at("2", "r", "m", 1), true},
		{"it may be the same rack", dag.Placement{Pack: dag.LevelRack}, at("1", "", "", 1), at("1", "r", "m", 1), false},
		{"packed in two racks", dag.Placement{Pack: dag.LevelRack}, at("1", "q", "n", 1), at("1", "r", "m", 1), true},
		{"packed in one region", dag.Placement{Pack: dag.LevelRegion}, at("1", "", "", 1), at("2", "", "", 1), false},
		{"packed in two regions", dag.Placement{Pack: dag.LevelRegion}, at("1", "", "", 1), west, true},
	} {
		groups := []dag.PlacementGroup{{Placement: &c.rule, Tasks: []int{0, 1}}}
		mine := record.Location{Spots: []record.Spot{c.mine}}
		other := record.Placed{Job: "j", Task: 1, Location: record.Location{Spots: []record.Spot{c.other}}}
		if got := len(record.Clashes(groups, "j", 0, mine, []record.Placed{other})) > 0; got != c.clash {
			t.Errorf("%s: %v", c.name, got)
		}
		other.Job = "k"
		if len(record.Clashes(groups, "j", 0, mine, []record.Placed{other})) > 0 {
			t.Errorf("%s: also for another job", c.name)
		}
	}
}

func TestMinds(t *testing.T) {
	spot := record.Spot{Region: "aws:east", Zone: "1", Count: 1}
	task := func(labels map[string]string, apart map[string]string, by dag.Level) record.Location {
		of := dag.Task{Labels: labels}
		if apart != nil {
			of.Placement = []dag.Placement{{Apart: apart, By: by}}
		}
		return record.LocationOf(&of, []record.Spot{spot}, time.Time{})
	}
	web, db := map[string]string{"app": "web", "team": "red"}, map[string]string{"app": "db"}
	for _, c := range []struct {
		name        string
		mine, other record.Location
		clash       bool
	}{
		{"mine", task(nil, db, dag.LevelZone), task(db, nil, ""), true},
		{"the other's", task(db, nil, ""), task(nil, db, dag.LevelZone), true},
		{"one of its labels", task(nil, map[string]string{"x": "y", "team": "red"}, dag.LevelZone), task(web, nil, ""), true},
		{"none of its labels", task(nil, db, dag.LevelZone), task(web, nil, ""), false},
		{"on machines of their own", task(nil, db, ""), task(db, nil, ""), false},
	} {
		for job, clash := range map[string]bool{"other": c.clash, "j": false} {
			placed := []record.Placed{{Job: job, Task: 3, Location: c.other}}
			if got := len(record.Clashes(nil, "j", 0, c.mine, placed)) > 0; got != clash {
				t.Errorf("%s, of job %s: %v", c.name, job, got)
			}
		}
	}
}
