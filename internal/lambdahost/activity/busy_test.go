package activity_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"

	"github.com/tradewind-broker/tradewind/internal/lambdahost/activity"
)

// busy is an account whose event source mappings refuse changes while a change is in progress, as Lambda's do.
type busy struct{ *account }

func (b busy) UpdateEventSourceMapping(ctx context.Context, in *lambda.UpdateEventSourceMappingInput,
	o ...func(*lambda.Options)) (*lambda.UpdateEventSourceMappingOutput, error) {
	if s := b.mappings[*in.UUID]; s == "Enabling" || s == "Disabling" {
		return nil, &lambdatypes.ResourceInUseException{
			Message: aws.String("Cannot update the event source mapping due to update in progress.")}
	}
	return b.account.UpdateEventSourceMapping(ctx, in, o...)
}

func TestPollingResumesAfterFailedCheck(t *testing.T) {
	a := busy{&account{mappings: map[string]string{"tw-bid": "Enabled"}}}
	s := &activity.AWS{Scheduler: a, Lambda: a, Group: "tw", Functions: []string{"tw-bid"}, Look: time.Microsecond}
	ctx := context.Background()
	open := false
	looks := 0
	idle := func(context.Context) (bool, error) {
		looks++
		was := !open
		if looks == 1 { // while reconcile asks the clouds, a submission switches the deployment on
			open = true
			if err := s.On(ctx); err != nil {
				t.Fatal(err)
			}
		}
		return was, nil
	}
	err := activity.Settle(ctx, s, idle, slog.New(slog.DiscardHandler))
	var inUse *lambdatypes.ResourceInUseException
	if !errors.As(err, &inUse) {
		t.Fatalf("the test does not test: %v, %v", err, a.mappings)
	}
	a.mappings["tw-bid"] = "Disabled" // Lambda completes the change after some seconds
	for range 10 {                    // reconcile runs: the same event again, and then each minute
		if err := activity.Settle(ctx, s, idle, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
	}
	if a.mappings["tw-bid"] != "Enabling" {
		t.Errorf("work is open, and the queue is not polled: %v", a.mappings)
	}
}

// settling is an account whose mappings complete a change after they have been read a few times.
type settling struct {
	busy
	looks int
}

func (s *settling) ListEventSourceMappings(ctx context.Context, in *lambda.ListEventSourceMappingsInput,
	o ...func(*lambda.Options)) (*lambda.ListEventSourceMappingsOutput, error) {
	if s.looks--; s.looks == 0 {
		s.mappings["tw-bid"] = "Disabled"
	}
	return s.busy.ListEventSourceMappings(ctx, in, o...)
}

// The user had an error because the deployment could not be woken, and submitted the job again: there were two jobs.
func TestNewWorkWakesDeploymentFallingAsleep(t *testing.T) {
	a := &settling{busy{&account{mappings: map[string]string{"tw-bid": "Disabling"}}}, 3}
	s := &activity.AWS{Scheduler: a, Lambda: a, Group: "tw", Functions: []string{"tw-bid"}, Look: time.Microsecond}
	if err := s.On(t.Context()); err != nil || a.mappings["tw-bid"] != "Enabling" {
		t.Errorf("%v %v", a.mappings, err)
	}
}

// An update of the stack sets mappings and schedules to the state of its template, asleep, also while a job runs
// (CloudFormation, AWS::Lambda::EventSourceMapping, Enabled; Scheduler API reference, UpdateSchedule replaces all
// values). The reconcile that `deploy` invokes then finds open work and switches both on; without open work it leaves
// them off.
func TestReconcileWakesDeploymentThatUpdatePutToSleep(t *testing.T) {
	for _, working := range []bool{true, false} {
		a := &account{mappings: map[string]string{"tw-bid": "Enabled", "tw-execute": "Enabled"},
			schedules: map[string]*scheduler.UpdateScheduleInput{"tw/tick": {
				Name: aws.String("tick"), GroupName: aws.String("tw"), State: types.ScheduleStateEnabled,
				FlexibleTimeWindow: &types.FlexibleTimeWindow{Mode: types.FlexibleTimeWindowModeOff},
				Target:             &types.Target{Arn: aws.String("arn:queue"), RoleArn: aws.String("arn:role")},
			}}}
		a.mappings["tw-bid"], a.mappings["tw-execute"] = "Disabled", "Disabled" // the update
		a.schedules["tw/tick"].State = types.ScheduleStateDisabled
		s := &activity.AWS{Scheduler: a, Lambda: a, Group: "tw", Schedules: []string{"tick"},
			Functions: []string{"tw-bid", "tw-execute"}, Look: time.Microsecond}
		idle := func(context.Context) (bool, error) { return !working, nil }
		if err := activity.Settle(t.Context(), s, idle, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		on := a.mappings["tw-bid"] == "Enabling" && a.mappings["tw-execute"] == "Enabling" &&
			a.schedules["tw/tick"].State == types.ScheduleStateEnabled
		off := a.mappings["tw-bid"] == "Disabled" && a.schedules["tw/tick"].State == types.ScheduleStateDisabled
		if working && !on || !working && !off {
			t.Errorf("a job runs: %v; %v, schedule %s", working, a.mappings, a.schedules["tw/tick"].State)
		}
	}
}
