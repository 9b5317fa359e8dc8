// Command rehearse-kube is a rehearsal on two Kubernetes clusters with real control planes and nodes whose pods are
// local processes. It does what a user would, with the built command line, drains a node with a running task, and
// kills the broker repeatedly. It prints each step with its result, and exits with 0 if all steps succeeded.
//
//	make rehearse-kube
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	program := flag.String("program", "bin/tradewind", "the command line")
	agents := flag.String("agents", "dist/agent", "folder of the agents' programs")
	seed := flag.Uint64("seed", 1, "determines when the broker is killed")
	kills := flag.Int("kills", 10, "how often the broker is killed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *program, *agents, *seed, *kills); err != nil {
		fmt.Fprintln(os.Stderr, "rehearse-kube:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func run(ctx context.Context, program, agents string, seed uint64, kills int) error {
	began := time.Now()
	w, err := Open(ctx, program, agents)
	if err != nil {
		return err
	}
	defer w.Close()
	fmt.Printf("rehearsal on two clusters: started in %.1f s\n", time.Since(began).Seconds())
	if err := (&Story{World: w, Out: os.Stdout, Seed: seed, Kills: kills}).Run(ctx); err != nil {
		return err
	}
	fmt.Printf("all steps succeeded, in %.0f s\n", time.Since(began).Seconds())
	return nil
}
