// Command placement places the data set of the Alibaba scheduling contest (Tianchi, 2018) and the setting of Aladdin's
// evaluation with Tradewind's solvers and with baselines, and writes its section of bench/RESULTS.md.
// `make bench-placement` calls it.
//
// Each run is a `tradewind-lab place` process on one thread, and its verifier checks the placement. Both wall and
// processor time include reading; other work on the machine distorts processor time less.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/benchreport"
)

type options struct {
	tradewind, data, python, only, results string
}

func main() {
	var o options
	flag.StringVar(&o.tradewind, "tradewind", "bin/tradewind-lab", "the program")
	flag.StringVar(&o.data, "data", "../shared/data/cluster-traces/alibaba-tianchi-2018",
		"folder of the contest's data set")
	flag.StringVar(&o.python, "python", ".tools/bench-optimizer/venv/bin/python", "an interpreter with OR-Tools")
	flag.StringVar(&o.only, "only", "", "run only the settings whose names contain this")
	flag.StringVar(&o.results, "report", "", "file whose section on placement to update; empty prints it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "bench/placement:", err)
		os.Exit(1)
	}
}

// contender is one way to place a setting.
type contender struct {
	name   string
	target string
	args   []string
}

// setting is a problem to place.
type setting struct {
	name       string
	what       string
	generate   []string // flags that generate it; none for the contest
	contenders []contender
}

func settings() []setting {
	baselines := []contender{
		{"first-fit decreasing", "", []string{"--solver", "ffd"}},
		{"best-fit decreasing", "", []string{"--solver", "bfd"}},
		{"dot product, one machine at a time", "", []string{"--solver", "dot"}},
		{"Firmament: plain min-cost flow in rounds", "", []string{"--solver", "firmament"}},
		{"Medea: greedy, rules weighed against machines", "", []string{"--solver", "medea"}},
	}
	pack := contender{"**pack**, 10 s", "", []string{"--solver", "pack", "--time-limit", "10s"}}
	flow := func(target string) contender {
		return contender{"**flow network**", target, []string{"--solver", "flow"}}
	}
	return []setting{
		{"contest", "Alibaba scheduling contest: 68,224 instances of 9,338 apps, 6,000 machines of two sizes, curves " +
			"of 98 points for CPU and memory, disk, P, M and PM, 33,416 rules", nil, append([]contender{
			{"**pack**, 10 s", "≤ 2,600", []string{"--solver", "pack", "--time-limit", "10s"}},
			{"**pack**, 60 s", "≤ 2,450", []string{"--solver", "pack", "--time-limit", "60s"}},
			flow("≤ 2,600, 5 s"),
		}, baselines...)},
		{"paper", "Aladdin's evaluation: 100,000 containers of 13,056 apps, 10,000 machines, 70% of apps with " +
			"anti-affinity, 15% of containers with priority",
			[]string{"--machines", "10000"}, append([]contender{flow("none broken, < 1 s"), pack}, baselines...)},
		{"crowded", "The same on 6,500 machines, which cannot hold all instances: which ones wait?",
			[]string{"--machines", "6500"}, append([]contender{flow("none broken"), pack}, baselines...)},
	}
}

func run(ctx context.Context, o *options) error {
	dir, err := os.MkdirTemp("", "tradewind-bench-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	var body strings.Builder
	fmt.Fprintf(&body, "`make bench-placement`: each row is `tradewind-lab place` on one thread. Violations are counted by "+
		"the independent verifier. "+
		"A priority violation is an instance that waits although it would fit in place of lower priorities. Seconds "+
		"include reading.\n")
	for _, s := range settings() {
		if !strings.Contains(s.name, o.only) {
			continue
		}
		if err := measure(ctx, o, s, dir, &body); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if strings.Contains("exact", o.only) {
		fmt.Fprintln(os.Stderr, "measuring: exact")
		if err := exact(ctx, o.python, &body); err != nil {
			return fmt.Errorf("exact: %w", err)
		}
	}
	if o.results != "" {
		return benchreport.Write(o.results, "Placement", body.String(), time.Now())
	}
	_, err = fmt.Println(benchreport.Section("Placement", body.String(), time.Now()))
	return err
}

func measure(ctx context.Context, o *options, s setting, dir string, body *strings.Builder) error {
	data := o.data
	command := "--data " + filepath.Base(data)
	if s.generate != nil {
		data = filepath.Join(dir, s.name)
		args := append([]string{"place", "--generate", data}, s.generate...)
		if out, err := exec.CommandContext(ctx, o.tradewind, args...).CombinedOutput(); err != nil { //nolint:gosec // our own program
			return fmt.Errorf("%w: %s", err, out)
		}
		command = "--generate DIR " + strings.Join(s.generate, " ")
	}
	for i, c := range s.contenders {
		fmt.Fprintln(os.Stderr, "measuring:", s.name+",", c.name)
		r, err := place(ctx, o.tradewind, data, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if i == 0 {
			fmt.Fprintf(body, "\n%s. No assignment of all needs fewer than %d machines. (`%s`)\n\n", s.what,
				r.LowerBound, command)
			body.WriteString("| solver | target | placed | violations | machines | seconds | of processor |\n" +
				"| --- | --- | --: | --: | --: | --: | --: |\n")
		}
		fmt.Fprintf(body, "| %s `%s` | %s | %d | %d | %d | %.2f | %.2f |\n", c.name, strings.Join(c.args, " "),
			c.target, r.Placed, r.Violations, r.Machines, r.Seconds, r.processor.Seconds())
	}
	return nil
}

// result is the output of a run, and its processor time.
type result struct {
	Placed     int     `json:"placed"`
	Violations int     `json:"violations"`
	Machines   int     `json:"machines"`
	LowerBound int     `json:"lowerBound"`
	Seconds    float64 `json:"seconds"`
	processor  time.Duration
}

func place(ctx context.Context, tradewind, data string, c contender) (*result, error) {
	args := append([]string{"place", "--data", data, "-o", "json"}, c.args...)
	cmd := exec.CommandContext(ctx, tradewind, args...) //nolint:gosec // our own program
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	var out, told bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &told
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || out.Len() == 0) {
		return nil, fmt.Errorf("%w: %s", err, told.String())
	}
	// A placement with violations or unplaced instances is a valid result, too.
	r := &result{processor: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	if err := json.Unmarshal(out.Bytes(), r); err != nil {
		return nil, err
	}
	return r, nil
}
