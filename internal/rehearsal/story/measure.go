package story

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/cost"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/account"
	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// plainTasks is the number of tasks of the DAG whose requests are counted, in layers of plainLayer. The machines of two
// layers fit into a new account's quota of vCPUs: a machine counts until it has ended, when the next one may have been
// launched.
const (
	plainTasks = 8
	plainLayer = 2
)

// plainDAG returns a DAG that runs without failures.
func plainDAG() []byte {
	var b strings.Builder
	b.WriteString("apiVersion: tradewind/v1\nname: plain\ntasks:\n")
	for i := range plainTasks {
		fmt.Fprintf(&b,
			"  t%d:\n    run: echo %d\n    resources: {cpus: 2+, cloud: aws, region: us-east-1}\n    time: 1m\n", i, i)
		if i >= plainLayer {
			fmt.Fprintf(&b, "    after: [t%d]\n", i-plainLayer)
		}
	}
	return []byte(b.String())
}

// Compared is one line of the bill: the rehearsal's count for a job, and the prediction of `tradewind cost` for its
// file.
type Compared struct {
	Service   string  `json:"service"`
	Unit      string  `json:"unit"`
	Counted   float64 `json:"counted"`
	Predicted float64 `json:"predicted"`
}

// tolerance is the allowed relative difference between a rehearsal's total and a prediction: the sizes of event batches
// vary, and conflicting reads are repeated.
const tolerance = 0.5

// measured runs a DAG without failures and compares its requests to AWS with the prediction of `tradewind cost` for the
// same file. Costs per hour, of schedules and polling, run at another speed here and are left out.
func (s *Story) measured(ctx context.Context) (string, error) {
	w := s.World
	if w.Chaos {
		return "left out: failed calls are repeated", nil
	}
	if err := until(ctx, func() error { return s.sleeping(ctx) }); err != nil {
		return "", err
	}
	w.Proxy.RaiseQuota() // a refused launch costs requests, and on a busy computer more machines run at the same time
	before := s.bill()
	if err := s.put(ctx, w.Bucket("dags"), "plain.yaml", plainDAG()); err != nil {
		return "", err
	}
	if err := s.overUnseen(ctx, "plain"); err != nil {
		return "", err
	}
	if err := until(ctx, func() error { return s.sleeping(ctx) }); err != nil {
		return "", err
	}
	after := s.bill()
	predicted, err := predict(ctx)
	if err != nil {
		return "", err
	}
	usd, want := 0.0, 0.0
	s.compared = nil
	for _, l := range predicted.Lines {
		key := l.Service + " " + l.Unit
		if _, counted := after[key]; !counted {
			continue
		}
		n := after[key] - before[key]
		s.compared = append(s.compared, Compared{Service: l.Service, Unit: l.Unit, Counted: n, Predicted: l.Events})
		usd, want = usd+n*l.USDPerUnit, want+l.Events*l.USDPerUnit
	}
	said := fmt.Sprintf("%d tasks: %.6f USD counted, %.6f predicted; %.0f writes conflicted and were repeated\n%s",
		plainTasks, usd, want, after[conflicts]-before[conflicts], table(s.compared))
	if math.Abs(usd/want-1) > tolerance {
		return "", fmt.Errorf("counted and predicted cost differ: %s", said)
	}
	return said, nil
}

// overUnseen waits until the only job with a name has finished. It reads without the proxy, so that its reads are not
// counted.
func (s *Story) overUnseen(ctx context.Context, name string) error {
	st, err := dynamo.New(s.World.Config, s.World.Stack.Name, dynamo.Options{})
	if err != nil {
		return err
	}
	seen := false
	return until(ctx, func() error {
		open, _, err := st.Query(ctx, "active", name+"-", store.Page{})
		if err != nil {
			return err
		}
		seen = seen || len(open) > 0
		if !seen || len(open) > 0 {
			return errors.New("the job has not finished")
		}
		return nil
	})
}

func predict(ctx context.Context) (*cost.Bill, error) {
	spec, err := read.Job("plain.yaml", strings.NewReader(string(plainDAG())))
	if err != nil {
		return nil, err
	}
	c, err := catalog.Default()
	if err != nil {
		return nil, err
	}
	moves, err := egress.Default()
	if err != nil {
		return nil, err
	}
	opt := planner.DefaultOptions()
	opt.Clouds, opt.Now = []string{"aws"}, nil
	return cost.BillFor(ctx, spec, planner.New(c, moves, opt), time.Now())
}

// byClock returns the functions that schedules start; their share does not belong to a job.
func byClock() []string { return []string{events.FnReconcile, events.FnTick, events.FnRefresh} }

// bill returns the counts so far, by service and unit in the terms of package cost. GB-seconds are left out, because
// they depend on the speed of the emulator, not of AWS.
func (s *Story) bill() map[string]float64 {
	w := s.World
	b := map[string]float64{}
	prefix := w.Stack.Name + "-"
	for name, u := range w.Usage() {
		if !slices.Contains(byClock(), strings.TrimPrefix(name, prefix)) {
			b["Lambda requests"] += float64(u.Invocations)
		}
	}
	for _, c := range w.Count.Calls() {
		fn, ours := strings.CutPrefix(c.Function, prefix)
		if c.Service == "apigateway" && c.Action != "$default" { // users' requests do not belong to the job
			b["HTTP API requests"] += float64(c.Count)
		}
		if !ours || slices.Contains(byClock(), fn) {
			continue
		}
		switch c.Service {
		case "dynamodb":
			// the emulator is slow and serialises requests, so it has more conflicts than AWS
			if strings.HasSuffix(c.Action, account.Refused) {
				b[conflicts] += float64(c.Count)
			} else if account.Writes(c.Action) {
				b["DynamoDB write request units"] += c.Units
			} else {
				b["DynamoDB read request units"] += c.Units
			}
		case "events":
			b["EventBridge events (64 KB)"] += c.Units
		case "sqs":
			b["SQS requests (64 KB)"] += float64(c.Count)
		case "s3":
			if c.Action == "GetObject" {
				b["S3 GET requests"] += float64(c.Count)
			} else if c.Action != "DeleteObject" { // deletes are free
				b["S3 PUT and LIST requests"] += float64(c.Count)
			}
		}
	}
	return b
}

// conflicts counts the transactions that the table refused; it is not a line of a bill.
const conflicts = "refused"

func table(lines []Compared) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = io.WriteString(t, "counted\tpredicted\t\n") // to memory
	for _, l := range lines {
		_, _ = fmt.Fprintf(t, "%.0f\t%.0f\t %s, %s\n", l.Counted, l.Predicted, l.Service, l.Unit)
	}
	_ = t.Flush()
	return b.String()
}
