package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/lab/replay"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// The replayed month, the last of the trace, and the part of the trace's nodes that is used: on all nodes hardly any
// pod would wait.
const (
	monthDays  = 30
	everyNode  = 200
	traceEnds  = 149.4 // days
	secondsDay = 24 * 60 * 60
)

// users are the five namespaces and the share of the pods that each gets: the trace names no users.
func users() (names []string, parts []float64) {
	return []string{"ann", "bob", "cat", "dan", "eve"}, []float64{0.5, 0.2, 0.15, 0.1, 0.05}
}

// userOf draws the user of a pod from its name.
func userOf(pod string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(pod))
	x := float64(h.Sum32()%10_000) / 10_000
	names, parts := users()
	for i, p := range parts {
		if x < p {
			return names[i]
		}
		x -= p
	}
	return names[len(names)-1]
}

// restartCost is the time that a restart elsewhere costs a pod that has saved its work, as the broker assumes it.
const restartCost = 10 * time.Minute

// rule is a way to share the cluster.
type rule struct {
	name, policy string
	queues       bool // a queue for each user, instead of a namespace in one shared queue
	saves        time.Duration
	halfLife     time.Duration
}

func rules() []rule {
	const nodes = "predicates, nodeorder"
	return []rule{
		{"plain FIFO", "actions: [allocate]\ntiers: [[" + nodes + "]]", false, 0, 0},
		{"DRF between jobs", "actions: [allocate]\ntiers: [[drf], [" + nodes + "]]", false, 0, 0},
		{"Volcano's rules as in its paper", "actions: [enqueue, allocate, preempt, backfill]\n" +
			"tiers: [[priority, gang], [namespace, drf, " + nodes + ", proportion]]", false, 0, 0},
		{"**namespaces, and pods that have waited for a day first**", "actions: [enqueue, allocate, backfill, reserve]\n" +
			"tiers: [[{name: sla, args: {maxWait: 24h}}, priority, gang], [namespace, drf, proportion, predicates, " +
			"binpack]]", false, restartCost, 0},
		{"**the same, with the usage of the last week**", "actions: [enqueue, allocate, backfill, reserve]\n" +
			"tiers: [[{name: sla, args: {maxWait: 24h}}, priority, gang], [{name: usage, args: {halfLife: 168h}}, " +
			"namespace, drf, proportion, predicates, binpack]]", false, restartCost, 7 * 24 * time.Hour},
		{"Volcano's rules, a queue for each user", "actions: [enqueue, allocate, preempt, reclaim, backfill]\n" +
			"tiers: [[priority, gang], [drf, " + nodes + ", proportion]]", true, 0, 0},
		{"**a queue for each user, with reclaim**", "actions: [enqueue, allocate, preempt, reclaim, backfill, reserve]\n" +
			"tiers: [[{name: sla, args: {maxWait: 24h}}, priority, gang], " +
			"[drf, proportion, predicates, binpack]]", true, restartCost,
			0},
	}
}

// month returns the last month of the trace: the pods that fit on some node.
func month(data string) (nodes []replay.Node, pods []replay.Pod, err error) {
	all, err := read(filepath.Join(data, "openb_node_list_all_node.csv.gz"), replay.ReadNodes)
	if err != nil {
		return nil, nil, err
	}
	for i := range all {
		if i%everyNode == 0 {
			nodes = append(nodes, all[i])
		}
	}
	came, err := read(filepath.Join(data, "openb_pod_list_default.csv.gz"), replay.ReadPods)
	if err != nil {
		return nil, nil, err
	}
	const from = (traceEnds - monthDays) * secondsDay
	for _, p := range came {
		fits := slices.ContainsFunc(nodes, func(n replay.Node) bool {
			return n.CPU >= p.CPU && n.Memory >= p.Memory && n.GPUs >= p.GPUs &&
				(len(p.Models) == 0 || slices.Contains(p.Models, n.Model))
		})
		if p.Created >= from && fits {
			p.Created -= from
			pods = append(pods, p)
		}
	}
	return nodes, pods, nil
}

// fairness replays the month with each rule.
func fairness(ctx context.Context, data string) (string, error) {
	nodes, pods, err := month(data)
	if err != nil {
		return "", err
	}
	names, parts := users()
	var b strings.Builder
	fmt.Fprintf(&b, "Five users share a cluster for a month: the last %d days of the trace, %d pods, on every %dth of "+
		"its nodes, so that pods have to wait. The trace names no users: pods are drawn for %s with probabilities %v; "+
		"all users have the "+
		"same weight. Share error is the difference between their GPUs and max-min fairness of the allocated ones, "+
		"while any pod waits. "+
		"Lost work is the work of evicted pods, which start again under Volcano's rules; "+
		"under the other rules they save it, like "+
		"the broker's tasks, and lose a start of ten minutes.\n\n"+
		"| rule | share error | wait: mean, h | 95 %% | maximum | of the user with the fewest pods | with the most "+
		"| evicted | lost work "+
		"| never placed |\n| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |\n",
		monthDays, len(pods), everyNode,
		strings.Join(names, ", "), parts)
	for _, r := range rules() {
		policy, err := scheduler.ReadPolicy("policy", []byte(r.policy))
		if err != nil {
			return "", err
		}
		of := slices.Clone(pods)
		for i := range of {
			if of[i].Namespace, of[i].Class = userOf(of[i].Name), "all"; r.queues {
				of[i].Class, of[i].Namespace = of[i].Namespace, ""
			}
		}
		x, err := replay.Run(ctx, nodes, of, replay.Options{Policy: policy, Every: time.Minute,
			Saves: r.saves, HalfLife: r.halfLife})
		if err != nil {
			return "", err
		}
		hours := func(seconds float64) float64 { return seconds / time.Hour.Seconds() }
		fmt.Fprintf(&b, "| %s | %.2f%% | %.2f | %.1f | %.1f | %.2f | %.2f | %d | %.2f%% | %d |\n",
			r.name, 100*x.ShareError,
			hours(x.Wait.Mean), hours(x.Wait.P95), hours(x.Wait.Max), hours(x.Queues[names[len(names)-1]].Wait.Mean),
			hours(x.Queues[names[0]].Wait.Mean), x.Evicted, 100*x.Lost, x.Unplaced)
	}
	return b.String(), nil
}
