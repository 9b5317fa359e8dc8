package stack

import (
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"github.com/tradewind-broker/tradewind/events"
)

// alarmed returns the functions whose dead-letter queues have an alarm: those whose lost events stop a job. Alarms
// beyond an account's first ten cost 0.10 USD a month, and an idle deployment must cost nothing; so there are nine of
// these, and one for the relay. Events in the other queues are repeated by the next tick or refresh, or are only
// news. The dashboard shows all queues.
func alarmed() []string {
	return []string{
		events.FnSubmit, events.FnOptimize, events.FnBid, events.FnAdvance, events.FnSchedule, events.FnProvision,
		events.FnExecute, events.FnInterrupt, unrouted,
	}
}

// addMonitoring adds the dashboard (an account has three for free) and the alarms.
func (d *deployment) addMonitoring() {
	if d.Alarms {
		d.allowAlarms()
	}
	switch {
	case d.Alarms && d.AllAlarms:
		d.addAllAlarms()
	case d.Alarms:
		for _, name := range alarmed() {
			d.alarm(title(name)+"DeadAlarm",
				name+": an event was given up. "+instructions("dead-letters"),
				d.dead[name].MetricApproximateNumberOfMessagesVisible(metric("Maximum")), 1, 1)
		}
		d.relayAlarm()
	}
	d.dashboard()
}

func (d *deployment) relayAlarm() {
	d.alarm("RelayAlarm", "Events are not published: the relay is behind. "+instructions("relay"),
		d.functions[fnRelay].Metric(jsii.String("IteratorAge"), metric("Maximum")), 5*60*1000, 2)
}

// instructions names the section of docs/alarms.md that says what to do.
func instructions(section string) string { return "See docs/alarms.md#" + section + "." }

// The values above which the alarms of addAllAlarms fire: the age of a message, seconds, which is longer than retries
// take; throttled invocations and failed requests in a minute; refused requests in a minute, far more than the mistakes
// of users and agents with old tokens; and clusters in five minutes that were given up.
const (
	oldMessage  = 600
	refusedMost = 10
	floodMost   = 600
	lostMost    = 10
)

// addAllAlarms adds alarms for everything that an operator should know. CloudWatch charges for each metric of an alarm,
// beyond ten in an account.
func (d *deployment) addAllAlarms() {
	var dead, age, dropped []awscloudwatch.IMetric
	for _, name := range deadNames() {
		dead = append(dead, d.dead[name].MetricApproximateNumberOfMessagesVisible(each(60, "Maximum")))
	}
	for _, fn := range events.Functions() {
		dropped = append(dropped, d.functions[fn].Metric(jsii.String("RecursiveInvocationsDropped"), each(60, "Sum")))
		if fn != events.FnRefresh { // its daily event waits until work arrives
			age = append(age, d.queues[fn].MetricApproximateAgeOfOldestMessage(each(60, "Maximum")))
		}
	}
	d.math("DeadAlarm", "An event was given up. "+instructions("dead-letters"), "MAX", dead, 1)
	d.math("OldAlarm", "A queue is stuck: its oldest message is older than ten minutes. "+instructions("old-messages"),
		"MAX", age, oldMessage)
	d.math("RecursiveAlarm", "Lambda dropped a recursive invocation. "+instructions("recursive-invocations"), "SUM",
		dropped, 1)
	d.math("RefusedAlarm", "Lambda throttles invocations in this account, or the API fails. "+
		instructions("throttles-and-errors"), "SUM", []awscloudwatch.IMetric{
		awslambda.Function_MetricAllThrottles(each(60, "Sum")), d.api.MetricServerError(each(60, "Sum")),
	}, refusedMost)
	d.alarm("FloodAlarm", "The API refuses very many requests. "+instructions("floods"),
		d.api.MetricClientError(each(60, "Sum")), floodMost, 1)
	d.alarm("LostAlarm", "Many machines or agents were lost without a notice. "+instructions("lost-machines"),
		awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
			Namespace: jsii.String("Tradewind"), MetricName: jsii.String("Lost"), Statistic: jsii.String("Sum"),
			Period: seconds(300), DimensionsMap: &map[string]*string{"Deployment": &d.Name},
		}), lostMost, 1)
	d.silenceAlarm()
	d.relayAlarm()
}

// silenceAlarm adds the alarm that reconcile is missing: its schedule fires every two minutes while work is open, and
// no invocation has succeeded for five. The group's daily schedules fire once each, and one of them runs reconcile.
func (d *deployment) silenceAlarm() {
	reconcile := d.functions[events.FnReconcile]
	d.alarm("SilenceAlarm", "Reconcile has not run for five minutes. "+instructions("no-reconcile"),
		awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
			Expression: jsii.String("IF(FILL(due,0)>=2 AND FILL(run,0)-FILL(failed,0)<1,1,0)"), Period: seconds(300),
			UsingMetrics: &map[string]awscloudwatch.IMetric{
				"due": awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
					Namespace: jsii.String("AWS/Scheduler"), MetricName: jsii.String("InvocationAttemptCount"),
					Statistic: jsii.String("Sum"), DimensionsMap: &map[string]*string{"ScheduleGroup": &d.Name},
				}),
				"run": reconcile.MetricInvocations(metric("Sum")), "failed": reconcile.MetricErrors(metric("Sum")),
			},
		}), 1, 1)
}

// mathMost is how many metrics the expression of an alarm may use (CloudWatch user guide, "Limits that apply to alarms
// based on metric math expressions").
const mathMost = 10

// math adds alarms on the maximum or sum of some metrics: as few as CloudWatch allows, numbered from the second on. A
// metric without data counts as 0.
func (d *deployment) math(id, says, combine string, metrics []awscloudwatch.IMetric, threshold int) {
	parts := (len(metrics) + mathMost - 1) / mathMost
	for i := range parts {
		using, terms := map[string]awscloudwatch.IMetric{}, []string{}
		for n := i * len(metrics) / parts; n < (i+1)*len(metrics)/parts; n++ {
			name := "m" + strconv.Itoa(n)
			using[name], terms = metrics[n], append(terms, "FILL("+name+",0)")
		}
		numbered := id
		if i > 0 {
			numbered += strconv.Itoa(i + 1)
		}
		d.alarm(numbered, says, awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
			Expression: jsii.String(combine + "([" + strings.Join(terms, ",") + "])"), UsingMetrics: &using,
			Period: metrics[0].(awscloudwatch.Metric).Period(),
		}), threshold, 1)
	}
}

// allowAlarms lets the account's alarms publish to their topic. The topic has its own policy, which refuses plain HTTP
// and replaces SNS's default policy, which would have allowed alarms.
func (d *deployment) allowAlarms() {
	d.alarms.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("Alarms"), Actions: jsii.Strings("sns:Publish"), Resources: jsii.Strings(*d.alarms.TopicArn()),
		Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(jsii.String("cloudwatch.amazonaws.com"), nil)},
		Conditions: &map[string]interface{}{
			"StringEquals": map[string]interface{}{"aws:SourceAccount": d.stack.Account()}},
	}))
}

func metric(statistic string) *awscloudwatch.MetricOptions { return each(300, statistic) }

// each is a metric's statistic over a period in seconds.
func each(period int, statistic string) *awscloudwatch.MetricOptions {
	return &awscloudwatch.MetricOptions{Statistic: &statistic, Period: seconds(period)}
}

func (d *deployment) alarm(id, says string, m awscloudwatch.IMetric, threshold, periods int) {
	a := awscloudwatch.NewAlarm(d.stack, &id, &awscloudwatch.AlarmProps{
		AlarmName: jsii.String(d.Name + " " + id), AlarmDescription: &says, Metric: m, Threshold: num(threshold),
		EvaluationPeriods:  num(periods),
		ComparisonOperator: awscloudwatch.ComparisonOperator_GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
		TreatMissingData:   awscloudwatch.TreatMissingData_NOT_BREACHING,
	})
	a.AddAlarmAction(awscloudwatchactions.NewSnsAction(d.alarms))
	a.AddOkAction(awscloudwatchactions.NewSnsAction(d.alarms))
}

func (d *deployment) dashboard() {
	var waiting, age, dead, invoked, failed, times []awscloudwatch.IMetric
	for _, fn := range events.Functions() {
		waiting = append(waiting, d.queues[fn].MetricApproximateNumberOfMessagesVisible(metric("Maximum")))
		age = append(age, d.queues[fn].MetricApproximateAgeOfOldestMessage(metric("Maximum")))
	}
	for _, name := range deadNames() {
		dead = append(dead, d.dead[name].MetricApproximateNumberOfMessagesVisible(metric("Maximum")))
	}
	for _, fn := range d.functionNames() {
		invoked = append(invoked, d.functions[fn].MetricInvocations(metric("Sum")))
		failed = append(failed, d.functions[fn].MetricErrors(metric("Sum")),
			d.functions[fn].MetricThrottles(metric("Sum")))
		times = append(times, d.functions[fn].MetricDuration(metric("p99")))
	}
	capacity := []awscloudwatch.IMetric{
		d.table.MetricConsumedWriteCapacityUnits(metric("Sum")), d.table.MetricConsumedReadCapacityUnits(metric("Sum")),
	}
	calls := []awscloudwatch.IMetric{
		d.api.MetricCount(metric("Sum")), d.api.MetricClientError(metric("Sum")),
		d.api.MetricServerError(metric("Sum")),
	}
	graph := func(title string, metrics []awscloudwatch.IMetric) awscloudwatch.IWidget {
		return awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{Title: &title, Left: &metrics,
			Width: num(8), Height: num(6)})
	}
	awscloudwatch.NewDashboard(d.stack, jsii.String("Dashboard"), &awscloudwatch.DashboardProps{
		// dashboards are global in an account
		DashboardName: awscdk.Fn_Sub(jsii.String(d.Name+"-${AWS::Region}"), nil),
		Widgets: &[]*[]awscloudwatch.IWidget{
			{graph("Dead letters", dead), graph("Waiting", waiting), graph("Oldest, seconds", age)},
			{graph("Invocations", invoked), graph("Errors and throttles", failed),
				graph("Duration, 99th percentile, ms", times)},
			{graph("Table, units", capacity), graph("API", calls)},
		},
	})
}
