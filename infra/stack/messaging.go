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
	unrouted = "unrouted" // whose dead-letter queue takes what reached no queue

	deadDays    = 14 // SQS's most
	maxReceives = 20 // deliveries of a message before it is a dead letter, as in internal/host
)

// The events of AWS itself, all on the account's default bus.
const (
	s3Created    = "Object Created"
	ec2Warning   = "EC2 Spot Instance Interruption Warning"
	ec2Rebalance = "EC2 Instance Rebalance Recommendation"
	ec2State     = "EC2 Instance State-change Notification"
)

// ec2Notices tell that a machine will be, may be, or was taken.
func ec2Notices() []string { return []string{ec2Warning, ec2Rebalance, ec2State} }

// messaging is the bus, the queues with their dead letters, and the rules between.
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
		if s := sizeOf(fn); s.keep > 0 {
			keep = seconds(s.keep)
		}
		d.queues[fn] = awssqs.NewQueue(d.stack, jsii.String(title(fn)+"Queue"), &awssqs.QueueProps{
			QueueName: jsii.String(d.named(fn)), RetentionPeriod: keep,
			VisibilityTimeout: seconds(visibilityFactor * sizeOf(fn).seconds),
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

// keyless says why queues have no key of the customer's.
func keyless(q awssqs.Queue) {
	skip(q, "CKV_AWS_27",
		"it is encrypted by SQS's own key; a customer's key costs 1 USD a month and requests of its own")
}

// rules bring what AWS tells of machines to the function that reacts to it. Events of our own are sent to the queues by
// those who publish them.
func (d *deployment) rules() {
	// A machine's state is told for every machine of the account: only their ends are of interest, once each, and the
	// function knows which are ours.
	d.rule("TakenRule", events.FnInterrupt, nil, &awsevents.EventPattern{
		Source: jsii.Strings("aws.ec2"), DetailType: jsii.Strings(ec2State),
		Detail: &map[string]interface{}{"state": []interface{}{"shutting-down", "stopping"}},
	})
	d.rule("NoticeRule", events.FnInterrupt, nil, &awsevents.EventPattern{
		Source: jsii.Strings("aws.ec2"), DetailType: jsii.Strings(ec2Warning, ec2Rebalance),
	})
	// From other regions they come by our own bus (notices.go).
	d.rule("FarNoticeRule", events.FnInterrupt, d.bus, &awsevents.EventPattern{
		Source: jsii.Strings("aws.ec2"), DetailType: jsii.Strings(ec2Notices()...),
		Account: jsii.Strings(*d.stack.Account()),
	})
}

// rule sends what fits a pattern to a function's queue; what cannot be delivered there is kept.
func (d *deployment) rule(id, fn string, bus awsevents.IEventBus, pattern *awsevents.EventPattern) {
	awsevents.NewRule(d.stack, &id, &awsevents.RuleProps{
		EventBus: bus, EventPattern: pattern, Description: jsii.String("Tradewind: what " + fn + " reacts to"),
		Targets: &[]awsevents.IRuleTarget{awseventstargets.NewSqsQueue(d.queues[fn], &awseventstargets.SqsQueueProps{
			DeadLetterQueue: d.dead[unrouted],
		})},
	})
}

// feed connects each function to what feeds it.
func (d *deployment) feed() {
	for _, fn := range events.Functions() {
		s := sizeOf(fn)
		awslambda.NewEventSourceMapping(d.stack, jsii.String(title(fn)+"Feed"), &awslambda.EventSourceMappingProps{
			Target: d.functions[fn], EventSourceArn: d.queues[fn].QueueArn(), BatchSize: num(s.batch),
			// until work comes in
			MaxConcurrency: num(s.parallel), ReportBatchItemFailures: jsii.Bool(true), Enabled: jsii.Bool(false),
		})
	}
	d.stream()
	d.door()
}

// door has EventBridge invoke submit for each object in the bucket of DAG files. What it cannot deliver is kept beside
// what submit gave up.
func (d *deployment) door() {
	awsevents.NewRule(d.stack, jsii.String("DagFileRule"), &awsevents.RuleProps{
		Description: jsii.String("Tradewind: what " + events.FnSubmit + " reacts to"),
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

// stream feeds the relay with what was put in the outbox. A batch that fails again and again is no loss: reconcile
// publishes whatever is left there.
func (d *deployment) stream() {
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
