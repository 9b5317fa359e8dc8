package stack

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/events"
)

// An incident is what metrics report in each minute of it, by the name of the metric and the value of one of its
// dimensions.
type incident map[string]func(minute int) float64

func constantly(v float64) func(int) float64 { return func(int) float64 { return v } }

// lateness is how long after a minute its metrics are there, in minutes.
const lateness = 1

// watcher evaluates the alarms of a template as CloudWatch does: a statistic of each metric over whole periods, an
// expression of these, and a comparison of the latest periods with the threshold.
type watcher struct {
	t    *testing.T
	what incident
}

// stat returns the statistic of a metric over the minutes from a to b, and false without data.
func (w watcher) stat(m map[string]any, statistic string, a, b int) (sum float64, ok bool) {
	for minute := max(a, 0); minute < b; minute++ {
		for of, value := range w.what {
			name, dimension, _ := strings.Cut(of, " ")
			if m["MetricName"] != name || !hasDimension(m, dimension) {
				continue
			}
			if v := value(minute); statistic == "Maximum" {
				sum = max(sum, v)
			} else {
				sum += v
			}
			ok = true
		}
	}
	return sum, ok
}

// hasDimension reports whether a metric has a dimension with a value; "" is any metric.
func hasDimension(m map[string]any, value string) bool {
	dims, _ := m["Dimensions"].([]any)
	return value == "" || slices.ContainsFunc(dims, func(d any) bool {
		return d.(map[string]any)["Value"] == value
	})
}

var filled = regexp.MustCompile(`FILL\((\w+),0\)`)

// value returns the value of an alarm over the minutes from a to b, and false without data.
func (w watcher) value(alarm map[string]any, a, b int) (float64, bool) {
	metrics, isMath := alarm["Metrics"].([]any)
	if !isMath {
		return w.stat(alarm, alarm["Statistic"].(string), a, b)
	}
	vars, expression := map[string]float64{}, ""
	for _, m := range metrics {
		m := m.(map[string]any)
		if e, ok := m["Expression"].(string); ok {
			expression = e
			continue
		}
		stat := m["MetricStat"].(map[string]any)
		vars[m["Id"].(string)], _ = w.stat(stat["Metric"].(map[string]any), stat["Stat"].(string), a, b)
	}
	if strings.HasPrefix(expression, "IF(FILL(due,0)>=2") {
		if vars["due"] >= 2 && vars["run"]-vars["failed"] < 1 {
			return 1, true
		}
		return 0, true
	}
	out, most := 0.0, 0.0
	for _, term := range filled.FindAllStringSubmatch(expression, -1) {
		out, most = out+vars[term[1]], max(most, vars[term[1]])
	}
	switch {
	case strings.HasPrefix(expression, "SUM(["):
		return out, true
	case strings.HasPrefix(expression, "MAX(["):
		return most, true
	}
	w.t.Fatalf("cannot evaluate %s", expression)
	return 0, false
}

// fires returns the minute after which an alarm reports the incident; ok is false if it does not within an hour.
func (w watcher) fires(alarm map[string]any) (minute int, ok bool) {
	period := periodOf(alarm) / 60
	for end := period; end <= 60; end += period {
		breaches := true
		for n := range int(alarm["EvaluationPeriods"].(float64)) {
			v, some := w.value(alarm, end-(n+1)*period, end-n*period)
			breaches = breaches && some && v >= alarm["Threshold"].(float64)
		}
		if breaches {
			return end + lateness, true
		}
	}
	return 0, false
}

// periodOf returns the period of an alarm, in seconds.
func periodOf(alarm map[string]any) int {
	if p, ok := alarm["Period"].(float64); ok {
		return int(p)
	}
	most := 0.0
	for _, m := range alarm["Metrics"].([]any) {
		if stat, ok := m.(map[string]any)["MetricStat"].(map[string]any); ok {
			most = max(most, stat["Period"].(float64))
		}
	}
	return int(most)
}

// TestAlarmsReportIncidentsWithinFiveMinutes evaluates the alarms of --all-alarms on incidents that begin at minute 0,
// and on a day without any.
func TestAlarmsReportIncidentsWithinFiveMinutes(t *testing.T) {
	const within = 5 + lateness
	d := synthesise(t, func(c *Config) { c.AllAlarms = true })["tradewind"]
	reconcile, _ := d.named(t, "AWS::Lambda::Function", "FunctionName", "tradewind-reconcile")
	queue, _ := d.named(t, "AWS::SQS::Queue", "QueueName", "tradewind-"+events.FnRefresh+"-dlq")
	// a busy day: some mistakes of users, a schedule that fires every two minutes, and reconcile that follows it
	normal := incident{
		"4xx": constantly(20), "5xx": constantly(0), "Throttles": constantly(0),
		"InvocationAttemptCount tradewind": constantly(0.5), "Invocations <" + reconcile + ">": constantly(0.5),
		"Errors <" + reconcile + ">": constantly(0), "Lost": constantly(0.2),
		"ApproximateAgeOfOldestMessage": constantly(30),
	}
	for name, c := range map[string]struct {
		changed incident
		alarm   string // of the template, without its number; "" is none
	}{
		"a normal day":                           {nil, ""},
		"Lambda drops a recursive invocation":    {incident{"RecursiveInvocationsDropped <" + reconcile + ">": func(m int) float64 { return float64(max(0, 1-m)) }}, "RecursiveAlarm"},
		"strangers flood the endpoint":           {incident{"4xx": constantly(3000)}, "FloodAlarm"},
		"the API fails for half an hour":         {incident{"5xx": constantly(30)}, "RefusedAlarm"},
		"the account has no concurrency left":    {incident{"Throttles": constantly(100)}, "RefusedAlarm"},
		"an event is given up":                   {incident{"ApproximateNumberOfMessagesVisible <" + queue + ".QueueName>": constantly(1)}, "DeadAlarm"},
		"reconcile fails each time":              {incident{"Errors <" + reconcile + ">": constantly(0.5)}, "SilenceAlarm"},
		"reconcile does not run":                 {incident{"Invocations <" + reconcile + ">": constantly(0)}, "SilenceAlarm"},
		"a zone is lost with many of its agents": {incident{"Lost": constantly(12)}, "LostAlarm"},
	} {
		t.Run(name, func(t *testing.T) {
			what := maps.Clone(normal)
			maps.Copy(what, c.changed)
			found := false
			for id, a := range d.of("AWS::CloudWatch::Alarm") {
				minute, fires := watcher{t, what}.fires(a.Properties)
				if !fires {
					continue
				}
				t.Logf("%s reports it after %d minutes", id, minute)
				if c.alarm == "" || !strings.HasPrefix(id, c.alarm) {
					t.Errorf("%s fires: %v", id, a.Properties["AlarmDescription"])
				}
				found = found || minute <= within
			}
			if !found && c.alarm != "" {
				t.Errorf("no alarm within %d minutes", within)
			}
		})
	}
}
