// Command kube measures the broker on a large cluster of Kubernetes: ten thousand pods in gangs of 1 to 64 on a
// thousand nodes that KWOK plays, of which some are there and the others come as Karpenter makes them. The API server
// and the scheduler are real. Beside it `kubectl apply` makes the same pods on the same nodes, in the same run.
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

// scale is how large the cluster is.
type scale struct {
	pods, nodes, there int // nodes there are from the beginning, and can be
	cpus               int // of a node; a pod takes one
	seed               uint64
}

// full is the scale that the command has by itself.
var full = scale{pods: 10_000, nodes: 1_000, there: 900, cpus: 10, seed: 1}

func main() {
	page := flag.String("report", "", "page whose section is written anew, such as bench/RESULTS.md; empty prints it")
	program := flag.String("tradewind", "bin/tradewind", "the command line, as it was built")
	agents := flag.String("agents", "dist/agent", "folder with the agents")
	var s scale
	flag.IntVar(&s.pods, "pods", full.pods, "pods, in gangs of 1 to 64")
	flag.IntVar(&s.nodes, "nodes", full.nodes, "nodes that there can be")
	flag.IntVar(&s.there, "there", full.there, "nodes that are there from the beginning")
	flag.IntVar(&s.cpus, "cpus", full.cpus, "CPUs of a node; a pod takes one")
	flag.Uint64Var(&s.seed, "seed", full.seed, "of the gangs' sizes")
	gangs := flag.String("gangs", "gates,native", "who binds gangs, one run after the other")
	peer := flag.Bool("kubectl", true, "measure kubectl apply as well, after the first")
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
