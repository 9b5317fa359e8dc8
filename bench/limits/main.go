// Command limits measures what a large deployment requests from its table and how large its responses are, in four
// situations: a task that depends on ten thousand others, a queue of ten thousand jobs behind one whose budget is used
// up, a thousand queues, and a user who watches a job of twenty thousand tasks. Each runs in one process on a bolt
// file, as in internal/host, and on the table and behind the gateway of an AWS deployment, with DynamoDB Local (`make
// emulators`). The command fails if a value is above its limit.
//
//	bin/bench/limits -report bench/RESULTS.md
//
// Records are written directly if producing them would take minutes. Only the product's own work is measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/tradewind-broker/tradewind/internal/benchreport"
	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/internal/store/bolt"
	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

func main() {
	page := flag.String("report", "", "page whose section to update; standard output if empty")
	only := flag.String("only", "", "the only situation to run: reduce, behind, queues or look; all if empty")
	flag.Parse()
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *page, *only); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, page, only string) error {
	host.TuneMemory()
	rows, err := runAll(ctx, only)
	if err != nil {
		return err
	}
	const title = "Limits of a large deployment"
	body := "`make bench-limits`. A function has 29 s for a response of at most 4 MiB before compression. Requests are " +
		"those to a DynamoDB store, including writes; a few hundred of them leave a function most of its time. Every " +
		"call is the first of its process, with empty caches, except for repeated ones. " +
		"On DynamoDB Local, the time is the emulator's.\n\n"
	var list []benchreport.Row
	var over error
	for _, r := range rows {
		list = append(list, r.line())
		over = errors.Join(over, r.check())
	}
	body += benchreport.Table(list)
	fmt.Println(benchreport.Section(title, body, time.Now()))
	if page == "" || only != "" || over != nil {
		return over
	}
	return benchreport.Write(page, title, body, time.Now())
}

// runAll runs all situations in one process and as on AWS.
func runAll(ctx context.Context, only string) ([]*row, error) {
	dir, err := os.MkdirTemp("", "tradewind-limits-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	rows, err := runSituations(ctx, large(), only, environment{name: "one process", tell: log.Printf, open: inFile(dir)})
	if err != nil {
		return nil, err
	}
	more, err := runSituations(ctx, large(), only, environment{name: "AWS", lambda: true, tell: log.Printf, open: onTable})
	return append(rows, more...), err
}

// inFile opens stores in files of a folder.
func inFile(dir string) opener {
	return func(_ context.Context, name string) (store.Store, *dynamo.Meter, error) {
		s, err := bolt.Open(filepath.Join(dir, name+".db"), bolt.Options{})
		return s, nil, err
	}
}

// onTable opens stores on tables, each in a new DynamoDB Local: it slows down with the data it has held.
func onTable(ctx context.Context, name string) (store.Store, *dynamo.Meter, error) {
	p, err := emulator.Start(emulator.DynamoDBLocalServer())
	if err != nil {
		return nil, nil, err
	}
	cfg, m := emulator.Config(p.Endpoint), &dynamo.Meter{}
	s, err := dynamo.New(cfg, name, dynamo.Options{Meter: m, RequestTimeout: time.Minute})
	if err == nil {
		err = dynamo.CreateTable(ctx, cfg, name)
	}
	if err != nil {
		p.Stop()
		return nil, nil, err
	}
	return &emulated{s, p}, m, nil
}

// emulated is a store that stops its emulator when it is closed.
type emulated struct {
	*dynamo.Store
	process *emulator.Process
}

// Close implements store.Store.
func (e *emulated) Close() error {
	defer e.process.Stop()
	return e.Store.Close()
}
