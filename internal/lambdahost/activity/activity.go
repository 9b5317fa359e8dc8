// Package activity lets a deployment sleep while no work is open: it switches
// off the schedules and the polling of queues, both of which cost a little. An
// idle deployment then costs nothing but storage. If it keeps finished jobs that will expire, one schedule wakes
// reconcile once a day, to remove them.
//
// A function that accepts work switches on after it has committed the work.
// Reconcile switches off if nothing is open, and then checks again. In any order of these four steps,
// the deployment ends up on if there is work: if the work was committed before the second check, reconcile sees it and
// switches on again; if it was committed after that, the accepting function switches on after reconcile's off.
package activity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
)

// Switch turns on and off the resources that a deployment needs only while work is open. Both calls are idempotent.
type Switch interface {
	On(ctx context.Context) error
	Off(ctx context.Context) error
}

// Settle switches off if the deployment is idle, and on again if it no longer is.
func Settle(ctx context.Context, s Switch, idle func(context.Context) (bool, error), log *slog.Logger) error {
	is, err := idle(ctx)
	if err != nil {
		return err
	}
	if !is { // an earlier attempt to switch on may have failed
		return s.On(ctx)
	}
	if err := s.Off(ctx); err != nil {
		return errors.Join(err, s.On(ctx)) // everything or nothing
	}
	log.InfoContext(ctx, "nothing is open: asleep until new work arrives")
	still, err := idle(ctx)
	if err == nil && still {
		return nil
	}
	return errors.Join(err, s.On(ctx)) // if unknown, assume it is not idle
}

// Scheduler is the part of *scheduler.Client that AWS uses.
type Scheduler interface {
	GetSchedule(context.Context, *scheduler.GetScheduleInput,
		...func(*scheduler.Options)) (*scheduler.GetScheduleOutput, error)
	UpdateSchedule(context.Context, *scheduler.UpdateScheduleInput,
		...func(*scheduler.Options)) (*scheduler.UpdateScheduleOutput, error)
}

// Lambda is the part of *lambda.Client that AWS uses.
type Lambda interface {
	ListEventSourceMappings(context.Context, *lambda.ListEventSourceMappingsInput,
		...func(*lambda.Options)) (*lambda.ListEventSourceMappingsOutput, error)
	UpdateEventSourceMapping(context.Context, *lambda.UpdateEventSourceMappingInput,
		...func(*lambda.Options)) (*lambda.UpdateEventSourceMappingOutput, error)
}

// AWS switches schedules and the polling of queues. Its calls are free.
type AWS struct {
	Scheduler Scheduler
	Lambda    Lambda
	Group     string   // of the schedules
	Schedules []string // names
	Functions []string // whose queues are polled
	// Daily is the name of the schedule that runs reconcile once a day while the deployment sleeps; empty for none. It
	// is on if Expires reports that a finished job is kept that will expire.
	Daily   string
	Expires func(context.Context) (bool, error)
	// Look is the mean pause between attempts to change the mappings while that is refused; 1 s when 0.
	Look time.Duration
}

// tries is the maximum number of attempts to switch polling. Lambda accepts no change of a mapping during another one,
// and 15 requests a second for all of an account's control plane (AWS Lambda developer guide, "Lambda quotas"), so work
// that arrives while a deployment falls asleep, or together with other work, has to wait. The time fits into API
// Gateway's limit.
const tries = 20

// NewAWS makes the switch of a deployment.
func NewAWS(s *lambdahost.Sandbox) *AWS {
	a := &AWS{
		Scheduler: scheduler.NewFromConfig(s.AWS), Lambda: lambda.NewFromConfig(s.AWS),
		Group: s.Env.Deployment, Schedules: s.Env.Schedules, Daily: s.Env.ExpirySchedule,
	}
	for _, fn := range s.Env.Mappings {
		a.Functions = append(a.Functions, s.Env.Function(fn))
	}
	return a
}

// On implements Switch.
func (a *AWS) On(ctx context.Context) error { return a.set(ctx, true) }

// Off implements Switch.
func (a *AWS) Off(ctx context.Context) error {
	if a.Daily != "" && a.Expires != nil {
		on, err := a.Expires(ctx)
		if err == nil {
			err = a.schedule(ctx, a.Daily, on)
		}
		if err != nil {
			return err
		}
	}
	return a.set(ctx, false)
}

func (a *AWS) set(ctx context.Context, on bool) error {
	errs := make([]error, len(a.Schedules)+1)
	var wg sync.WaitGroup
	for i, name := range a.Schedules {
		wg.Go(func() { errs[i] = a.schedule(ctx, name, on) })
	}
	wg.Go(func() { errs[len(a.Schedules)] = a.poll(ctx, on) })
	wg.Wait()
	return errors.Join(errs...)
}

// schedule sets the state of one schedule. An update replaces the whole schedule, so it repeats all other values.
func (a *AWS) schedule(ctx context.Context, name string, on bool) error {
	want := types.ScheduleStateDisabled
	if on {
		want = types.ScheduleStateEnabled
	}
	is, err := a.Scheduler.GetSchedule(ctx, &scheduler.GetScheduleInput{GroupName: &a.Group, Name: &name})
	if err == nil && is.State != want {
		_, err = a.Scheduler.UpdateSchedule(ctx, &scheduler.UpdateScheduleInput{
			Name: &name, GroupName: &a.Group, State: want, ScheduleExpression: is.ScheduleExpression,
			FlexibleTimeWindow: is.FlexibleTimeWindow,
			Target:             is.Target, Description: is.Description,
			ScheduleExpressionTimezone: is.ScheduleExpressionTimezone, StartDate: is.StartDate, EndDate: is.EndDate,
			KmsKeyArn: is.KmsKeyArn, ActionAfterCompletion: is.ActionAfterCompletion,
		})
	}
	if err != nil {
		return fmt.Errorf("activity: schedule %s/%s: %w", a.Group, name, err)
	}
	return nil
}

// poll sets whether the functions' queues are polled. It waits for a change in progress to end, and while Lambda is
// throttled: the new work must be processed. Each attempt reads the mappings again, because another function may have
// switched them meanwhile; then nothing is left to do. A memory of having switched them on would not do: reconcile may
// have switched them off since.
func (a *AWS) poll(ctx context.Context, on bool) error {
	if len(a.Functions) == 0 {
		return nil
	}
	pause := cmp.Or(a.Look, time.Second)
	for n := 1; ; n++ {
		err := a.pollOnce(ctx, on)
		if err == nil {
			return nil
		}
		busy, throttled := refused(err)
		if n == tries || !throttled && (!on || !busy) ||
			clock.Pause(ctx, pause/2+rand.N(pause)) != nil { //nolint:gosec // spreads the callers, no secret
			return fmt.Errorf("activity: polling: %w", err)
		}
	}
}

// refused reports whether a mapping is being changed, and whether Lambda accepts no more requests now (botocore,
// lambda 2015-03-31, UpdateEventSourceMapping: ResourceInUseException, ResourceConflictException and
// TooManyRequestsException).
func refused(err error) (busy, throttled bool) {
	var inUse *lambdatypes.ResourceInUseException
	var conflict *lambdatypes.ResourceConflictException
	var tooMany *lambdatypes.TooManyRequestsException
	return errors.As(err, &inUse) || errors.As(err, &conflict), errors.As(err, &tooMany)
}

// pollOnce lists all mappings in one request, or one for each hundred of the account, and changes those of the
// deployment that are in the other state.
func (a *AWS) pollOnce(ctx context.Context, on bool) error {
	pages := lambda.NewListEventSourceMappingsPaginator(a.Lambda, &lambda.ListEventSourceMappingsInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, m := range page.EventSourceMappings {
			_, function, _ := strings.Cut(aws.ToString(m.FunctionArn), ":function:")
			state := aws.ToString(m.State)
			is := strings.HasPrefix(state, "Enabl")
			if !slices.Contains(a.Functions, function) || is == on && state != "" {
				continue // already in that state, or changing to it
			}
			_, err := a.Lambda.UpdateEventSourceMapping(ctx,
				&lambda.UpdateEventSourceMappingInput{UUID: m.UUID, Enabled: &on})
			if err != nil {
				return fmt.Errorf("%s: %w", function, err)
			}
		}
	}
	return nil
}
