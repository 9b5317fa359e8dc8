// Command scheduler measures sessions of pkg/scheduler, from a snapshot to a result, and replays a recorded GPU cluster
// under several policies. It writes its section of bench/RESULTS.md.
//
//	bin/bench/scheduler -report bench/RESULTS.md
package main

import (
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/bench/internal/processor"
	"github.com/tradewind-broker/tradewind/internal/benchreport"
	"github.com/tradewind-broker/tradewind/internal/lab/replay"
	"github.com/tradewind-broker/tradewind/internal/scheduler/schedulertest"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

func main() {
	results := flag.String("report", "", "page whose section to update; empty prints it")
	data := flag.String("data", "../shared/data/cluster-traces/alibaba-gpu-2023", "folder of the recorded cluster")
	repeats := flag.Int("repeats", 11, "measured rounds of each size")
	only := flag.String("only", "", "measure and print only this: sessions, replays or fairness")
	flag.Parse()
	if err := run(context.Background(), *results, *data, *repeats, *only); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, results, data string, repeats int, only string) error {
	body := ""
	for _, part := range []struct {
		name    string
		measure func() (string, error)
	}{
		{"sessions", func() (string, error) { return sessions(repeats) }},
		{"replays", func() (string, error) { return replays(ctx, data) }},
		{"fairness", func() (string, error) { return fairness(ctx, data) }},
	} {
		if only != "" && part.name != only {
			continue
		}
		text, err := part.measure()
		if errors.Is(err, fs.ErrNotExist) {
			text, err = "The recorded cluster is missing, so it was not replayed.\n", nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		body += text + "\n"
	}
	if results == "" || only != "" {
		_, err := fmt.Println(benchreport.Section("Scheduler", body, time.Now()))
		return err
	}
	return benchreport.Write(results, "Scheduler", strings.TrimRight(body, "\n")+"\n", time.Now())
}

// sessions measures on one core. It measures processor time, so that other load on the machine does not count.
func sessions(repeats int) (string, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var b strings.Builder
	b.WriteString("`bin/bench/scheduler`: a session from snapshot to result (open, enqueue, allocate, preempt, " +
		"reclaim, backfill, reserve, close) with sla, priority, gang, namespace, drf, proportion, predicates, " +
		"binpack and topology, on one core; 20 weighted queues, 10 users, 32 shapes of requests, gangs of up to 16, " +
		"shares of GPUs, labels and taints. Milliseconds of processor time, including garbage collection: median, " +
		"minimum and maximum of " +
		fmt.Sprint(repeats) + " rounds, each the median of " + fmt.Sprint(perRound) + " sessions. \"Every " +
		"plugin\" adds usage, nodeorder and tdm " +
		"and replaces proportion by capacity: the target is at most twice the time.\n\n" +
		"are added, and capacity is in the place of proportion: at most twice the time is the target.\n\n" +
		"| pending tasks | nodes | tasks that fit | target | milliseconds | a task |\n" +
		"| --: | --: | --: | --- | --: | --: |\n")
	every, err := scheduler.ReadPolicy("every plugin", []byte(everyPlugin))
	if err != nil {
		return "", err
	}
	var sizes []*size
	for _, tasks := range []int{10_000, 20_000, 50_000, 100_000} {
		for _, full := range []float64{0.8, 2} {
			sizes = append(sizes, &size{tasks: tasks, full: full, policy: scheduler.DefaultPolicy()})
		}
	}
	const ofEvery = 2 // the last sizes: all plugins on the smallest snapshots
	for _, full := range []float64{0.8, 2} {
		sizes = append(sizes, &size{tasks: sizes[0].tasks, full: full, policy: every})
	}
	for range repeats { // in turns, so that temporary load on the machine affects all sizes
		for _, z := range sizes {
			if err := z.measure(); err != nil {
				return "", err
			}
		}
	}
	for i, z := range sizes {
		target := ""
		if z.tasks == 10_000 {
			target = "100 ms"
		}
		slices.Sort(z.took)
		plugins := ""
		if i >= len(sizes)-ofEvery {
			plugins = ", every plugin"
			target = fmt.Sprintf("%.1f ms", 2*ms(sizes[i-len(sizes)+ofEvery].middle()))
		}
		fmt.Fprintf(&b, "| %d%s | 1000 | %d | %s | %.1f (%.1f to %.1f) | %.2f µs |\n",
			z.tasks, plugins, z.bound, target,
			ms(z.middle()), ms(z.took[0]), ms(z.took[len(z.took)-1]), 1000*z.geometricMean())
	}
	last := len(sizes) - 2 - ofEvery
	fmt.Fprintf(&b, "\nA task of 100,000 costs %.2f times as much as one of 10,000 if nearly all fit, and %.2f "+
		"times if half of them fit: geometric means of %d rounds; at most 1 is linear.\n",
		sizes[last].geometricMean()/sizes[0].geometricMean(), sizes[last+1].geometricMean()/sizes[1].geometricMean(), repeats)
	return b.String(), nil
}

// size is a size of snapshot, and the measured sessions on it.
type size struct {
	tasks, bound int
	full         float64
	policy       *scheduler.Policy
	took         []time.Duration // medians of rounds
}

// middle is the median of the sorted rounds.
func (z *size) middle() time.Duration { return z.took[len(z.took)/2] }

// everyPlugin lists all plugins, with capacity instead of proportion.
const everyPlugin = `
actions: [enqueue, allocate, preempt, reclaim, backfill, reserve]
tiers:
  - [{name: sla, args: {maxWait: 30m}}, priority, gang]
  - - namespace
    - usage
    - drf
    - capacity
    - predicates
    - nodeorder
    - binpack
    - name: tdm
      args: {windows: {night: {from: "22:00", to: "06:00", zone: UTC}}}
    - topology
`

// perRound is the number of sessions in a round.
const perRound = 5

// measure runs a round. Only its own snapshot is in memory: other live data would delay garbage collection.
func (z *size) measure() error {
	snapshot := schedulertest.New(schedulertest.Options{Nodes: 1000, Tasks: z.tasks, Full: z.full})
	runtime.GC()
	var took []time.Duration
	for range perRound {
		before := processor.Time()
		s, err := scheduler.Open(snapshot, z.policy)
		if err != nil {
			return err
		}
		s.Run()
		z.bound = len(s.Close().Binds)
		took = append(took, processor.Time()-before)
	}
	slices.Sort(took)
	z.took = append(z.took, took[perRound/2])
	return nil
}

// geometricMean is the geometric mean of the time for a task, in milliseconds.
func (z *size) geometricMean() float64 {
	sum := 0.0
	for _, d := range z.took {
		sum += math.Log(ms(d) / float64(z.tasks))
	}
	return math.Exp(sum / float64(len(z.took)))
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// replays fills the recorded cluster with several policies.
func replays(ctx context.Context, data string) (string, error) {
	nodes, err := read(filepath.Join(data, "openb_node_list_all_node.csv.gz"), replay.ReadNodes)
	if err != nil {
		return "", err
	}
	pods, err := read(filepath.Join(data, "openb_pod_list_default.csv.gz"), replay.ReadPods)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("The pods of cluster-trace-gpu-v2023 arrive as recorded and stay, until the cluster is full " +
		"(`tradewind-lab backtest cluster --stay --every 1h --policy FILE`). Fragmentation is the maximum share of all GPUs " +
		"that is idle but cannot be used by a pod drawn from the trace, including pods without GPUs.\n\n" +
		"| node order | pods placed | GPUs allocated | fragmentation | share error | seconds of processor |\n" +
		"| --- | --: | --: | --: | --: | --: |\n")
	for _, order := range []string{"binpack", "{name: binpack, args: {resources: {gpu: 5}}}", "nodeorder"} {
		policy, err := scheduler.ReadPolicy("policy", []byte("actions: [enqueue, allocate, reclaim, backfill, "+
			"reserve]\ntiers: [[priority, gang], [drf, proportion, predicates, "+order+"]]"))
		if err != nil {
			return "", err
		}
		before := processor.Time()
		r, err := replay.Run(ctx, nodes, pods, replay.Options{Policy: policy, Every: time.Hour, Stay: true})
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| `%s` | %d of %d | %.1f%% | %.1f%% | %.2f%% | %.1f |\n", order, r.Placed, r.Pods,
			100*r.Peak.GPU, 100*r.PeakFragmentation, 100*r.ShareError, (processor.Time() - before).Seconds())
	}
	return b.String(), nil
}

func read[T any](path string, parse func(string, io.Reader) ([]T, error)) ([]T, error) {
	f, err := os.Open(path) //nolint:gosec // a path the user named
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read-only
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return parse(filepath.Base(path), z)
}
