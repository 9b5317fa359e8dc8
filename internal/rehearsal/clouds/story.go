package clouds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	_ "embed"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/account"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

//go:embed dag.yaml
var dagFile string

// Story is the actions of a user with a deployment that buys on four clouds.
type Story struct {
	World *World
	Out   io.Writer

	client *client.Client
	data   string // the job whose data moves from store to store
	job    string
	drop   string   // the job in the bucket
	theirs []string // jobs from other people's files
	early  string   // the job before Google's rights took effect
	next   string   // the last job
}

// slower is the factor by which a step may exceed its usual duration before it counts as hanging. It affects no
// result.
const slower = 4

type step struct {
	name   string
	within time.Duration
	do     func(context.Context) (string, error)
}

// Run runs the story and prints each step. It stops at the first step that fails.
func (s *Story) Run(ctx context.Context) error {
	w := s.World
	s.client = client.NewSigned(w.API, account.Region, credentials.StaticCredentialsProvider{Value: w.User})
	for i, x := range []step{
		{"data moves from S3 to Google's store to Azure's, as much as was planned",
			240 * time.Second, s.moved},
		{"secrets stored at Google and Azure reach the task, and no other secret does",
			150 * time.Second, s.keeps},
		{"a file in a Google bucket becomes a job, and an invalid file gets an error next to it", 90 * time.Second,
			s.dropped},
		{"Google's push announces a preemption before the machine knows, and the task resumes elsewhere",
			150 * time.Second, s.pushed},
		{"SkyPilot's own files for Google and for Azure run there unchanged", 150 * time.Second, s.others},
		{"a right takes effect late at Google, the job waits, and a check lifts the block", 150 * time.Second,
			s.propagated},
		{"each task of a job is planned on the cheapest cloud for it", 90 * time.Second, s.planned},
		{"a Google zone runs out of capacity half way, and the task moves to Azure", 150 * time.Second, s.dried},
		{"training runs on Azure's spot market and saves a checkpoint", 150 * time.Second, s.trains},
		{"Azure takes the machine, and training resumes from its checkpoint on AWS", 180 * time.Second, s.evicted},
		{"the last task runs on the GPU of Lambda's cloud, and the job succeeds", 150 * time.Second, s.succeeded},
		{"a quota is used up, credentials are withdrawn, and the next job runs " +
			"elsewhere", 240 * time.Second, s.withdrawn},
		{"the booked cost is what the clouds have billed", 30 * time.Second, s.billed},
		{"nothing remains in any cloud", 150 * time.Second, s.nothingLeft},
		{"every call was allowed by its role and exists in its cloud's description", time.Second, s.described},
		{"no cloud's secret is in records, logs, machines or the template", 60 * time.Second, s.noSecrets},
	} {
		began := time.Now()
		within, cancel := context.WithTimeout(ctx, slower*x.within)
		said, err := x.do(within)
		cancel()
		mark := "ok  "
		if err != nil {
			mark, said = "FAIL", err.Error()
		}
		_, _ = fmt.Fprintf(s.Out, "%s %2d. %s (%.1f s)\n", mark, i+1, x.name, time.Since(began).Seconds())
		for line := range strings.Lines(strings.TrimSpace(said)) {
			_, _ = fmt.Fprintf(s.Out, "        %s\n", strings.TrimRight(line, "\n"))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
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
		_ = clock.Pause(ctx, 250*time.Millisecond)
		if ctx.Err() != nil {
			return fmt.Errorf("not in time: %w", err)
		}
	}
}

// task returns a task of the job as the API shows it.
func task(d *apitypes.JobDetail, name string) *apitypes.TaskView {
	for i := range d.TaskList {
		if d.TaskList[i].Name == name {
			return &d.TaskList[i]
		}
	}
	return &apitypes.TaskView{}
}

// attempts returns the attempts of a task.
func attempts(d *apitypes.JobDetail, name string) (all []apitypes.Attempt) {
	for _, a := range d.Attempts {
		if d.TaskList[a.Task].Name == name {
			all = append(all, a)
		}
	}
	return all
}

// submit submits a job, and retries if the answer is lost.
func (s *Story) submit(ctx context.Context, key, file string) (id string, err error) {
	err = until(ctx, func() error {
		out, err := s.client.Submit(ctx, key+".yaml", key, []byte(file), nil)
		if err == nil {
			id = out.ID
		}
		return err
	})
	return id, err
}

// planned checks the plan, which depends only on prices.
func (s *Story) planned(ctx context.Context) (said string, err error) {
	s.World.Google.FailLate(gce.Fault{
		Reason: "ZONE_RESOURCE_POOL_EXHAUSTED", Message: "The zone does not have enough resources.",
	}, 1)
	if s.job, err = s.submit(ctx, "four-clouds", dagFile); err != nil {
		return "", err
	}
	want := map[string]string{"read": "aws/", "clean": "gcp/", "train": "azure/", "score": "lambda/"}
	return said, until(ctx, func() error {
		d, err := s.client.Job(ctx, s.job)
		if err != nil {
			return err
		}
		if len(d.Plans) == 0 {
			return errors.New("no plan yet")
		}
		said = fmt.Sprintf("plan 1: %.4f USD", d.Plans[0].USD)
		for name, cloud := range want {
			t := task(d, name)
			if d.Plan == 1 && !strings.HasPrefix(t.Offer, cloud) {
				return fmt.Errorf("%s is planned on %q, not on %s", name, t.Offer, cloud)
			}
			said += fmt.Sprintf("\n%s on %s", name, t.Offer)
		}
		return nil
	})
}

// dried: the launch fails after a machine was created, which is billed; Azure is the next best offer.
func (s *Story) dried(ctx context.Context) (said string, err error) {
	return said, until(ctx, func() error {
		d, err := s.client.Job(ctx, s.job)
		if err != nil {
			return err
		}
		all := attempts(d, "clean")
		if len(all) < 2 || all[len(all)-1].Outcome != apitypes.OutcomeSucceeded {
			return fmt.Errorf("%d attempts, %s: %s", len(all), task(d, "clean").State, task(d, "clean").Offer)
		}
		first, last := all[0], all[len(all)-1]
		if first.Offer.Cloud != "gcp" || first.Outcome != apitypes.OutcomeRefused || last.Offer.Cloud != "azure" {
			return fmt.Errorf("first %s on %s, last on %s", first.Outcome, first.Offer.Cloud, last.Offer.Cloud)
		}
		said = fmt.Sprintf("%s\nthen on %s", first.Reason, task(d, "clean").Offer)
		return nil
	})
}

func (s *Story) trains(ctx context.Context) (said string, err error) {
	return said, until(ctx, func() error {
		d, err := s.client.Job(ctx, s.job)
		if err != nil {
			return err
		}
		all := attempts(d, "train")
		if len(all) == 0 || task(d, "train").State != string(record.TaskRunning) {
			return fmt.Errorf("%d attempts, %s", len(all), task(d, "train").State)
		}
		a := all[len(all)-1]
		if a.Offer.Cloud != "azure" || !a.Offer.Spot {
			return fmt.Errorf("it runs on %+v", a.Offer)
		}
		keys, err := s.stored(ctx, "azblob://"+azureContainer, s.job, "ckpt")
		if err == nil && len(keys) == 0 {
			err = errors.New("no checkpoint yet")
		}
		said = fmt.Sprintf("on %s at %.3f USD an hour; %d objects of checkpoints in Azure's store",
			task(d, "train").Offer, a.Offer.USDPerHour, len(keys))
		return err
	})
}

// evicted: Azure announces it by Scheduled Events, takes the machine, and has no more of them.
func (s *Story) evicted(ctx context.Context) (said string, err error) {
	w := s.World
	name := ""
	for _, b := range w.Azure.Bills() {
		if b.Spot && b.To.IsZero() {
			name = b.Name
		}
	}
	w.Azure.Dry(arm.Shortage{Location: azureRegion})
	if err := w.Azure.Announce(name, time.Now().Add(30*time.Second)); err != nil {
		return "", err
	}
	_ = clock.Pause(ctx, 12*time.Second) // less than half of Azure's minimum notice
	if err := w.Azure.Evict(name); err != nil {
		said = "the machine had ended itself: " + err.Error() + "\n"
	}
	return said, until(ctx, func() error {
		d, err := s.client.Job(ctx, s.job)
		if err != nil {
			return err
		}
		all := attempts(d, "train")
		last := all[len(all)-1]
		if last.Outcome != apitypes.OutcomeSucceeded {
			return fmt.Errorf("attempt %d on %s: %s", len(all), last.Offer.Cloud, last.Outcome)
		}
		if last.Offer.Cloud != "aws" {
			return fmt.Errorf("task train resumed on %s, want aws", last.Offer.Cloud)
		}
		log, err := s.client.Log(ctx, s.job, "train", client.LogOptions{})
		if err != nil {
			return err
		}
		defer log.Close() //nolint:errcheck // only read
		text, err := io.ReadAll(log)
		if err != nil {
			return err
		}
		if !strings.Contains(string(text), "resuming from step") {
			return fmt.Errorf("its log is %q", text)
		}
		said = fmt.Sprintf("on %s: %s", task(d, "train").Offer, strings.TrimSpace(string(text)))
		return nil
	})
}

func (s *Story) succeeded(ctx context.Context) (said string, err error) {
	return said, until(ctx, func() error {
		d, err := s.client.Job(ctx, s.job)
		if err != nil {
			return err
		}
		if d.State != apitypes.JobSucceeded {
			return fmt.Errorf("the job is %s: %s", d.State, d.Reason)
		}
		all := attempts(d, "score")
		if last := all[len(all)-1]; last.Offer.Cloud != "lambda" {
			return fmt.Errorf("task score ran on %s, want lambda", last.Offer.Cloud)
		}
		log, err := s.client.Log(ctx, s.job, "score", client.LogOptions{})
		if err != nil {
			return err
		}
		defer log.Close() //nolint:errcheck // only read
		text, err := io.ReadAll(log)
		if err == nil && !strings.Contains(string(text), "scored: 40 steps on 39 rows") {
			err = fmt.Errorf("it printed %q", text)
		}
		said = fmt.Sprintf("%s\n%d attempts, %.4f USD; planned %.4f", strings.TrimSpace(string(text)), len(d.Attempts),
			d.SpentUSD, d.PlannedUSD)
		return err
	})
}

const another = `apiVersion: tradewind/v1
name: another
budget: 5 USD
tasks:
  clean:
    run: echo "ran nevertheless"
    resources: {cpus: 4, market: on-demand}
    time: 5m
`

// withdrawn: Google's vCPU quota is used up, and Azure rejects the credentials; AWS has a larger, more expensive
// machine.
func (s *Story) withdrawn(ctx context.Context) (said string, err error) {
	w := s.World
	w.Google.SetQuota(googleRegion, "CPUS", 0)
	w.Google.SetQuota(googleRegion, "N2_CPUS", 0)
	w.Azure.Refill()
	w.Azure.Deny("Microsoft.Compute/virtualMachines/write", "Microsoft.Network/networkInterfaces/write")
	// Normally the blocks from the first job would have expired by now, but not in a rehearsal.
	if s.next, err = s.submit(ctx, "another", strings.Replace(another, "cpus: 4,", "cpus: 4+,", 1)); err != nil {
		return "", err
	}
	return said, until(ctx, func() error {
		d, err := s.client.Job(ctx, s.next)
		if err != nil {
			return err
		}
		if d.State != apitypes.JobSucceeded {
			return fmt.Errorf("the job is %s: %s", d.State, d.Reason)
		}
		said = ""
		for _, a := range d.Attempts {
			said += fmt.Sprintf("%s on %s %s\n", a.Outcome, a.Offer.Cloud, a.Reason)
		}
		if last := d.Attempts[len(d.Attempts)-1]; last.Offer.Cloud != "aws" {
			return fmt.Errorf("it ran on %s", last.Offer.Cloud)
		}
		return nil
	})
}
