package stack

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambdaeventsources"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"github.com/tradewind-broker/tradewind/events"
)

const (
	unrouted = "unrouted" // its dead-letter queue receives events that reached no queue

	deadDays    = 14 // SQS's maximum
	maxReceives = 20 // deliveries of a message before it is a dead letter, as in internal/host
)

// Events of AWS itself, all on the account's default bus.
const (
	s3Created    = "Object Created"
	ec2Warning   = "EC2 Spot Instance Interruption Warning"
	ec2Rebalance = "EC2 Instance Rebalance Recommendation"
	ec2State     = "EC2 Instance State-change Notification"
)

// ec2Notices are the events that a machine will be, may be or was interrupted.
func ec2Notices() []string { return []string{ec2Warning, ec2Rebalance, ec2State} }

// messaging adds the bus, the queues with their dead-letter queues, and the rules between them.
func (d *deployment) messaging() {
	d.bus = awsevents.NewEventBus(d.stack, jsii.String("Bus"), &awsevents.EventBusProps{
		EventBusName: &d.Name, Description: jsii.String("Tradewind's events"),
	})
	for _, name := range deadNames() {
		d.dead[name] = awssqs.NewQueue(d.stack, jsii.String(title(name)+"Dead"), &awssqs.QueueProps{
			QueueName: jsii.String(d.named(name) + "-dlq"), RetentionPeriod: days(deadDays),
			Encryption: awssqs.QueueEncryption_SQS_MANAGED, EnforceSSL: jsii.Bool(true),
		})
		keyless(d.dead[name])
	}
	for _, fn := range events.Functions() {
		keep := days(deadDays)
		if s := sizeOf(fn); s.retentionSeconds > 0 {
			keep = seconds(s.retentionSeconds)
		}
		d.queues[fn] = awssqs.NewQueue(d.stack, jsii.String(title(fn)+"Queue"), &awssqs.QueueProps{
			QueueName: jsii.String(d.named(fn)), RetentionPeriod: keep,
			VisibilityTimeout: seconds(visibility(sizeOf(fn))),
			Encryption:        awssqs.QueueEncryption_SQS_MANAGED, EnforceSSL: jsii.Bool(true),
			DeadLetterQueue: &awssqs.DeadLetterQueue{Queue: d.dead[fn], MaxReceiveCount: num(maxReceives)},
		})
		keyless(d.queues[fn])
	}
	for _, name := range []string{"news", "alarms"} {
		t := awssns.NewTopic(d.stack, jsii.String(title(name)), &awssns.TopicProps{
			TopicName: jsii.String(d.named(name)), EnforceSSL: jsii.Bool(true),
		})
		skip(t, "CKV_AWS_26", "it says which job ended how; alarms could not publish to AWS's own key, and a "+
			"customer's costs 1 USD a month")
		if name == "news" {
			d.topic = t
		} else {
			d.alarms = t
		}
	}
	d.rules()
}

// keyless records why queues have no customer-managed key.
func keyless(q awssqs.Queue) {
	skip(q, "CKV_AWS_27",
		"it is encrypted by SQS's own key; a customer's key costs 1 USD a month, and its requests are billed")
}

// rules route AWS's events about machines to the function that reacts to them. The broker's own events are sent to the
// queues by the functions that publish them.
func (d *deployment) rules() {
	d.rule("TakenRule", events.FnInterrupt, nil, takenPattern())
	d.rule("NoticeRule", events.FnInterrupt, nil, noticePattern())
	// Events of other regions arrive on our bus (notices.go).
	d.rule("FarNoticeRule", events.FnInterrupt, d.bus, &awsevents.EventPattern{
		Source: jsii.Strings("aws.ec2"), DetailType: jsii.Strings(ec2Notices()...),
		Account: jsii.Strings(*d.stack.Account()),
	})
}

// takenPattern selects the end of a machine, once each. AWS sends state changes of every machine in the account, and
// they have no tags to select by (EC2 User Guide, "State change events for your instances"); the function knows which
// machines are ours.
func takenPattern() *awsevents.EventPattern {
	return &awsevents.EventPattern{
		Source: jsii.Strings("aws.ec2"), DetailType: jsii.Strings(ec2State),
		Detail: &map[string]interface{}{"state": []interface{}{"shutting-down", "stopping"}},
	}
}

// noticePattern selects the events that a machine will or may be interrupted.
func noticePattern() *awsevents.EventPattern {
	return &awsevents.EventPattern{Source: jsii.Strings("aws.ec2"), DetailType: jsii.Strings(ec2Warning, ec2Rebalance)}
}

// rule sends events that match a pattern to a function's queue, and undeliverable ones to the dead-letter queue.
func (d *deployment) rule(id, fn string, bus awsevents.IEventBus, pattern *awsevents.EventPattern) {
	awsevents.NewRule(d.stack, &id, &awsevents.RuleProps{
		EventBus: bus, EventPattern: pattern, Description: jsii.String("Tradewind: events that " + fn + " handles"),
		Targets: &[]awsevents.IRuleTarget{awseventstargets.NewSqsQueue(d.queues[fn], &awseventstargets.SqsQueueProps{
			DeadLetterQueue: d.dead[unrouted],
		})},
	})
}

// addEventSources connects each function to its event source.
func (d *deployment) addEventSources() {
	for _, fn := range events.Functions() {
		s := sizeOf(fn)
		awslambda.NewEventSourceMapping(d.stack, jsii.String(title(fn)+"Feed"), &awslambda.EventSourceMappingProps{
			Target: d.functions[fn], EventSourceArn: d.queues[fn].QueueArn(), BatchSize: num(s.batch),
			// until work arrives
			MaxConcurrency: num(s.parallel), ReportBatchItemFailures: jsii.Bool(true), Enabled: jsii.Bool(false),
		})
	}
	d.addStream()
	d.addDAGFileRule()
}

// addDAGFileRule makes EventBridge invoke submit for each object in the bucket of DAG files. Undeliverable events go to
// submit's dead-letter queue.
func (d *deployment) addDAGFileRule() {
	awsevents.NewRule(d.stack, jsii.String("DagFileRule"), &awsevents.RuleProps{
		Description: jsii.String("Tradewind: events that " + events.FnSubmit + " handles"),
		EventPattern: &awsevents.EventPattern{
			Source: jsii.Strings("aws.s3"), DetailType: jsii.Strings(s3Created),
			Detail: &map[string]interface{}{
				"bucket": map[string]interface{}{"name": []interface{}{d.dags.BucketName()}}},
		},
		Targets: &[]awsevents.IRuleTarget{awseventstargets.NewLambdaFunction(d.functions[events.FnSubmit],
			&awseventstargets.LambdaFunctionProps{
				DeadLetterQueue: d.dead[events.FnSubmit], RetryAttempts: num(doorRetries),
				MaxEventAge: seconds(doorSeconds),
			})},
	})
}

// addStream feeds the relay with new outbox records. A batch that keeps failing is not lost: reconcile publishes the
// records that remain in the outbox.
func (d *deployment) addStream() {
	d.functions[fnRelay].AddEventSourceMapping(jsii.String("Stream"), &awslambda.EventSourceMappingOptions{
		EventSourceArn: d.table.TableStreamArn(), BatchSize: num(sizeOf(fnRelay).batch),
		StartingPosition:        awslambda.StartingPosition_TRIM_HORIZON,
		ReportBatchItemFailures: jsii.Bool(true), BisectBatchOnError: jsii.Bool(true), RetryAttempts: num(10),
		MaxRecordAge: seconds(6 * 3600), ParallelizationFactor: num(2),
		OnFailure: awslambdaeventsources.NewSqsDlq(d.dead[fnRelay]),
		Filters: &[]*map[string]interface{}{awslambda.FilterCriteria_Filter(&map[string]interface{}{
			"eventName": awslambda.FilterRule_IsEqual("INSERT"),
			"dynamodb": map[string]interface{}{"Keys": map[string]interface{}{"pk": map[string]interface{}{
				"S": awslambda.FilterRule_BeginsWith(jsii.String("outbox#")),
			}}},
		})},
	})
}
