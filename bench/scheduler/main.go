// Command scheduler measures sessions of pkg/scheduler, from a snapshot to a result, and replays a recorded GPU cluster under
// several policies. It writes its section of bench/RESULTS.md.
//
//	go run ./bench/scheduler -report bench/RESULTS.md
package main

import (
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tradewind-broker/tradewind/bench/report"
	"github.com/tradewind-broker/tradewind/internal/fleet"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
	"github.com/tradewind-broker/tradewind/pkg/scheduler/replay"
)

func main() {
	results := flag.String("report", "", "page to write the section of; empty prints it")
	data := flag.String("data", "../shared/data/cluster-traces/alibaba-gpu-2023", "folder of the recorded cluster")
	repeats := flag.Int("repeats", 11, "sessions measured of each size")
	flag.Parse()
	if err := run(context.Background(), *results, *data, *repeats); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, results, data string, repeats int) error {
	body, err := sessions(repeats)
	if err != nil {
		return err
	}
	replayed, err := replays(ctx, data)
	if errors.Is(err, fs.ErrNotExist) {
		replayed, err = "The recorded cluster is not there: its replay was left out.\n", nil
	}
	if err != nil {
		return err
	}
	body += "\n" + replayed
	if results == "" {
		_, err := fmt.Println(report.Section("Scheduler", body, time.Now()))
		return err
	}
	return report.Write(results, "Scheduler", body, time.Now())
}

// sessions measures on one core. Times are of the processor, so that what else the machine does counts for nothing.
func sessions(repeats int) (string, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var b strings.Builder
	b.WriteString("`go run ./bench/scheduler`: a session from snapshot to result (open, enqueue, allocate, preempt, reclaim, backfill, reserve, close) with sla, priority, " +
		"gang, namespace, drf, proportion, predicates, binpack and topology, on one core; 20 weighted queues, 10 users, 32 shapes of requests, gangs of up to 16, " +
		"shares of GPUs, labels and taints. Milliseconds of processor time, with collecting garbage; median, least and most.\n\n" +
		"| pending tasks | nodes | tasks that fit | target | milliseconds | a task |\n| --: | --: | --: | --- | --: | --: |\n")
	for _, tasks := range []int{10_000, 20_000, 50_000, 100_000} {
		for _, full := range []float64{0.8, 2} {
			target := ""
			if tasks == 10_000 {
				target = "100 ms"
			}
			took, bound, err := measure(fleet.New(fleet.Options{Nodes: 1000, Tasks: tasks, Full: full}), repeats)
			if err != nil {
				return "", err
			}
			middle := took[len(took)/2]
			fmt.Fprintf(&b, "| %d | 1000 | %d | %s | %.1f (%.1f to %.1f) | %.2f µs |\n", tasks, bound, target, ms(middle), ms(took[0]), ms(took[len(took)-1]),
				float64(middle.Nanoseconds())/1000/float64(tasks))
		}
	}
	return b.String(), nil
}

func measure(snapshot *scheduler.Snapshot, repeats int) (took []time.Duration, bound int, err error) {
	policy := scheduler.DefaultPolicy()
	for range repeats {
		before := processor()
		s, err := scheduler.Open(snapshot, policy)
		if err != nil {
			return nil, 0, err
		}
		s.Run()
		bound = len(s.Close().Binds)
		took = append(took, processor()-before)
	}
	slices.Sort(took)
	return took, bound, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func processor() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// replays fills the recorded cluster under several policies.
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
	b.WriteString("The pods of cluster-trace-gpu-v2023 come as they did and stay, until the cluster is full (`tradewind backtest cluster --stay --every 1h --policy FILE`). " +
		"Fragmentation is the part of all GPUs that is idle where a pod drawn from the trace could not use it, at its most; it counts pods without GPUs.\n\n" +
		"| node order | pods placed | GPUs allocated | fragmentation | share error | seconds of processor |\n| --- | --: | --: | --: | --: | --: |\n")
	for _, order := range []string{"binpack", "{name: binpack, args: {resources: {gpu: 5}}}", "nodeorder"} {
		policy, err := scheduler.ReadPolicy("policy", []byte("actions: [enqueue, allocate, reclaim, backfill, reserve]\ntiers: [[priority, gang], [drf, proportion, predicates, "+order+"]]"))
		if err != nil {
			return "", err
		}
		before := processor()
		r, err := replay.Run(ctx, nodes, pods, replay.Options{Policy: policy, Every: time.Hour, Stay: true})
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| `%s` | %d of %d | %.1f%% | %.1f%% | %.2f%% | %.1f |\n", order, r.Placed, r.Pods, 100*r.Peak.GPU, 100*r.PeakFragmentation, 100*r.ShareError,
			(processor() - before).Seconds())
	}
	return b.String(), nil
}

func read[T any](path string, parse func(string, io.Reader) ([]T, error)) ([]T, error) {
	f, err := os.Open(path) //nolint:gosec // a path the user named
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read from
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return parse(filepath.Base(path), z)
}
