package scheduler_test

import (
	"math"
	"testing"

	. "github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// Nodes are worth what the settings of a policy's plugins make of them. Each case names two nodes and by how much the
// second is worth more to the task, of a hundred for what is the most by one measure.
func TestWhatNodesAreWorth(t *testing.T) {
	const half = " cpu=2"
	for name, c := range map[string]struct {
		plugin string
		world  string // node a, node b, what runs there, and the task of job j
		want   float64
	}{
		"nodeorder: what is empty": {"{name: nodeorder, args: {balanced: 0}}",
			"node a cpu=8\nnode b cpu=8\njob r cpu=4 on=a\njob j tasks=1" + half, 50},
		"nodeorder: twice as much of it": {"{name: nodeorder, args: {balanced: 0, leastAllocated: 2}}",
			"node a cpu=8\nnode b cpu=8\njob r cpu=4 on=a\njob j tasks=1" + half, 100},
		"nodeorder: the larger": {"{name: nodeorder, args: {balanced: 0}}",
			"node a cpu=4\nnode b cpu=8\njob j tasks=1" + half, 25},
		"nodeorder: of two resources their mean": {"{name: nodeorder, args: {balanced: 0}}",
			"node a cpu=4 mem=4\nnode b cpu=8 mem=4\njob j tasks=1 mem=1" + half, 12.5},
		"nodeorder: of GPUs as well": {"{name: nodeorder, args: {balanced: 0}}",
			"node a gpu=2\nnode b gpu=4\njob j tasks=1 gpu=1", 25},
		"nodeorder: what is used evenly": {"{name: nodeorder, args: {leastAllocated: 0}}",
			"node a cpu=4 mem=8\nnode b cpu=4 mem=4\njob j tasks=1 mem=2" + half, 100 * 0.125 * 0.125},
		"nodeorder: much more unevenly": {"{name: nodeorder, args: {leastAllocated: 0, balanced: 4}}",
			"node a cpu=2 mem=8\nnode b cpu=4 mem=4\njob j tasks=1 mem=2" + half, 400 * 0.375 * 0.375},
		"nodeorder: nothing is asked for": {"nodeorder", "node a cpu=4\nnode b cpu=8\njob j tasks=1", 0},
		"nodeorder: what it wants": {"{name: nodeorder, args: {balanced: 0, leastAllocated: 0}}",
			"node a cpu=8\nnode b cpu=8 labels=disk:ssd\njob j tasks=1 want=disk:ssd" + half, 100},
		"nodeorder: half of what it wants": {"{name: nodeorder, args: {balanced: 0, leastAllocated: 0}}",
			"node a cpu=8\nnode b cpu=8 labels=disk:ssd\njob j tasks=1 want=disk:ssd,net:fast" + half, 50},
		"nodeorder: for what it wants alone": {
			"{name: nodeorder, args: {balanced: 0, leastAllocated: 0, preferences: 3}}",
			"node a cpu=8\nnode b cpu=8 labels=disk:ssd\njob j tasks=1 want=disk:ssd,net:fast" + half, 150},
		"nodeorder: and room": {"{name: nodeorder, args: {balanced: 0}}",
			"node a cpu=8\nnode b cpu=8 labels=disk:ssd\njob r cpu=4 on=a\njob j tasks=1 want=disk:ssd" + half, 150},
		"nodeorder: balance alone": {"{name: nodeorder, args: {leastAllocated: 0}}",
			"node a cpu=4 mem=4\nnode b cpu=4 mem=4\njob r cpu=2 on=a\njob j tasks=1 mem=2" + half, 100 * 0.25 * 0.25},
		"nodeorder: a soft taint": {"{name: nodeorder, args: {balanced: 0, leastAllocated: 0}}",
			"node a cpu=8 soft=old:yes\nnode b cpu=8\njob j tasks=1" + half, 100},
		"nodeorder: a soft taint that it stands": {"{name: nodeorder, args: {balanced: 0, leastAllocated: 0}}",
			"node a cpu=8 soft=old:yes\nnode b cpu=8\njob j tasks=1 tolerate=old" + half, 0},
		"binpack: what is full": {"binpack", "node a cpu=8\nnode b cpu=8\njob r cpu=4 on=b\njob j tasks=1" + half, 50},
		"binpack: twice as much of it": {"{name: binpack, args: {weight: 2}}",
			"node a cpu=8\nnode b cpu=8\njob r cpu=4 on=b\njob j tasks=1" + half, 100},
		"binpack: the smaller": {"binpack", "node a cpu=8\nnode b cpu=4\njob j tasks=1" + half, 25},
		"binpack: of two resources their mean": {"binpack",
			"node a cpu=8 mem=4\nnode b cpu=4 mem=4\njob j tasks=1 mem=1" + half, 12.5},
		"binpack: what counts more of them": {"{name: binpack, args: {resources: {cpu: 3}}}",
			"node a cpu=8 mem=4\nnode b cpu=4 mem=4\njob j tasks=1 mem=1" + half, 18.75},
		"binpack: what counts for nothing": {"{name: binpack, args: {resources: {cpu: 0}}}",
			"node a cpu=8\nnode b cpu=4\njob j tasks=1" + half, 0},
		"binpack: nothing is asked for": {"binpack", "node a cpu=8 gpu=1\nnode b cpu=4\njob j tasks=1", 0},
		"binpack: GPUs are for others":  {"binpack", "node a cpu=8 gpu=1\nnode b cpu=8\njob j tasks=1" + half, 100},
		"binpack: or not much": {"{name: binpack, args: {device: 0.5}}",
			"node a cpu=8 gpu=1\nnode b cpu=8\njob j tasks=1" + half, 50},
		"binpack: a GPU that is shared": {"binpack",
			"node a gpu=1\nnode b gpu=1\njob r gpu=0.5 on=b\njob j tasks=1 gpu=0.25", 50 + 50},
		"binpack: one of several that is": {"binpack",
			"node a gpu=2\nnode b gpu=2\njob r gpu=0.5 on=b\njob j tasks=1 gpu=0.25", 25 + 50},
		"binpack: one that is full enough": {"binpack",
			"node a gpu=2\nnode b gpu=2\njob r gpu=0.5 on=b\njob j tasks=1 gpu=0.5", 25 + 50},
		"binpack: one that is too full": {"binpack",
			"node a gpu=2\nnode b gpu=2\njob r gpu=0.5 on=b\njob j tasks=1 gpu=0.75", 25},
		"binpack: sharing counts for nothing": {"{name: binpack, args: {device: 0}}",
			"node a gpu=2\nnode b gpu=2\njob r gpu=0.5 on=b\njob j tasks=1 gpu=0.25", 25},
		"binpack: whole GPUs": {"binpack",
			"node a gpu=2\nnode b gpu=2\njob r gpu=1 on=b\njob j tasks=1 gpu=1", 50},
		"binpack: several": {"binpack",
			"node a gpu=4\nnode b gpu=4\njob r gpu=1 on=b\njob j tasks=1 gpu=2", 25},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.add("queue default\n" + c.world)
			s, err := Open(&w.snap, policyOf(t, nil, nil, "actions: [allocate]\ntiers: [["+c.plugin+"]]"))
			if err != nil {
				t.Fatal(err)
			}
			task := &s.Job("j").Tasks[0]
			got := s.Score(task, s.Node("b")) - s.Score(task, s.Node("a"))
			if math.IsNaN(got) || math.Abs(got-c.want) > 1e-6 {
				t.Errorf("b is worth %v more, want %v", got, c.want)
			}
		})
	}
}
