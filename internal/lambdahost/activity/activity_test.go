package activity_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"

	"github.com/tradewind-broker/tradewind/internal/lambdahost/activity"
)

// world is a switch of two parts, and whether work is open. A test can run other steps before each step of reconcile.
type world struct {
	parts  [2]bool
	open   bool
	steps  int
	before func(step int)
}

func (w *world) step() {
	w.steps++
	w.before(w.steps)
}

func (w *world) On(context.Context) error {
	for i := range w.parts {
		w.step()
		w.parts[i] = true
	}
	return nil
}

func (w *world) Off(context.Context) error {
	for i := range w.parts {
		w.step()
		w.parts[i] = false
	}
	return nil
}

func (w *world) idle(context.Context) (bool, error) {
	w.step()
	return !w.open, nil
}

// TestNewWorkAlwaysFindsDeploymentOn interleaves the three steps of a submission (the commit, and the two parts of
// switching on) with those of reconcile, in every order.
func TestNewWorkAlwaysFindsDeploymentOn(t *testing.T) {
	const most = 7
	runs := 0
	for commit := 1; commit <= most; commit++ {
		for first := commit; first <= most; first++ {
			for second := first; second <= most; second++ {
				w := &world{parts: [2]bool{true, true}}
				submit := []struct {
					at int
					do func()
				}{
					{commit, func() { w.open = true }}, {first, func() { w.parts[0] = true }}, {second, func() { w.parts[1] = true }},
				}
				w.before = func(step int) {
					for len(submit) > 0 && submit[0].at <= step {
						submit[0].do()
						submit = submit[1:]
					}
				}
				if err := activity.Settle(context.Background(), w, w.idle, slog.New(slog.DiscardHandler)); err != nil {
					t.Fatal(err)
				}
				w.before(most + 1)
				runs++
				if w.parts != [2]bool{true, true} {
					t.Errorf("commit before step %d, on before %d and %d: %v", commit, first, second, w.parts)
				}
			}
		}
	}
	if runs != 84 {
		t.Errorf("%d orders", runs)
	}
}

func TestSwitchesOffOnlyIdleDeployment(t *testing.T) {
	for _, open := range []bool{true, false} {
		w := &world{parts: [2]bool{true, true}, open: open, before: func(int) {}}
		if err := activity.Settle(context.Background(), w, w.idle, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		if w.parts != [2]bool{open, open} {
			t.Errorf("open %v: %v", open, w.parts)
		}
	}
}

func TestStaysOnIfIdleUnknown(t *testing.T) {
	away := errors.New("the table is away")
	for failing := 1; failing <= 2; failing++ {
		w := &world{parts: [2]bool{true, true}, before: func(int) {}}
		looks := 0
		err := activity.Settle(context.Background(), w, func(context.Context) (bool, error) {
			if looks++; looks == failing {
				return false, away
			}
			return true, nil
		}, slog.New(slog.DiscardHandler))
		if !errors.Is(err, away) || w.parts != [2]bool{true, true} {
			t.Errorf("look %d fails: %v, %v", failing, err, w.parts)
		}
	}
}

// account is the state of an AWS account.
type account struct {
	schedules map[string]*scheduler.UpdateScheduleInput
	mappings  map[string]string // function -> state
	updates   atomic.Int32
}

func (a *account) GetSchedule(_ context.Context, in *scheduler.GetScheduleInput, _ ...func(*scheduler.Options)) (*scheduler.GetScheduleOutput, error) {
	s, ok := a.schedules[*in.GroupName+"/"+*in.Name]
	if !ok {
		return nil, &types.ResourceNotFoundException{Message: aws.String("no schedule")}
	}
	return &scheduler.GetScheduleOutput{
		Name: s.Name, State: s.State, ScheduleExpression: s.ScheduleExpression, FlexibleTimeWindow: s.FlexibleTimeWindow, Target: s.Target, Description: s.Description,
	}, nil
}

func (a *account) UpdateSchedule(_ context.Context, in *scheduler.UpdateScheduleInput, _ ...func(*scheduler.Options)) (*scheduler.UpdateScheduleOutput, error) {
	a.updates.Add(1)
	a.schedules[*in.GroupName+"/"+*in.Name] = in
	return &scheduler.UpdateScheduleOutput{}, nil
}

func (a *account) ListEventSourceMappings(context.Context, *lambda.ListEventSourceMappingsInput, ...func(*lambda.Options)) (*lambda.ListEventSourceMappingsOutput, error) {
	out := &lambda.ListEventSourceMappingsOutput{}
	for name, state := range a.mappings {
		out.EventSourceMappings = append(out.EventSourceMappings, lambdatypes.EventSourceMappingConfiguration{
			UUID: aws.String(name), FunctionArn: aws.String("arn:aws:lambda:us-east-1:1:function:" + name), State: aws.String(state),
		})
	}
	return out, nil
}

func (a *account) UpdateEventSourceMapping(_ context.Context, in *lambda.UpdateEventSourceMappingInput, _ ...func(*lambda.Options)) (*lambda.UpdateEventSourceMappingOutput, error) {
	a.updates.Add(1)
	a.mappings[*in.UUID] = map[bool]string{true: "Enabling", false: "Disabling"}[*in.Enabled]
	return &lambda.UpdateEventSourceMappingOutput{}, nil
}

func TestSwitchesSchedulesAndPolling(t *testing.T) {
	// There is only one schedule and one function, because two of either would be switched at the same time.
	a := &account{
		schedules: map[string]*scheduler.UpdateScheduleInput{"tw/tick": {
			Name: aws.String("tick"), GroupName: aws.String("tw"), State: types.ScheduleStateDisabled, ScheduleExpression: aws.String("rate(10 minutes)"),
			FlexibleTimeWindow: &types.FlexibleTimeWindow{Mode: types.FlexibleTimeWindowModeOff}, Description: aws.String("prices"),
			Target: &types.Target{Arn: aws.String("arn:queue"), RoleArn: aws.String("arn:role"), Input: aws.String("{}")},
		}},
		mappings: map[string]string{},
	}
	s := &activity.AWS{Scheduler: a, Lambda: a, Group: "tw", Schedules: []string{"tick"}}
	p := &activity.AWS{Scheduler: a, Lambda: a, Group: "tw", Functions: []string{"tw-bid"}}
	a.mappings["tw-bid"] = "Disabled"
	ctx := context.Background()
	for range 2 { // the second changes nothing
		for _, sw := range []*activity.AWS{s, p} {
			if err := sw.On(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	tick := a.schedules["tw/tick"]
	if tick.State != types.ScheduleStateEnabled || *tick.ScheduleExpression != "rate(10 minutes)" || *tick.Target.Input != "{}" || *tick.Description != "prices" ||
		a.mappings["tw-bid"] != "Enabling" || a.updates.Load() != 2 {
		t.Errorf("%+v %v, %d updates", tick, a.mappings, a.updates.Load())
	}
	for _, sw := range []*activity.AWS{s, p} {
		if err := sw.Off(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if a.schedules["tw/tick"].State != types.ScheduleStateDisabled || a.mappings["tw-bid"] != "Disabling" {
		t.Errorf("%+v %v", a.schedules["tw/tick"], a.mappings)
	}
	missing := &activity.AWS{Scheduler: a, Lambda: a, Group: "tw", Schedules: []string{"none"}}
	if err := missing.On(ctx); err == nil {
		t.Error("a schedule that does not exist was switched on")
	}
}
