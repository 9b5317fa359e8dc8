// Command kube measures the broker on a large Kubernetes cluster: ten thousand pods in gangs of 1 to 64 on a thousand
// nodes that KWOK simulates. Some nodes exist at the start, the others are added as Karpenter would. The API server and
// the scheduler are real. For comparison, `kubectl apply` creates the same pods on the same nodes in the same run.
//
//	bin/bench/kube -report bench/RESULTS.md
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/benchreport"
)

// scale is the size of the cluster.
type scale struct {
	pods, nodes, there int // maximum number of nodes, and number at the start
	cpus               int // of a node; a pod uses one
	seed               uint64
}

// full is the command's default scale.
var full = scale{pods: 10_000, nodes: 1_000, there: 900, cpus: 10, seed: 1}

func main() {
	page := flag.String("report", "", "page whose section to update, such as bench/RESULTS.md; empty prints it")
	program := flag.String("tradewind", "bin/tradewind", "the tradewind program")
	agents := flag.String("agents", "dist/agent", "folder with the agents")
	var s scale
	flag.IntVar(&s.pods, "pods", full.pods, "pods, in gangs of 1 to 64")
	flag.IntVar(&s.nodes, "nodes", full.nodes, "maximum number of nodes")
	flag.IntVar(&s.there, "there", full.there, "number of nodes at the start")
	flag.IntVar(&s.cpus, "cpus", full.cpus, "CPUs of a node; a pod uses one")
	flag.Uint64Var(&s.seed, "seed", full.seed, "random seed of the gangs' sizes")
	gangs := flag.String("gangs", "gates,native", "comma-separated values of --gang to measure, one run for each")
	peer := flag.Bool("kubectl", true, "also measure kubectl apply, after the first run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var rows []benchreport.Row
	for i, gang := range strings.Split(*gangs, ",") {
		m := &measure{scale: s, program: *program, agents: *agents, gang: gang, peer: *peer && i == 0}
		if err := m.run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "bench-kube:", err)
			os.Exit(1)
		}
		rows = append(rows, m.rows()...)
	}
	if err := write(*page, benchreport.Table(rows)); err != nil {
		fmt.Fprintln(os.Stderr, "bench-kube:", err)
		os.Exit(1)
	}
}

const title = "A large cluster of Kubernetes"

func write(page, body string) error {
	if page == "" {
		_, err := fmt.Println(benchreport.Section(title, body, time.Now()))
		return err
	}
	return benchreport.Write(page, title, body, time.Now())
}
