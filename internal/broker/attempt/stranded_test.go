package attempt

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

// No member of a gang runs, some have machines that are up, and one is queued to restart alone. Then the whole gang
// must restart. Otherwise the members that are up would wait for the queued one for ever, and hold machines that it
// may need.
func TestGangBreaksWhenNoMemberRunsBesideRestart(t *testing.T) {
	member := func(index int, state record.TaskState, command wire.Command) Member {
		m := Member{Losing: Losing{Task: record.Task{Job: "j", Index: index, Gang: "g", State: state}}}
		if m.Bought = state != record.TaskQueued; m.Bought {
			m.Cluster = record.Cluster{ID: record.ClusterID("j", index, 2), State: record.ClusterUp, Command: string(command)}
		}
		return m
	}
	up, queued := member(0, record.TaskLaunching, ""), member(1, record.TaskQueued, "")
	runs := member(2, record.TaskRunning, wire.Run)
	alone := queued
	alone.Task.Alone = true
	first, last := alone, member(1, record.TaskLaunching, "")
	first.Task.Index = 0
	for name, c := range map[string]struct {
		members []Member
		breaks  bool
		task    int // the task that is queued
	}{
		"one runs, and the one that is up waits with it": {members: []Member{up, alone, runs}},
		"none runs":                  {members: []Member{up, alone}, breaks: true, task: 1},
		"none runs beside the first": {members: []Member{first, last}, breaks: true},
		"none runs, and what is broken already waits": {members: []Member{up, queued}},
	} {
		t.Run(name, func(t *testing.T) {
			d := DecideRunGang(c.members, time.Unix(10_000, 0))
			if len(d.Writes) > 0 {
				t.Errorf("written: %+v", d.Writes)
			}
			broken, is := events.GangBroken{}, false
			for _, e := range d.Emits {
				broken, is = e.(events.GangBroken)
			}
			if is != c.breaks || is && (broken.Task != c.task || broken.Gang != "g") {
				t.Errorf("breaks: %v %+v", is, broken)
			}
		})
	}
}
