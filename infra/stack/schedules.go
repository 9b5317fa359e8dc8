package stack

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsscheduler"
	"github.com/aws/jsii-runtime-go"

	"github.com/tradewind-broker/tradewind/events"
)

// schedulerRole is the part of the role of the schedules.
const schedulerRole = "scheduler"

// expirySchedule is the name of the schedule that runs reconcile while the deployment sleeps. Reconcile switches it on
// if finished jobs are kept that will expire.
const expirySchedule = "expire"

// schedule is an event that is sent periodically.
type schedule struct {
	name string // if it is not that of the function
	fn   string
	rate string
	data events.Data // nil if the function handles no events
	// idle is set if the schedule stays on while no work is open.
	idle bool
}

func (s schedule) title() string { return cmp.Or(s.name, s.fn) }

// allSchedules are few and slow: events report every change, and the schedules only find what an event has missed.
func (c Config) allSchedules() []schedule {
	all := []schedule{
		{fn: events.FnTick, rate: "rate(10 minutes)", data: events.MarketTicked{}},
		{fn: events.FnReconcile, rate: "rate(2 minutes)", data: events.BrokerReconcile{}},
		{name: expirySchedule, fn: events.FnReconcile, rate: "rate(1 day)", data: events.BrokerReconcile{}},
		{fn: events.FnRefresh, rate: "rate(1 day)", data: events.CatalogRefresh{}, idle: true},
	}
	if len(c.allServices()) > 0 { // a service has no agents that would call
		all = append(all, schedule{fn: fnServices, rate: "rate(1 minute)"})
	}
	return all
}

// activitySchedules are switched on while work is open.
func (c Config) activitySchedules() []string {
	var out []string
	for _, s := range c.allSchedules() {
		if !s.idle && s.name == "" {
			out = append(out, s.fn)
		}
	}
	return out
}

// schedules adds the schedules, which invoke functions directly: a queue in between would cost three requests each
// time. A schedule that stays on without open work sends to its function's queue instead, where the event waits for
// work. The scheduler fills in the execution ID and the scheduled time, so that an event delivered twice is handled
// once.
func (d *deployment) schedules() {
	group := awsscheduler.NewCfnScheduleGroup(d.stack, jsii.String("Schedules"),
		&awsscheduler.CfnScheduleGroupProps{Name: &d.Name})
	role := awsiam.NewRole(d.stack, jsii.String("SchedulerRole"), &awsiam.RoleProps{
		RoleName: d.roleName(schedulerRole), Description: jsii.String("Tradewind: schedules"),
		AssumedBy: awsiam.NewServicePrincipal(jsii.String("scheduler.amazonaws.com"), &awsiam.ServicePrincipalOpts{
			Conditions: &map[string]interface{}{
				"StringEquals": map[string]interface{}{"aws:SourceAccount": d.stack.Account()}},
		}),
	})
	var functions []string
	queues := []string{*d.dead[unrouted].QueueArn()}
	target := func(s schedule) *string {
		if s.idle {
			return d.queues[s.fn].QueueArn()
		}
		return jsii.String(d.arn("lambda", "function:"+d.named(s.fn))) // by name: the function may set its schedule
	}
	for _, s := range d.allSchedules() {
		if s.idle {
			queues = append(queues, *target(s))
		} else if s.name == "" { // others have the target of their function's schedule
			functions = append(functions, *target(s))
		}
	}
	role.AddToPolicy(allow("Functions", []string{"lambda:InvokeFunction"}, functions...))
	role.AddToPolicy(allow("Queues", []string{"sqs:SendMessage"}, queues...))
	for _, s := range d.allSchedules() {
		state := "DISABLED"
		if s.idle {
			state = "ENABLED"
		}
		name, what := s.title(), "checks managed services"
		// A missed check is made up for by the next one, a missed event only by that of the next schedule.
		retry := &awsscheduler.CfnSchedule_RetryPolicyProperty{MaximumEventAgeInSeconds: num(60), MaximumRetryAttempts: num(0)}
		var dead *awsscheduler.CfnSchedule_DeadLetterConfigProperty
		if s.data != nil {
			what = s.data.Type()
			retry.MaximumEventAgeInSeconds, retry.MaximumRetryAttempts = num(3600), num(10)
			dead = &awsscheduler.CfnSchedule_DeadLetterConfigProperty{Arn: d.dead[unrouted].QueueArn()}
		}
		c := awsscheduler.NewCfnSchedule(d.stack, jsii.String(title(name)+"Schedule"), &awsscheduler.CfnScheduleProps{
			Name: &name, GroupName: group.Ref(), ScheduleExpression: &s.rate, State: &state,
			Description:        jsii.String("Tradewind: " + what),
			FlexibleTimeWindow: &awsscheduler.CfnSchedule_FlexibleTimeWindowProperty{Mode: jsii.String("OFF")},
			Target: &awsscheduler.CfnSchedule_TargetProperty{
				Arn: target(s), RoleArn: role.RoleArn(), Input: jsii.String(scheduled(s)),
				DeadLetterConfig: dead, RetryPolicy: retry,
			},
		})
		skip(c, "CKV_AWS_297", "it says when to look, nothing else; a customer's key costs 1 USD a month")
	}
}

// scheduled is the CloudEvents envelope that a schedule sends.
func scheduled(s schedule) string {
	if s.data == nil {
		return "{}"
	}
	body, err := json.Marshal(map[string]any{
		"specversion": "1.0", "type": s.data.Type(), "source": "tradewind/schedule",
		"id":   s.fn + "-<aws.scheduler.execution-id>",
		"time": "<aws.scheduler.scheduled-time>", "datacontenttype": "application/json", "data": map[string]any{},
	})
	if err != nil {
		panic(err) // strings only
	}
	return unescape(string(body))
}

// unescape restores the angle brackets of the scheduler's placeholders, which Go's JSON encoder escapes.
func unescape(s string) string {
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(s)
}
