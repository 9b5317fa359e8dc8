package account

import (
	"context"
	"encoding/json"
	"log/slog"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
)

// clockwork runs the deployed schedules. The emulator keeps their state, because the functions switch them.
type clockwork struct {
	scheduler *scheduler.Client
	sqs       *sqs.Client
	invoke    func(ctx context.Context, function, event string) error // asynchronously, with retries
	group     string
	speed     float64 // how many times faster than real time
	log       *slog.Logger
	held      atomic.Bool // no schedule fires
}

// install creates the template's schedules in the emulator, because its CloudFormation does not.
func (c *clockwork) install(ctx context.Context, t *Template) error {
	if _, err := c.scheduler.CreateScheduleGroup(ctx, &scheduler.CreateScheduleGroupInput{Name: &c.group}); err != nil {
		return err
	}
	for _, s := range t.Of("AWS::Scheduler::Schedule") {
		_, err := c.scheduler.CreateSchedule(ctx, &scheduler.CreateScheduleInput{
			Name: aws.String(s.Text("Name")), GroupName: &c.group,
			ScheduleExpression: aws.String(s.Text("ScheduleExpression")), State: types.ScheduleState(s.Text("State")),
			FlexibleTimeWindow: &types.FlexibleTimeWindow{Mode: types.FlexibleTimeWindowModeOff},
			Description:        aws.String(s.Text("Description")),
			Target: &types.Target{Arn: aws.String(s.Text("Target", "Arn")),
				RoleArn: aws.String(s.Text("Target", "RoleArn")), Input: aws.String(s.Text("Target", "Input"))},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// every returns the period of a rate expression.
func every(expression string) time.Duration {
	inner := strings.TrimSuffix(strings.TrimPrefix(expression, "rate("), ")")
	number, unit, _ := strings.Cut(inner, " ")
	d, err := time.ParseDuration(number + "m")
	if err != nil {
		return 0
	}
	switch strings.TrimSuffix(unit, "s") {
	case "hour":
		return d * 60
	case "day":
		return d * 60 * 24
	}
	return d
}

// run sends one schedule's events while it is on.
func (c *clockwork) run(ctx context.Context, name, expression string) {
	due := time.Duration(float64(every(expression)) / c.speed)
	for ctx.Err() == nil {
		_ = clock.Pause(ctx, due)
		if c.held.Load() {
			continue
		}
		if err := c.fire(ctx, name); err != nil && ctx.Err() == nil {
			c.log.Warn("schedule", "name", name, "err", err)
		}
	}
}

// fire sends a schedule's event, if it is on.
func (c *clockwork) fire(ctx context.Context, name string) error {
	s, err := c.scheduler.GetSchedule(ctx, &scheduler.GetScheduleInput{GroupName: &c.group, Name: &name})
	if err != nil || s.State != types.ScheduleStateEnabled {
		return err
	}
	body := strings.NewReplacer("<aws.scheduler.execution-id>", name+"-"+time.Now().UTC().Format("150405.000000"),
		"<aws.scheduler.scheduled-time>", time.Now().UTC().Format(time.RFC3339)).Replace(aws.ToString(s.Target.Input))
	arn := aws.ToString(s.Target.Arn)
	if _, function, ok := strings.Cut(arn, ":function:"); ok {
		return c.invoke(ctx, function, body)
	}
	url := "https://sqs." + Region + ".amazonaws.com/" + account + "/" + path.Base(strings.ReplaceAll(arn, ":", "/"))
	_, err = c.sqs.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body})
	return err
}

// HoldSchedules stops all schedules until resume is called.
func (w *World) HoldSchedules() (resume func()) {
	w.clockwork.held.Store(true)
	return func() { w.clockwork.held.Store(false) }
}

// Invoke sends an event to a function, as a schedule does.
func (w *World) Invoke(ctx context.Context, function string, data events.Data) error {
	now := time.Now()
	body, err := json.Marshal(events.New(function+"-"+now.Format("150405.000000"), "rehearsal", now, data))
	if err != nil {
		return err
	}
	return w.invoke(ctx, w.Stack.Name+"-"+function, string(body))
}

// Fire sends a schedule's event now, if the schedule is on.
func (w *World) Fire(ctx context.Context, name string) error { return w.clockwork.fire(ctx, name) }
