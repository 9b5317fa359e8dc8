package stack

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
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
		for _, name := range alarmed() {
			d.alarm(title(name)+"DeadAlarm",
				name+": an event was given up. `tradewind dlq list` shows it, `tradewind dlq redrive` sends it again.",
				d.dead[name].MetricApproximateNumberOfMessagesVisible(metric("Maximum")), 1, 1)
		}
		d.alarm("RelayAlarm", "Events are not published: the relay is behind.",
			d.functions[fnRelay].Metric(jsii.String("IteratorAge"), metric("Maximum")), 5*60*1000, 2)
	}
	d.dashboard()
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

func metric(statistic string) *awscloudwatch.MetricOptions {
	return &awscloudwatch.MetricOptions{Statistic: &statistic, Period: seconds(300)}
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
