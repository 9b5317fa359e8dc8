package lab

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/lab/replay"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// clusterOptions are the flags of backtest cluster.
type clusterOptions struct {
	nodes, pods, policy string
	weights             []string
	every               command.Span
	replay              replay.Options
	output              command.Choice
}

func (a app) backtestClusterCommand() *cobra.Command {
	o := &clusterOptions{every: command.Span{Value: time.Minute}, output: command.NewChoice("table", "table", "json")}
	c := &cobra.Command{
		Use:   "cluster",
		Short: "Replay a GPU cluster's pods under a scheduling policy",
		Args:  command.Args(0, 0),
		Long: "Replays the recorded pods of a GPU cluster on its nodes, under a scheduling policy. Pods may use\n" +
			"shares of GPUs; the queue of a pod is its class of service. The report shows how long pods wait, how\n" +
			"much of the cluster is allocated, how much of the idle GPUs no pod can use, and how far queues are\n" +
			"from the shares of their weights. Files are CSV in the format of Alibaba's cluster-trace-gpu-v2023,\n" +
			"optionally gzipped. Exits with 2, and prints the field, for an invalid row or policy, or a pod that\n" +
			"fits no node. docs/scheduling.md defines the measures.",
		Example: "  tradewind-lab backtest cluster --nodes nodes.csv.gz --pods pods.csv.gz --policy policy.yaml\n" +
			"  tradewind-lab backtest cluster --nodes nodes.csv --pods pods.csv --speed 100 --weights LS=3,BE=1 " +
			"-o json",
	}
	f := c.Flags()
	f.StringVar(&o.nodes, "nodes", "", "file of nodes: sn,cpu_milli,memory_mib,gpu,model (required)")
	f.StringVar(&o.pods, "pods", "", "file of pods: "+
		"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time,scheduled_time "+
		"(required)")
	f.StringVar(&o.policy, "policy", "", "file of the policy, YAML")
	f.StringSliceVar(&o.weights, "weights", nil, "weights of queues, QUEUE=WEIGHT (default: 1)")
	f.Var(&o.every, "every", "virtual time between two scheduling sessions")
	f.Float64Var(&o.replay.Speed, "speed", 1, "how many times faster pods arrive; their run times stay")
	f.BoolVar(&o.replay.Stay, "stay", false, "let pods run forever, so that the cluster fills")
	f.VarP(&o.output, "output", "o", "output format")
	command.CompleteChoice(c, "output", &o.output)
	for _, name := range []string{"nodes", "pods", "policy"} {
		_ = c.MarkFlagFilename(name)
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		return a.backtestCluster(ctx, o)
	}
	return c
}

func (a app) backtestCluster(ctx context.Context, o *clusterOptions) error {
	if o.nodes == "" || o.pods == "" {
		return command.BadInput("docs/scheduling.md describes the files",
			"--nodes or --pods is missing: the cluster and its pods")
	}
	var err error
	if o.replay.Weights, err = parseWeights(o.weights); err != nil {
		return err
	}
	if !(o.replay.Speed > 0) || o.replay.Speed > 1e9 {
		return command.BadInput("", "--speed: %v is not above 0 and at most 1e9", o.replay.Speed)
	}
	if o.policy != "" {
		body, err := command.ReadFile(o.policy)
		if err != nil {
			return err
		}
		if o.replay.Policy, err = scheduler.ReadPolicy(o.policy, body); err != nil {
			return command.Because(err, command.ExitBadInput,
				"docs/scheduling.md lists actions, plugins and their settings", "%v", err)
		}
	}
	nodes, err := readTrace(o.nodes, replay.ReadNodes)
	if err != nil {
		return err
	}
	pods, err := readTrace(o.pods, replay.ReadPods)
	if err != nil {
		return err
	}
	o.replay.Every = o.every.Value
	r, err := replay.Run(ctx, nodes, pods, o.replay)
	if err != nil {
		return traceFailure(o.pods, err)
	}
	if o.output.JSON() {
		return a.PrintJSON(r)
	}
	return a.printReplay(r)
}

// parseWeights parses QUEUE=WEIGHT.
func parseWeights(words []string) (map[string]int, error) {
	out := map[string]int{}
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		n, err := strconv.Atoi(value)
		if err != nil || name == "" || n < 1 {
			return nil, command.BadInput("write them as LS=3,BE=1", "--weights: %q is not QUEUE=WEIGHT", w)
		}
		out[name] = n
	}
	return out, nil
}

// readTrace reads a file that may be gzipped.
func readTrace[T any](path string, read func(string, io.Reader) ([]T, error)) ([]T, error) {
	f, err := os.Open(path) //nolint:gosec // reading the file that the user names is the purpose
	if err != nil {
		return nil, command.Unreadable(path, err)
	}
	defer f.Close() //nolint:errcheck // only read
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(f)
		if err != nil {
			return nil, command.BadInput("", "%s: is not gzipped: %v", path, err)
		}
		in = z
	}
	out, err := read(path, in)
	if err != nil {
		return nil, traceFailure(path, err)
	}
	return out, nil
}

// traceFailure returns a bad-input failure if the trace is invalid.
func traceFailure(path string, err error) error {
	var bad *replay.BadTrace
	switch {
	case errors.As(err, &bad):
		if bad.File == "" {
			bad.File = path
		}
		return command.Because(err, command.ExitBadInput, "", "%v", bad)
	case errors.Is(err, scheduler.ErrInvalid):
		return command.Because(err, command.ExitBadInput, "", "%v", err)
	}
	return err
}

func (a app) printReplay(r *replay.Report) error {
	t := &text.Table{Columns: []text.Column{
		{Name: "QUEUE"}, {Name: "PODS", Right: true}, {Name: "PLACED", Right: true}, {Name: "GPUS", Right: true},
		{Name: "WAIT MEAN", Right: true},
		{Name: "P50", Right: true}, {Name: "P95", Right: true}, {Name: "MAX", Right: true},
	}}
	add := func(name string, pods, placed int, gpu float64, w replay.Quantiles) {
		t.Row(name, strconv.Itoa(pods), strconv.Itoa(placed), percent(gpu), waited(w.Mean), waited(w.P50),
			waited(w.P95), waited(w.Max))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Queues)) {
		q := r.Queues[name]
		add(text.Clean(name), q.Pods, q.Placed, q.GPU, q.Wait)
	}
	add("all", r.Pods, r.Placed, r.Allocation.GPU, r.Wait)
	if err := a.PrintTable(t); err != nil {
		return err
	}
	return a.Printf("%s with %s for %.0f h in %s: allocated %s of GPUs (at most %s), %s of cores, %s of memory; idle "+
		"GPUs that no pod could use %s (at most %s); shares missed by %s; %s evicted\n",
		text.Count(r.Nodes, "node"), text.Count(r.GPUs, "GPU"), r.Hours, text.Count(r.Sessions, "session"),
		percent(r.Allocation.GPU), percent(r.Peak.GPU), percent(r.Allocation.CPU), percent(r.Allocation.Memory),
		percent(r.Fragmentation), percent(r.PeakFragmentation), percent(r.ShareError), text.Count(r.Evicted, "pod"))
}

func percent(x float64) string { return fmt.Sprintf("%.1f%%", 100*x) }

func waited(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}
