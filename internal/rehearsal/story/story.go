package story

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/account"
	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

//go:embed dag.yaml
var dagFile []byte

// Story is the actions of a user with a deployment, step by step.
type Story struct {
	World  *account.World
	Out    io.Writer
	client *client.Client
	s3     *s3.Client
	store  store.Store
	job    string
	began  time.Time
	// Counted and predicted requests of the DAG without failures.
	compared []Compared
	// The first plan's cost of moving data, and the moved data.
	plannedToMove float64
	between       []Between
}

// slower is the factor by which a step may exceed its usual duration before it counts as hanging. It affects no
// result.
const slower = 4

// step is one step of the story; do returns its result.
type step struct {
	name   string
	within time.Duration
	do     func(ctx context.Context) (string, error)
}

// Run runs the story and prints each step. It stops at the first step that fails.
func (s *Story) Run(ctx context.Context) error {
	w := s.World
	s.began = time.Now()
	s.client = client.NewSigned(w.API, account.Region, credentials.StaticCredentialsProvider{Value: w.User})
	s.s3 = s3.NewFromConfig(w.Config, func(o *s3.Options) { o.UsePathStyle = true })
	st, err := dynamo.New(w.Proxied, w.Stack.Name, dynamo.Options{})
	if err != nil {
		return err
	}
	s.store = st
	for i, x := range s.steps() {
		if err := s.runStep(ctx, i+1, x); err != nil {
			return err
		}
	}
	return nil
}

func (s *Story) steps() []step {
	return []step{
		{"the API admits only authorised clients", 30 * time.Second, s.rejectsStrangers},
		{"a DAG file is dropped into the bucket, and a job appears", 60 * time.Second, s.drop},
		{"the table has a plan and its bids", 60 * time.Second, s.planned},
		{"a zone without capacity is skipped", 90 * time.Second, s.failover},
		{"training runs on a spot machine and saves a checkpoint", 120 * time.Second, s.training},
		{"an update is deployed while training runs, and the deployment stays awake", 120 * time.Second, s.updated},
		{"the machine is preempted, and training resumes elsewhere", 120 * time.Second, s.taken},
		{"the job succeeds", 180 * time.Second, s.succeeded},
		{"its outputs and logs exist", 30 * time.Second, s.results},
		{"outputs are in two regions, and what moved between them was planned", 30 * time.Second, s.moved},
		{"a token gives access only to its own job, and expires", 30 * time.Second, s.tokens},
		{"a job that exceeds the account's quota of vCPUs waits for its own machines", 120 * time.Second, s.overQuota},
		{"short members of an array run in chunks", 180 * time.Second, s.chunked},
		{"the command line submits, follows and cancels", 120 * time.Second, s.operated},
		{"the catalogue is refreshed", 180 * time.Second, s.renewed},
		{"an invalid DAG file gets an error file next to it", 90 * time.Second, s.rejected},
		{"a dead letter is shown and redriven", 180 * time.Second, s.redrive},
		{"8,200 running jobs are all checked", 120 * time.Second, s.walked},
		{"no machine remains, and the deployment sleeps", 150 * time.Second, s.asleep},
		{"a job's events cost what `tradewind cost` predicts", 240 * time.Second, s.measured},
		{"every call was allowed by its function's role", time.Second, s.rights},
		{"Lambda dropped no recursive invocation", time.Second, s.unbroken},
		{"no log, table item or machine contains a secret", 30 * time.Second, s.secrets},
	}
}

func (s *Story) runStep(ctx context.Context, n int, x step) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, slower*x.within)
	defer cancel()
	said, err := x.do(ctx)
	mark := "ok  "
	if err != nil {
		mark = "FAIL"
		said = err.Error()
	}
	_, _ = fmt.Fprintf(s.Out, "%s %2d. %s (%.1f s)\n", mark, n, x.name, time.Since(began).Seconds())
	for line := range strings.SplitSeq(strings.TrimSpace(said), "\n") {
		if line != "" {
			_, _ = fmt.Fprintf(s.Out, "        %s\n", line)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", x.name, err)
	}
	return nil
}

// until repeats ask until it returns nil or ctx ends; then the error is the last one.
func until(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if err == nil {
			return nil
		}
		if final := (*finalError)(nil); errors.As(err, &final) {
			return err
		}
		_ = clock.Pause(ctx, 250*time.Millisecond)
		if ctx.Err() != nil {
			return fmt.Errorf("not in time: %w", err)
		}
	}
}

// finalError is an error that waiting does not fix.
type finalError struct{ error }

// drop uploads the DAG file. The first launch for it will be refused for lack of capacity.
func (s *Story) drop(ctx context.Context) (string, error) {
	select { // `tradewind deploy aws` prints from when the bucket reports files
	case <-s.World.Reports:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	s.World.Proxy.RefuseLaunches(1)
	bucket, key := s.World.Bucket("dags"), "team/rehearsal.yaml"
	if err := s.put(ctx, bucket, key, dagFile); err != nil {
		return "", err
	}
	err := until(ctx, func() error {
		list, err := s.client.Jobs(ctx, 10)
		if err != nil {
			return err
		}
		if len(list.Jobs) != 1 {
			return fmt.Errorf("%d jobs", len(list.Jobs))
		}
		s.job = list.Jobs[0].ID
		return nil
	})
	return "s3://" + bucket + "/" + key + " is job " + s.job, err
}

func (s *Story) put(ctx context.Context, bucket, key string, body []byte) error {
	_, err := s.s3.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(body)})
	return err
}

// planned checks the records themselves.
func (s *Story) planned(ctx context.Context) (string, error) {
	var said string
	err := until(ctx, func() error {
		for _, kind := range []string{"plan", "planned", "bids"} {
			records, _, err := s.store.Query(ctx, "job#"+s.job, kind+"#", store.Page{})
			if err != nil {
				return err
			}
			if len(records) == 0 {
				return fmt.Errorf("no %s in the table", kind)
			}
		}
		d, err := s.client.Job(ctx, s.job)
		if err != nil {
			return err
		}
		if len(d.Plans) == 0 || d.PlannedUSD <= 0 {
			return errors.New("there is no current plan")
		}
		for _, t := range d.TaskList {
			if t.Offer == "" {
				return fmt.Errorf("task %s has no offer yet", t.Name)
			}
		}
		if s.plannedToMove, err = s.planToMove(ctx); err != nil {
			return err
		}
		p := d.Plans[0]
		said = fmt.Sprintf("plan %d is %s: %.4f USD, %.6f of it for moving data, on demand %.4f", p.Version,
			p.Status, p.USD, s.plannedToMove, p.OnDemandUSD)
		for _, t := range d.TaskList {
			said += fmt.Sprintf("\n%s on %s", t.Name, t.Offer)
		}
		return nil
	})
	return said, err
}

func (s *Story) failover(ctx context.Context) (string, error) {
	var said string
	err := s.untilJob(ctx, func(d *apitypes.JobDetail) error {
		var refused, next *apitypes.Attempt
		for i := range d.Attempts {
			a := &d.Attempts[i]
			if a.Outcome == apitypes.OutcomeRefused && refused == nil {
				refused = a
			}
		}
		if refused == nil {
			return errors.New("no launch was refused")
		}
		for i := range d.Attempts {
			if a := &d.Attempts[i]; a.Task == refused.Task && a.Number > refused.Number && !a.Up.IsZero() {
				next = a
			}
		}
		if next == nil {
			return fmt.Errorf("no machine started after %s: %s", refused.OfferID, refused.Reason)
		}
		if next.OfferID == refused.OfferID {
			return &finalError{fmt.Errorf("launched again on %s", next.OfferID)}
		}
		said = fmt.Sprintf("%s: %s\nthen %s", refused.OfferID, refused.Reason, next.OfferID)
		return nil
	})
	return said, err
}

// untilJob waits until look accepts the job, and fails at once if the job has failed or was cancelled.
func (s *Story) untilJob(ctx context.Context, look func(d *apitypes.JobDetail) error) error {
	return until(ctx, func() error {
		d, err := s.client.Job(ctx, s.job)
		if err != nil {
			return err
		}
		if d.State == "failed" || d.State == "cancelled" {
			return &finalError{fmt.Errorf("the job is %s: %s", d.State, d.Reason)}
		}
		return look(d)
	})
}

const trainTask = 1 // its index in dag.yaml

func (s *Story) training(ctx context.Context) (string, error) {
	var said string
	err := s.untilJob(ctx, func(d *apitypes.JobDetail) error {
		last := lastAttempt(d, trainTask)
		if last == nil || last.Started.IsZero() {
			return fmt.Errorf("training is %s", d.TaskList[trainTask].State)
		}
		if !last.Offer.Spot {
			return &finalError{fmt.Errorf("training runs on %s", last.OfferID)}
		}
		keys, err := s.keys(ctx, s.World.Bucket("work"), s.job+"/train/ckpt/")
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			return errors.New("no checkpoint in the bucket")
		}
		said = fmt.Sprintf("%s, %d objects of checkpoints", last.OfferID, len(keys))
		return nil
	})
	return said, err
}

func lastAttempt(d *apitypes.JobDetail, task int) *apitypes.Attempt {
	var last *apitypes.Attempt
	for i := range d.Attempts {
		if a := &d.Attempts[i]; a.Task == task && (last == nil || a.Number > last.Number) {
			last = a
		}
	}
	return last
}

func (s *Story) keys(ctx context.Context, bucket, prefix string) ([]string, error) {
	out, err := s.s3.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &bucket, Prefix: &prefix})
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, o := range out.Contents {
		keys = append(keys, aws.ToString(o.Key))
	}
	return keys, nil
}

func (s *Story) taken(ctx context.Context) (string, error) {
	d, err := s.client.Job(ctx, s.job)
	if err != nil {
		return "", err
	}
	first := lastAttempt(d, trainTask)
	machine, err := s.machineOf(ctx, record.ClusterID(s.job, trainTask, first.Number))
	if err != nil {
		return "", err
	}
	if err := s.World.Hypervisor.Interrupt(ctx, machine, 8*time.Second); err != nil {
		return "", err
	}
	var said string
	err = s.untilJob(ctx, func(d *apitypes.JobDetail) error {
		next := lastAttempt(d, trainTask)
		if next.Number == first.Number || next.Started.IsZero() {
			return fmt.Errorf("attempt %d is the last, %s %s", next.Number, next.Outcome, next.Reason)
		}
		if next.ResumedFrom == "" {
			return &finalError{fmt.Errorf("attempt %d restarted from zero", next.Number)}
		}
		i := slices.IndexFunc(d.Attempts, func(a apitypes.Attempt) bool {
			return a.Task == trainTask && a.Number == first.Number
		})
		said = fmt.Sprintf("%s of %s: %s %s\nthen %s, from %s", machine, first.OfferID, d.Attempts[i].Outcome,
			d.Attempts[i].Reason, next.OfferID, next.ResumedFrom)
		return nil
	})
	return said, err
}

func (s *Story) succeeded(ctx context.Context) (string, error) {
	var said string
	err := s.untilJob(ctx, func(d *apitypes.JobDetail) error {
		if d.State != "succeeded" {
			return fmt.Errorf("the job is %s", d.State)
		}
		said = fmt.Sprintf("%d attempts, %.5f USD, budget kept: %v", len(d.Attempts), d.SpentUSD, d.BudgetUSD == 0 ||
			d.SpentUSD <= d.BudgetUSD)
		return nil
	})
	return said, err
}

func (s *Story) results(ctx context.Context) (string, error) {
	keys, err := s.keys(ctx, s.World.Bucket("work"), s.job+"/report/")
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(keys, func(k string) bool { return strings.HasSuffix(k, "/report.txt") })
	if i < 0 {
		return "", fmt.Errorf("no report among %v", keys)
	}
	bucket := s.World.Bucket("work")
	out, err := s.s3.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &keys[i]})
	if err != nil {
		return "", err
	}
	defer out.Body.Close() //nolint:errcheck // only read from
	raw, err := io.ReadAll(out.Body)
	if err != nil {
		return "", err
	}
	if got := strings.TrimSpace(string(raw)); got != "40 steps of 40" {
		return "", fmt.Errorf("the report says %q", got)
	}
	var log string
	err = until(ctx, func() error {
		body, err := s.client.Log(ctx, s.job, "train", client.LogOptions{})
		if err != nil {
			return err
		}
		defer body.Close() //nolint:errcheck // only read from
		raw, err := io.ReadAll(body)
		if log = strings.TrimSpace(string(raw)); err == nil && !strings.Contains(log, "resuming from step") {
			err = fmt.Errorf("the log of training is %q", log)
		}
		return err
	})
	return "report.txt: 40 steps of 40\ntrain: " + log, err
}
