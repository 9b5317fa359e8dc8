package account

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/sandbox"
)

// asyncInvoker invokes a function that is the target of a rule, like Lambda's asynchronous invocation (AWS Lambda
// developer guide, "Invoking a Lambda function asynchronously"): an event whose invocation fails is retried after one
// minute and then after two, for the number of retries in the template, and then becomes a dead letter. moto cannot
// invoke functions, so the rule in moto has a queue as its target instead of the function.
type asyncInvoker struct {
	function *sandbox.Function
	retries  int
	dead     string // URL of the dead-letter queue
	shadow   string // URL of the queue in place of the function
	speed    float64
	sqs      *sqs.Client
	log      *slog.Logger
}

// shadowQueue returns the name of the queue in place of a function.
func shadowQueue(function string) string { return "rehearsal-" + function }

// doors returns the names of the functions that are targets of rules.
func (t *Template) doors() []string {
	var out []string
	for _, r := range t.Of("AWS::Events::Rule") {
		targets, _ := r.Properties["Targets"].([]any)
		for _, target := range targets {
			m, _ := target.(map[string]any)
			if _, name, ok := strings.Cut(fmt.Sprint(m["Arn"]), ":function:"); ok {
				out = append(out, name)
			}
		}
	}
	return out
}

// shadow replaces the functions among a rule's targets by queues.
func (t *Template) shadow(rule any) {
	r, _ := rule.(map[string]any)
	props, _ := r["Properties"].(map[string]any)
	targets, _ := props["Targets"].([]any)
	for _, target := range targets {
		m, _ := target.(map[string]any)
		arn, _ := m["Arn"].(map[string]any)
		id := referencedResource(arn)
		if typ, _ := t.rawResources()[id]["Type"].(string); typ == "AWS::Lambda::Function" {
			m["Arn"] = fmt.Sprintf(arnForms["AWS::SQS::Queue"], shadowQueue(t.name(id)))
		}
	}
}

// open returns the door of a function.
func (w *World) open(name string) (*asyncInvoker, error) {
	f := w.Functions[name]
	if f == nil {
		return nil, fmt.Errorf("rehearsal: a rule invokes %s, which is not deployed", name)
	}
	d := &asyncInvoker{function: f, retries: 2, shadow: w.QueueURL(shadowQueue(name)), speed: w.Speed,
		sqs: sqs.NewFromConfig(w.Config), log: w.Log}
	for _, r := range w.Template.Of("AWS::Lambda::Function") {
		if r.Text("FunctionName") == name {
			if arn := r.Text("DeadLetterConfig", "TargetArn"); arn != "" {
				d.dead = w.QueueURL(queueName(arn))
			}
		}
	}
	for _, r := range w.Template.Of("AWS::Lambda::EventInvokeConfig") {
		if r.Text("FunctionName") == name {
			d.retries = r.number("MaximumRetryAttempts")
		}
	}
	return d, nil
}

// invoke passes an event to a function asynchronously.
func (w *World) invoke(ctx context.Context, function, event string) error {
	d, err := w.open(function)
	if err == nil {
		w.wg.Go(func() { d.invoke(ctx, event) })
	}
	return err
}

func (d *asyncInvoker) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for ctx.Err() == nil {
		out, err := d.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &d.shadow, MaxNumberOfMessages: 10,
			WaitTimeSeconds: int32(pollWait.Seconds())})
		if err != nil {
			_ = clock.Pause(ctx, time.Second)
			continue
		}
		for _, m := range out.Messages { // from here on the event is Lambda's
			if _, err := d.sqs.DeleteMessage(ctx,
				&sqs.DeleteMessageInput{QueueUrl: &d.shadow, ReceiptHandle: m.ReceiptHandle}); err != nil {
				d.log.Warn("door", "err", err)
			}
			wg.Go(func() { d.invoke(ctx, aws.ToString(m.Body)) })
		}
	}
}

// invoke passes an event to the function until it succeeds or the retries are used up.
func (d *asyncInvoker) invoke(ctx context.Context, event string) {
	for try := 0; ; try++ {
		_, err := d.function.Invoke(context.WithoutCancel(ctx), []byte(event))
		for errors.Is(err, sandbox.ErrThrottled) && ctx.Err() == nil { // retried for up to six hours
			_ = clock.Pause(ctx, time.Second)
			_, err = d.function.Invoke(context.WithoutCancel(ctx), []byte(event))
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		d.log.Info("invocation failed", "function", d.function.Name, "try", try+1, "err", err)
		if try == d.retries {
			d.bury(context.WithoutCancel(ctx), event, err)
			return
		}
		_ = clock.Pause(ctx, time.Duration(float64(try+1)*float64(time.Minute)/d.speed))
	}
}

// bury sends an event to the dead-letter queue, with the attributes that Lambda adds.
func (d *asyncInvoker) bury(ctx context.Context, event string, cause error) {
	if d.dead == "" {
		return
	}
	text := func(s string) types.MessageAttributeValue {
		return types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &s}
	}
	_, err := d.sqs.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &d.dead, MessageBody: &event,
		MessageAttributes: map[string]types.MessageAttributeValue{
			"RequestID": text("rehearsal"), "ErrorCode": text("200"), "ErrorMessage": text(cause.Error()),
		}})
	if err != nil {
		d.log.Warn("door", "err", err)
	}
}
