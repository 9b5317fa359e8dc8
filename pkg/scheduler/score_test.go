package scheduler_test

import (
	"math"
	"testing"

	. "github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// The settings of plugins must determine the scores of nodes. Each case has two nodes, and the difference of their
// scores for the task. A single measure has a maximum of 100.
func TestNodeScores(t *testing.T) {
	const half = " cpu=2"
	for name, c := range map[string]struct {
		plugin string
		world  string // node a, node b, tasks that run on them, and the task of job j
		want   float64
	}{
		"nodeorder: prefers empty nodes": {"{name: nodeorder, args: {balanced: 0}}",
			"node a cpu=8\nnode b cpu=8\njob r cpu=4 on=a\njob j tasks=1" + half, 50},
		"nodeorder: leastAllocated doubled": {"{name: nodeorder, args: {balanced: 0, leastAllocated: 2}}",
			"node a cpu=8\nnode b cpu=8\njob r cpu=4 on=a\njob j tasks=1" + half, 100},
		"nodeorder: prefers larger nodes": {"{name: nodeorder, args: {balanced: 0}}",
			"node a cpu=4\nnode b cpu=8\njob j tasks=1" + half, 25},
		"nodeorder: mean of two resources": {"{name: nodeorder, args: {balanced: 0}}",
			"node a cpu=4 mem=4\nnode b cpu=8 mem=4\njob j tasks=1 mem=1" + half, 12.5},
		"nodeorder: GPUs count": {"{name: nodeorder, args: {balanced: 0}}",
			"node a gpu=2\nnode b gpu=4\njob j tasks=1 gpu=1", 25},
		"nodeorder: prefers balanced usage": {"{name: nodeorder, args: {leastAllocated: 0}}",
			"node a cpu=4 mem=8\nnode b cpu=4 mem=4\njob j tasks=1 mem=2" + half, 100 * 0.125 * 0.125},
		"nodeorder: balanced times four": {"{name: nodeorder, args: {leastAllocated: 0, balanced: 4}}",
			"node a cpu=2 mem=8\nnode b cpu=4 mem=4\njob j tasks=1 mem=2" + half, 400 * 0.375 * 0.375},
		"nodeorder: empty request": {"nodeorder", "node a cpu=4\nnode b cpu=8\njob j tasks=1", 0},
		"nodeorder: preferred label": {"{name: nodeorder, args: {balanced: 0, leastAllocated: 0}}",
			"node a cpu=8\nnode b cpu=8 labels=disk:ssd\njob j tasks=1 want=disk:ssd" + half, 100},
		"nodeorder: one of two preferred labels": {"{name: nodeorder, args: {balanced: 0, leastAllocated: 0}}",
			"node a cpu=8\nnode b cpu=8 labels=disk:ssd\njob j tasks=1 want=disk:ssd,net:fast" + half, 50},
		"nodeorder: preferences times three": {
			"{name: nodeorder, args: {balanced: 0, leastAllocated: 0, preferences: 3}}",
			"node a cpu=8\nnode b cpu=8 labels=disk:ssd\njob j tasks=1 want=disk:ssd,net:fast" + half, 150},
		"nodeorder: preferred label and free room": {"{name: nodeorder, args: {balanced: 0}}",
			"node a cpu=8\nnode b cpu=8 labels=disk:ssd\njob r cpu=4 on=a\njob j tasks=1 want=disk:ssd" + half, 150},
		"nodeorder: balance only": {"{name: nodeorder, args: {leastAllocated: 0}}",
			"node a cpu=4 mem=4\nnode b cpu=4 mem=4\njob r cpu=2 on=a\njob j tasks=1 mem=2" + half, 100 * 0.25 * 0.25},
		"nodeorder: a soft taint": {"{name: nodeorder, args: {balanced: 0, leastAllocated: 0}}",
			"node a cpu=8 soft=old:yes\nnode b cpu=8\njob j tasks=1" + half, 100},
		"nodeorder: a tolerated soft taint": {"{name: nodeorder, args: {balanced: 0, leastAllocated: 0}}",
			"node a cpu=8 soft=old:yes\nnode b cpu=8\njob j tasks=1 tolerate=old" + half, 0},
		"binpack: prefers full nodes": {"binpack", "node a cpu=8\nnode b cpu=8\njob r cpu=4 on=b\njob j tasks=1" + half, 50},
		"binpack: weight doubled": {"{name: binpack, args: {weight: 2}}",
			"node a cpu=8\nnode b cpu=8\njob r cpu=4 on=b\njob j tasks=1" + half, 100},
		"binpack: prefers smaller nodes": {"binpack", "node a cpu=8\nnode b cpu=4\njob j tasks=1" + half, 25},
		"binpack: mean of two resources": {"binpack",
			"node a cpu=8 mem=4\nnode b cpu=4 mem=4\njob j tasks=1 mem=1" + half, 12.5},
		"binpack: weighted resources": {"{name: binpack, args: {resources: {cpu: 3}}}",
			"node a cpu=8 mem=4\nnode b cpu=4 mem=4\njob j tasks=1 mem=1" + half, 18.75},
		"binpack: resource with weight 0": {"{name: binpack, args: {resources: {cpu: 0}}}",
			"node a cpu=8\nnode b cpu=4\njob j tasks=1" + half, 0},
		"binpack: empty request":              {"binpack", "node a cpu=8 gpu=1\nnode b cpu=4\njob j tasks=1", 0},
		"binpack: keeps GPU nodes for others": {"binpack", "node a cpu=8 gpu=1\nnode b cpu=8\njob j tasks=1" + half, 100},
		"binpack: device weight halved": {"{name: binpack, args: {device: 0.5}}",
			"node a cpu=8 gpu=1\nnode b cpu=8\njob j tasks=1" + half, 50},
		"binpack: a shared GPU": {"binpack",
			"node a gpu=1\nnode b gpu=1\njob r gpu=0.5 on=b\njob j tasks=1 gpu=0.25", 50 + 50},
		"binpack: one of several GPUs shared": {"binpack",
			"node a gpu=2\nnode b gpu=2\njob r gpu=0.5 on=b\njob j tasks=1 gpu=0.25", 25 + 50},
		"binpack: an exactly fitting GPU share": {"binpack",
			"node a gpu=2\nnode b gpu=2\njob r gpu=0.5 on=b\njob j tasks=1 gpu=0.5", 25 + 50},
		"binpack: a GPU that is too full": {"binpack",
			"node a gpu=2\nnode b gpu=2\njob r gpu=0.5 on=b\njob j tasks=1 gpu=0.75", 25},
		"binpack: device weight 0": {"{name: binpack, args: {device: 0}}",
			"node a gpu=2\nnode b gpu=2\njob r gpu=0.5 on=b\njob j tasks=1 gpu=0.25", 25},
		"binpack: whole GPUs": {"binpack",
			"node a gpu=2\nnode b gpu=2\njob r gpu=1 on=b\njob j tasks=1 gpu=1", 50},
		"binpack: several whole GPUs": {"binpack",
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
				t.Errorf("b scores %v more, want %v", got, c.want)
			}
		})
	}
}
