// Command parsync makes several processes place tasks on the machines of one pool at once, over one table on DynamoDB
// Local (`make emulators`), with each policy of the rotation. It reports how many transactions conflicted with another
// process and how many placements were made per second, compared with the model of pkg/parsync's wind tunnel.
//
//	bin/bench/parsync -report bench/RESULTS.md
//
// Each process is a real one: this program started again, with a separate broker that takes its number from the
// table, as functions on Lambda do, and handles the events that announce the tasks of its jobs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/benchreport"
	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/parsync"
)

// childArg is the first argument of a process that this program starts.
const childArg = "place"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	host.TuneMemory()
	var err error
	if len(os.Args) > 1 && os.Args[1] == childArg {
		err = place(ctx, os.Stdin, os.Stdout)
	} else {
		s, page := large(), ""
		flag.StringVar(&page, "report", "", "page whose section to update; standard output if empty")
		flag.IntVar(&s.jobs, "jobs", s.jobs, "number of jobs, each in a separate queue")
		flag.IntVar(&s.tasks, "tasks", s.tasks, "tasks of each job")
		flag.IntVar(&s.machines, "machines", s.machines, "machines of the pool, each with room for eight tasks")
		flag.IntVar(&s.partitions, "partitions", s.partitions, "partitions of the pool")
		flag.DurationVar(&s.turn, "turn", s.turn, "how often a process moves to another partition")
		flag.Parse()
		err = run(ctx, s, page)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "parsync:", err)
		stop()
		os.Exit(1)
	}
}

// sizes are the sizes of an experiment.
type sizes struct {
	jobs, tasks, machines, partitions int
	turn                              time.Duration
	processes                         []int
	policies                          []parsync.Policy
}

// slotsEach is the number of tasks that fit on a machine.
const slotsEach = 8

func large() sizes {
	return sizes{jobs: 16, tasks: 12, machines: 30, partitions: 16, turn: 100 * time.Millisecond,
		processes: []int{1, 2, 4, 8},
		policies:  []parsync.Policy{parsync.Adaptive, parsync.LatencyFirst, parsync.QualityFirst}}
}

const title = "Rotation over one table"

func run(ctx context.Context, s sizes, page string) error {
	switch most := s.processes[len(s.processes)-1]; {
	case s.jobs < most:
		return fmt.Errorf("-jobs: at least %d, one for each process", most)
	case s.partitions <= most:
		return fmt.Errorf("-partitions: more than %d processes", most)
	case s.jobs*s.tasks > s.machines*slotsEach:
		return errors.New("-machines: too few for all tasks")
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	measured, err := all(ctx, s, []string{program, childArg})
	if err != nil {
		return err
	}
	body := describe(s, measured)
	if page == "" {
		_, err := fmt.Println(benchreport.Section(title, body, time.Now()))
		return err
	}
	return benchreport.Write(page, title, body, time.Now())
}

// all measures every policy with every number of processes.
func all(ctx context.Context, s sizes, child []string) (out []measure, err error) {
	for _, policy := range s.policies {
		for _, n := range s.processes {
			m, err := once(ctx, s, policy, n, child)
			if err != nil {
				return nil, fmt.Errorf("%s, %d processes: %w", policy, n, err)
			}
			if m.expected, err = model(ctx, s, m); err != nil {
				return nil, err
			}
			fmt.Fprintf(os.Stderr, "%s, %d processes: %d placed and %d bought in %v, %d conflicts (model %.0f)\n",
				policy, n, m.placed, m.bought, m.took.Round(time.Millisecond), m.conflicts, m.expected)
			out = append(out, m)
		}
	}
	return out, nil
}

// once measures one policy with n processes, on a new DynamoDB Local: it slows down with the data it has held.
func once(ctx context.Context, s sizes, policy parsync.Policy, n int, child []string) (m measure, err error) {
	p, err := emulator.Start(emulator.DynamoDBLocalServer())
	if err != nil {
		return m, err
	}
	defer p.Stop()
	ready, err := prepare(ctx, p.Endpoint, s)
	if err != nil {
		return m, err
	}
	return runAll(ctx, s, policy, n, child, p.Endpoint, ready)
}

// measure is the result of one experiment.
type measure struct {
	policy                             parsync.Policy
	processes                          int
	placed, bought, commits, conflicts int
	took                               time.Duration
	expected                           float64 // conflicts according to the model
}

func (m measure) perSecond() float64 { return float64(m.placed) / m.took.Seconds() }

func (m measure) perTask(conflicts float64) float64 { return conflicts / float64(max(m.placed, 1)) }

// describe writes the section's body.
func describe(s sizes, all []measure) string {
	var b strings.Builder
	fmt.Fprintf(&b, "`make bench-parsync`. %d tasks of %d jobs, each job in a separate queue, are placed on %d "+
		"machines with room for %d each, in %d partitions. Each process refreshes its view of one partition every %v. "+
		"Processes, emulator and table share the processors of this computer. A conflict is a transaction that fails "+
		"because of another process: it is decided and written again. The model is the "+
		"[wind tunnel](../docs/parsync.md#the-wind-tunnel) with the same numbers of schedulers, partitions and slots, at "+
		"the measured rate.\n\n"+
		"| policy | processes | placements a second | conflicts | a task | the model's | a task | not placed |\n"+
		"| --- | --: | --: | --: | --: | --: | --: | --: |\n",
		s.jobs*s.tasks, s.jobs, s.machines, slotsEach, s.partitions, s.turn)
	for _, m := range all {
		fmt.Fprintf(&b, "| %s | %d | %.1f | %d | %.2f | %.0f | %.2f | %d |\n", m.policy, m.processes, m.perSecond(),
			m.conflicts, m.perTask(float64(m.conflicts)), m.expected, m.perTask(m.expected), m.bought)
	}
	b.WriteString("\n" + why)
	return b.String()
}

// why explains the differences between the two.
const why = "The differences have these causes:\n" +
	"- In the model two schedulers conflict over a slot; here over the record of a partition, so two that " +
	"take different machines of one partition conflict as well.\n" +
	"- The model decides and commits at once. Here a decision takes some reads and a transaction, during " +
	"which others commit to the same partition. Policy latency, in which no two schedulers look at one partition in a " +
	"turn, conflicts if this takes longer than a turn.\n" +
	"- Placement packs tasks: processes that look at the same partitions prefer the same machine, " +
	"while the model's schedulers choose randomly among slots of one grade.\n" +
	"- parsync changes from quality to latency for tasks that have waited: here since their event was sent, which " +
	"includes waiting for the shared processors; in the model since a scheduler was free.\n" +
	"- Here a conflict refreshes the view of its partition at once; the model waits for the " +
	"partition's turn. Tasks here do not end, while some of the model's do.\n"
