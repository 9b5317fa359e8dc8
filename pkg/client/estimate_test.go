package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// The estimator must be called once for each machine type. The plan must use its times, and omit the machines for
// which it returns 0.
func TestEstimatorDecidesPlan(t *testing.T) {
	ctx, c := context.Background(), found(t)
	calls := map[string]int{}
	b := client.NewJob("train")
	b.Task("train", "true").On(client.Resources{Accelerators: "V100:1"}).On(client.Resources{Accelerators: "A100:8"}).
		Estimate(func(o apitypes.FittingOffer) time.Duration {
			calls[o.TimeKey]++
			if o.Accelerator == "V100" {
				return 0
			}
			return time.Duration(3e18 / (o.TFLOPS * 1e12 * 0.4) * float64(time.Second))
		})
	job, err := b.JobFor(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if !job.Tasks[0].Time.Only || job.Tasks[0].Time.On["p4d.24xlarge"] != 3004808*time.Millisecond || calls["V100:1"] == 0 {
		t.Errorf("%v after %v", job.Tasks[0].Time, calls)
	}
	for key, n := range calls {
		if n != 1 {
			t.Errorf("%d calls for %s", n, key)
		}
	}
	plan, err := c.PlanJob(ctx, job)
	if err != nil {
		t.Fatal(err)
	}
	task := plan.Tasks[0]
	if task.Estimator != apitypes.FromFile || task.Time.Hours < 0.83 || task.Time.Hours > 0.84 ||
		strings.Contains(task.Offer, "p3.") {
		t.Errorf("planned on %s with %s: %+v", task.Offer, task.Estimator, task.Time)
	}
}

// This is the example in docs/go.md.
func ExampleBuilder_JobFor() {
	ctx := context.Background()
	c, err := client.Find(ctx)
	if err != nil {
		log.Fatal(err)
	}
	b := client.NewJob("train").Deadline(2 * time.Hour)
	b.Task("train", "python train.py").On(client.Resources{Accelerators: "V100:1"}).On(client.Resources{Accelerators: "A100:8"}).
		Estimate(func(o apitypes.FittingOffer) time.Duration {
			if o.Accelerator == "V100" {
				return 3 * time.Hour
			}
			return time.Duration(3e18 / (o.TFLOPS * 1e12 * 0.4) * float64(time.Second))
		})
	job, err := b.JobFor(ctx, c)
	if err != nil {
		log.Fatal(err)
	}
	plan, err := c.PlanJob(ctx, job)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan.Status, plan.Tasks[0].Time.Hours < 1)
	// Output: optimal true
}

func TestEstimatorErrorsNameTask(t *testing.T) {
	ctx, c := context.Background(), found(t)
	returns := func(d time.Duration) client.Estimator {
		return func(apitypes.FittingOffer) time.Duration { return d }
	}
	v100 := client.Resources{Accelerators: "V100:1"}
	for want, build := range map[string]func(*client.Task){
		"tasks.a.time: the estimator returned no time for any of the": func(t *client.Task) { t.On(v100).Estimate(returns(0)) },
		"tasks.a.time: the estimator returned -1h0m0s for":            func(t *client.Task) { t.On(v100).Estimate(returns(-time.Hour)) },
		"tasks.a.time: is a time and an estimator":                    func(t *client.Task) { t.Time(time.Hour).Estimate(returns(time.Hour)) },
		"tasks.a.time.": func(t *client.Task) { t.On(v100).Estimate(returns(1 << 62)) },
	} {
		b := client.NewJob("j")
		build(b.Task("a", "true"))
		var bad *dag.Error
		if _, err := b.JobFor(ctx, c); !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%T %v, want %q", err, err, want)
		}
	}
	b := client.NewJob("j")
	b.Task("a", "true").On(client.Resources{Accelerators: "V100:7"}).Estimate(returns(time.Hour))
	job, err := b.JobFor(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if plan, err := c.PlanJob(ctx, job); err != nil || plan.Status != "infeasible" || !strings.Contains(plan.Message, "V100") {
		t.Errorf("%+v, %v", plan, err)
	}
}
