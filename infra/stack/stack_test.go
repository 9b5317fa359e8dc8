package stack

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/events"
)

func TestOwnEventsNeedNoRule(t *testing.T) {
	d := deployed()(t)
	for id, r := range d.of("AWS::Events::Rule") {
		if slices.Contains(words(r.at("EventPattern", "source")), "tradewind") {
			t.Errorf("rule %s brings what its publisher has sent already", id)
		}
	}
	queues := map[string]bool{}
	for _, q := range d.of("AWS::SQS::Queue") {
		queues[fmt.Sprint(q.Properties["QueueName"])] = true
	}
	for typ, fns := range events.Routes() {
		for _, fn := range fns {
			if !queues["tradewind-"+fn] {
				t.Errorf("%s goes to %s, which has no queue", typ, fn)
			}
		}
	}
}

func TestAWSEventsReachTheirFunctions(t *testing.T) {
	d := deployed()(t)
	seen := map[string]string{}
	for _, r := range d.of("AWS::Events::Rule") {
		for _, typ := range words(r.at("EventPattern", "detail-type")) {
			if r.Properties["EventBusName"] == nil { // the account's own bus
				seen[typ] = fmt.Sprint(r.Properties["Targets"].([]any)[0].(map[string]any)["Arn"])
			}
		}
	}
	for typ, fn := range map[string]string{
		"Object Created":                         "Submit", // not its queue, which is polled only while work is open
		"EC2 Spot Instance Interruption Warning": "InterruptQueue", "EC2 Instance Rebalance Recommendation": "InterruptQueue",
		"EC2 Instance State-change Notification": "InterruptQueue",
	} {
		if !strings.HasPrefix(seen[typ], "<"+fn) || strings.Contains(seen[typ], "Queue") != strings.HasSuffix(fn, "Queue") {
			t.Errorf("%s goes to %q", typ, seen[typ])
		}
	}
	for id, r := range d.of("AWS::Events::Rule") {
		for _, target := range r.Properties["Targets"].([]any) {
			if target.(map[string]any)["DeadLetterConfig"] == nil {
				t.Errorf("what rule %s cannot deliver is lost", id)
			}
		}
	}
}

func TestQueueVisibilityExceedsFunctionTimeout(t *testing.T) {
	d := deployed()(t)
	for _, fn := range events.Functions() {
		_, q := d.named(t, "AWS::SQS::Queue", "QueueName", "tradewind-"+fn)
		_, f := d.named(t, "AWS::Lambda::Function", "FunctionName", "tradewind-"+fn)
		if v, timeout := q.Properties["VisibilityTimeout"].(float64), f.Properties["Timeout"].(float64); v < 2*timeout || timeout > 60 && v < 6*timeout || timeout <= 60 && v > 120 {
			t.Errorf("%s: a message is visible again after %v s, a batch may take %v", fn, v, timeout)
		}
		dead, _ := d.named(t, "AWS::SQS::Queue", "QueueName", "tradewind-"+fn+"-dlq")
		if q.at("RedrivePolicy", "deadLetterTargetArn") != "<"+dead+".Arn>" {
			t.Errorf("%s: dead letters go to %v", fn, q.Properties["RedrivePolicy"])
		}
		if arch := words(f.Properties["Architectures"]); !slices.Equal(arch, []string{"arm64"}) || f.Properties["Runtime"] != "provided.al2023" {
			t.Errorf("%s: %v %v", fn, arch, f.Properties["Runtime"])
		}
		if m := f.Properties["MemorySize"].(float64); m < 128 || m > 512 {
			t.Errorf("%s has %v MiB", fn, m)
		}
	}
}

func TestPlannerMemoryIsThatOfItsFunction(t *testing.T) {
	d := synthesise(t, func(c *Config) { c.PlannerMemory = 2048 })["tradewind"]
	for fn, want := range map[string]float64{events.FnOptimize: 2048, events.FnSubmit: 512} {
		_, f := d.named(t, "AWS::Lambda::Function", "FunctionName", "tradewind-"+fn)
		if got := f.Properties["MemorySize"]; got != want {
			t.Errorf("%s has %v MiB, want %v", fn, got, want)
		}
	}
}

func TestMappingsReportBatchItemFailures(t *testing.T) {
	d := deployed()(t)
	mappings := d.of("AWS::Lambda::EventSourceMapping")
	if len(mappings) != len(events.Functions())+1 {
		t.Fatalf("%d mappings", len(mappings))
	}
	polled := map[string]bool{}
	for id, m := range mappings {
		if !slices.Equal(words(m.Properties["FunctionResponseTypes"]), []string{"ReportBatchItemFailures"}) {
			t.Errorf("%s: one message that fails fails its batch", id)
		}
		if m.Properties["StartingPosition"] == nil {
			if m.at("ScalingConfig", "MaximumConcurrency") == nil {
				t.Errorf("%s has no bound", id)
			}
			polled[id] = m.Properties["Enabled"] == true
			continue
		}
		filter := m.Properties["FilterCriteria"].(map[string]any)["Filters"].([]any)[0].(map[string]any)["Pattern"].(string)
		if want := `{"dynamodb":{"Keys":{"pk":{"S":[{"prefix":"outbox#"}]}}},"eventName":["INSERT"]}`; filter != want {
			t.Errorf("the relay is fed %s", filter)
		}
		if m.at("DestinationConfig", "OnFailure", "Destination") == nil || m.Properties["BisectBatchOnFunctionError"] != true {
			t.Errorf("the relay's stream: %v", m.Properties)
		}
	}
	for id, on := range polled {
		if on {
			t.Errorf("%s is polled while no work is open", id)
		}
	}
}

func TestSubmitHasDeadLetterQueue(t *testing.T) {
	d := deployed()(t)
	id, f := d.named(t, "AWS::Lambda::Function", "FunctionName", "tradewind-submit")
	dead, _ := d.named(t, "AWS::SQS::Queue", "QueueName", "tradewind-submit-dlq")
	if f.at("DeadLetterConfig", "TargetArn") != "<"+dead+".Arn>" {
		t.Errorf("dead letters go to %v", f.at("DeadLetterConfig", "TargetArn"))
	}
	_, c := d.named(t, "AWS::Lambda::EventInvokeConfig", "FunctionName", "<"+id+">")
	if c.Properties["MaximumRetryAttempts"] != 2.0 || c.Properties["MaximumEventAgeInSeconds"] != 21600.0 {
		t.Errorf("%v", c.Properties)
	}
	for name, f := range d.of("AWS::Lambda::Function") {
		if f.at("LoggingConfig", "LogFormat") != "JSON" || f.at("LoggingConfig", "SystemLogLevel") != "WARN" || f.at("LoggingConfig", "ApplicationLogLevel") != "INFO" {
			t.Errorf("%s logs %v", name, f.Properties["LoggingConfig"])
		}
	}
}

func TestNoStatementHasWildcardAction(t *testing.T) {
	d := deployed()(t)
	// Calls allowed on all resources: read-only ones for which IAM has no narrower resource.
	looks := []string{"ec2:Describe", "lambda:ListEventSourceMappings", "pricing:GetProducts", "servicequotas:",
		"savingsplans:Describe", "dynamodb:ListStreams", "freetier:GetAccountPlanState"}
	for _, s := range d.statements() {
		for _, a := range s.actions {
			if strings.Contains(a, "*") {
				t.Errorf("%s: %s", s.role, a)
			}
			if slices.Contains(s.resources, "*") && !slices.ContainsFunc(looks, func(l string) bool { return strings.HasPrefix(a, l) }) {
				t.Errorf("%s may %s of anything", s.role, a)
			}
		}
	}
	for id, r := range d.of("AWS::IAM::Role") {
		if r.Properties["ManagedPolicyArns"] != nil {
			t.Errorf("%s has a managed policy", id)
		}
	}
}

// Only the hook sends e-mail, and only from the sender of the deployment; without one no function may.
func TestMailIsSentOnlyByHookFromSender(t *testing.T) {
	const sender = "broker@example.org"
	for from, want := range map[string]string{"": "[]", sender: `[tradewind-hook [identity/broker@example.org ` +
		`identity/example.org] map[StringEquals:map[ses:FromAddress:[broker@example.org]]]]`} {
		d := synthesise(t, func(c *Config) { c.MailFrom = from })["tradewind"]
		var got []any
		for _, s := range d.statements() {
			if !slices.Contains(s.actions, "ses:SendEmail") {
				continue
			}
			var identities []string
			for _, r := range s.resources {
				identities = append(identities, r[strings.LastIndex(r, ":")+1:])
			}
			got = append(got, s.role, identities, s.condition)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("sender %q: %v", from, got)
		}
		_, f := d.named(t, "AWS::Lambda::Function", "FunctionName", "tradewind-submit")
		if v, _ := f.at("Environment", "Variables", "TRADEWIND_MAIL_FROM").(string); v != from {
			t.Errorf("submit knows the sender %q, not %q", v, from)
		}
	}
}

func TestMachineRightsRequireDeploymentTag(t *testing.T) {
	d := deployed()(t)
	may, tagsRanks := map[string][]string{}, false
	for _, s := range d.statements() {
		c, err := json.Marshal(s.condition)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range s.actions {
			may[a] = append(may[a], s.role)
			switch a {
			case "ec2:TerminateInstances":
				if want := `{"StringEquals":{"aws:ResourceTag/tradewind:deployment":["tradewind"]}}`; string(c) != want {
					t.Errorf("%s may terminate under %s", s.role, c)
				}
			case "ec2:RunInstances":
				for _, r := range s.resources {
					if strings.Contains(r, "instance/") && !strings.Contains(string(c), `"aws:RequestTag/tradewind:deployment":["tradewind"]`) {
						t.Errorf("%s may launch %s under %s", s.role, r, c)
					}
					if strings.HasSuffix(r, "capacity-reservation/*") && !strings.HasSuffix(r, ":ec2:*:*:capacity-reservation/*") {
						t.Errorf("%s may launch onto %s: reservations belong to an account", s.role, r)
					}
				}
			case "ec2:CreateTags":
				if string(c) == `{"ForAllValues:StringEquals":{"aws:TagKeys":["tradewind:rank"]},"Null":{"aws:TagKeys":"false"},"StringEquals":{"aws:ResourceTag/tradewind:deployment":"tradewind"}}` {
					tagsRanks = strings.HasSuffix(s.resources[0], ":instance/*") && len(s.resources) == 1
					continue
				}
				made := strings.Contains(string(c), `"ec2:CreateAction":"RunInstances"`) || strings.Contains(string(c), `"ec2:CreateAction":"CreateSecurityGroup"`)
				if !made || !strings.Contains(string(c), `"aws:RequestTag/tradewind:deployment":"tradewind"`) {
					t.Errorf("%s may tag under %s", s.role, c)
				}
			case "ec2:AuthorizeSecurityGroupIngress":
				if !strings.Contains(string(c), `"aws:ResourceTag/tradewind:deployment":["tradewind"]`) {
					t.Errorf("%s may open groups under %s", s.role, c)
				}
			}
		}
	}
	if !tagsRanks {
		t.Error("no role may tag existing machines with their rank")
	}
	for action, want := range map[string][]string{
		"ec2:RunInstances":         {"tradewind-provision"},
		"ec2:CreateTags":           {"tradewind-provision"},
		"ec2:TerminateInstances":   {"tradewind-provision", "tradewind-reconcile"},
		"ssm:PutParameter":         {"tradewind-api", "tradewind-provision", "tradewind-submit"},
		"scheduler:UpdateSchedule": {"tradewind-api", "tradewind-reconcile", "tradewind-submit"},
		"sns:Publish":              {"tradewind-hook"},
	} {
		got := slices.Compact(slices.Sorted(slices.Values(may[action])))
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", action, got, want)
		}
	}
}

// Only the function that sends traces reads the collector's key; the key is not in the template.
func TestOnlyHookSendsTraces(t *testing.T) {
	d := synthesise(t, func(c *Config) { c.Traces, c.TraceHeaders = "https://collector.example.org", "/team/otlp" })["tradewind"]
	var may []string
	for _, s := range d.statements() {
		if slices.ContainsFunc(s.resources, func(r string) bool { return strings.HasSuffix(r, "parameter/team/otlp") }) {
			may = append(may, s.role+" "+strings.Join(s.actions, " "))
		}
	}
	if want := []string{"tradewind-hook ssm:GetParameter"}; !slices.Equal(may, want) {
		t.Errorf("%q may read the parameter, want %q", may, want)
	}
	for id, f := range d.of("AWS::Lambda::Function") {
		sends := f.at("Environment", "Variables", "OTEL_EXPORTER_OTLP_ENDPOINT")
		if hook := f.at("FunctionName") == "tradewind-hook"; hook != (sends == "https://collector.example.org") {
			t.Errorf("%s sends to %v", id, sends)
		}
	}
}

func TestMachinesHaveNoIdentity(t *testing.T) {
	d := deployed()(t)
	for id := range d.of("AWS::IAM::InstanceProfile") {
		t.Errorf("there is an instance profile, %s", id)
	}
	for id, r := range d.of("AWS::IAM::Role") {
		who, err := json.Marshal(r.Properties["AssumeRolePolicyDocument"])
		if err != nil || strings.Contains(string(who), "ec2") {
			t.Errorf("%s is for machines: %s, %v", id, who, err)
		}
	}
	for _, s := range d.statements() {
		c, err := json.Marshal(s.condition)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(s.actions, "iam:PassRole") &&
			string(c) != `{"StringEquals":{"iam:PassedToService":["scheduler.amazonaws.com"]}}` {
			t.Errorf("%s may give %v to others: %s", s.role, s.resources, c)
		}
	}
}

// The API can grant machines only its own rights: on the work bucket, except for the prefixes of the control
// plane.
func TestAPIGrantsAreLimited(t *testing.T) {
	d := deployed()(t)
	deny, writers, removers := "", []string{}, []string{}
	for _, s := range d.statements() {
		switch {
		case s.effect == "Deny":
			if s.role == "tradewind-api" && slices.Contains(s.actions, "s3:PutObject") && slices.Contains(s.actions, "s3:DeleteObject") {
				deny = strings.Join(s.resources, " ")
			}
			continue
		case slices.ContainsFunc(s.resources, func(r string) bool { return strings.HasPrefix(r, "<Work") && strings.HasSuffix(r, ">/*") }):
			if slices.Contains(s.actions, "s3:PutObject") {
				writers = append(writers, s.role)
			}
			if slices.Contains(s.actions, "s3:DeleteObject") {
				removers = append(removers, s.role)
			}
		}
		if s.role == "tradewind-api" && slices.ContainsFunc(s.actions, func(a string) bool { return strings.HasPrefix(a, "s3:") }) {
			for _, r := range s.resources {
				if !strings.HasPrefix(r, "<Work") {
					t.Errorf("the API may %v of %s", s.actions, r)
				}
			}
		}
	}
	for _, prefix := range []string{"/agent/*", "/catalog/*", "/policy/*"} {
		if !strings.Contains(deny, prefix) {
			t.Errorf("the API may write %s", prefix)
		}
	}
	if !slices.Equal(writers, []string{"tradewind-api"}) || !slices.Equal(removers, []string{"tradewind-api", "tradewind-reconcile"}) {
		t.Errorf("all of the work bucket is written by %v, removed by %v", writers, removers)
	}
}

func TestAgentExistsForEachArchitecture(t *testing.T) {
	d := deployed()(t)
	_, f := d.named(t, "AWS::Lambda::Function", "FunctionName", "tradewind-provision")
	keys := map[string]string{}
	for part := range strings.SplitSeq(fmt.Sprint(f.at("Environment", "Variables", "TRADEWIND_AGENT_KEY")), ",") {
		arch, key, _ := strings.Cut(part, "=")
		keys[arch] = key
	}
	// The files of the test's assets contain their own names.
	for arch, want := range map[string]string{
		"amd64": fmt.Sprintf("agent/%x/tradewind-agent", sha256.Sum256([]byte("agent/amd64/tradewind-agent"))),
		"arm64": fmt.Sprintf("agent/%x/tradewind-agent", sha256.Sum256([]byte("agent/arm64/tradewind-agent"))),
	} {
		if keys[arch] != want {
			t.Errorf("%s: %s, want %s", arch, keys[arch], want)
		}
	}
}

func TestDataIsKeptEncryptedAndPrivate(t *testing.T) {
	d := deployed()(t)
	_, table := d.named(t, "AWS::DynamoDB::Table", "TableName", "tradewind")
	for what, ok := range map[string]bool{
		"kept":                table.DeletionPolicy == "Retain",
		"deletion protection": table.Properties["DeletionProtectionEnabled"] == true,
		"recovery":            table.at("PointInTimeRecoverySpecification", "PointInTimeRecoveryEnabled") == true,
		"on demand":           table.Properties["BillingMode"] == "PAY_PER_REQUEST",
		"time to live":        table.at("TimeToLiveSpecification", "AttributeName") == "ttl",
		"stream":              table.at("StreamSpecification", "StreamViewType") == "NEW_IMAGE",
	} {
		if !ok {
			t.Errorf("table: %s: %v", what, table.Properties)
		}
	}
	buckets := d.of("AWS::S3::Bucket")
	if len(buckets) != 2 {
		t.Fatalf("%d buckets", len(buckets))
	}
	for id, b := range buckets {
		block, _ := b.Properties["PublicAccessBlockConfiguration"].(map[string]any)
		for _, k := range []string{"BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"} {
			if block[k] != true {
				t.Errorf("%s: %s is %v", id, k, block[k])
			}
		}
		if b.DeletionPolicy != "Retain" || b.Properties["BucketEncryption"] == nil {
			t.Errorf("%s: %s %v", id, b.DeletionPolicy, b.Properties)
		}
		if !refusesPlain(d, "AWS::S3::BucketPolicy", "Bucket", id) {
			t.Errorf("%s can be read without TLS", id)
		}
	}
	_, dags := d.named(t, "AWS::S3::Bucket", "BucketName", "tradewind-dags-${AWS::AccountId}-${AWS::Region}")
	if dags.at("NotificationConfiguration", "EventBridgeConfiguration", "EventBridgeEnabled") != true {
		t.Error("no function gets the event of a new DAG file")
	}
	for id, q := range d.of("AWS::SQS::Queue") {
		if q.Properties["SqsManagedSseEnabled"] != true {
			t.Errorf("%s is not encrypted", id)
		}
	}
}

// refusesPlain reports whether a policy denies requests without TLS.
func refusesPlain(d template, typ, property, id string) bool {
	for _, p := range d.of(typ) {
		raw, err := json.Marshal(p.Properties)
		if err == nil && p.Properties[property] == "<"+id+">" && strings.Contains(string(raw), `{"Bool":{"aws:SecureTransport":"false"}}`) {
			return true
		}
	}
	return false
}

// TestAgentsHaveTheirOwnLimits: the throttles of agents and users are separate, and the stage needs the routes that it
// names.
func TestAgentsHaveTheirOwnLimits(t *testing.T) {
	d := deployed()(t)
	routes := map[string]string{}
	for id, r := range d.of("AWS::ApiGatewayV2::Route") {
		routes[fmt.Sprint(r.Properties["RouteKey"])] = id
	}
	for _, stage := range d.of("AWS::ApiGatewayV2::Stage") {
		limits, _ := stage.Properties["RouteSettings"].(map[string]any)
		for key, id := range routes {
			limit, _ := limits[key].(map[string]any)
			if limit["ThrottlingRateLimit"] == nil || limit["ThrottlingBurstLimit"] == nil || !slices.Contains(stage.DependsOn, id) {
				t.Errorf("%s has the limits %v; the stage is made after %v", key, limits[key], stage.DependsOn)
			}
		}
		if len(limits) != len(routes) {
			t.Errorf("limits of %d routes for %d", len(limits), len(routes))
		}
	}
}

// TestUnknownAgentsAreRefusedBeforeTheAPIRuns: API Gateway asks the authorizer, which has no right but to read the key.
func TestUnknownAgentsAreRefusedBeforeTheAPIRuns(t *testing.T) {
	d := deployed()(t)
	id, a := d.named(t, "AWS::ApiGatewayV2::Authorizer", "Name", "agents")
	_, route := d.named(t, "AWS::ApiGatewayV2::Route", "RouteKey", "ANY "+agentRoute)
	if route.Properties["AuthorizerId"] != "<"+id+">" {
		t.Errorf("the route of agents has the authorizer %v", route.Properties["AuthorizerId"])
	}
	if !strings.Contains(fmt.Sprint(a.Properties["AuthorizerUri"]), "Authorizer") || a.Properties["EnableSimpleResponses"] != true ||
		!slices.Equal(words(a.Properties["IdentitySource"]), []string{"$request.header.Authorization"}) {
		t.Errorf("%v", a.Properties)
	}
}

func TestOnlyAgentRoutesSkipIAM(t *testing.T) {
	d := deployed()(t)
	got := map[string]string{}
	for _, r := range d.of("AWS::ApiGatewayV2::Route") {
		got[fmt.Sprint(r.Properties["RouteKey"])] = fmt.Sprint(r.Properties["AuthorizationType"])
	}
	if want := map[string]string{"ANY /v1/agent/{proxy+}": "CUSTOM", "$default": "AWS_IAM"}; !maps.Equal(got, want) {
		t.Errorf("routes %v", got)
	}
}

func TestIdleDeploymentHasNoActiveSchedule(t *testing.T) {
	d := deployed()(t)
	on := map[string]string{}
	for _, s := range d.of("AWS::Scheduler::Schedule") {
		on[fmt.Sprint(s.Properties["Name"])] = fmt.Sprint(s.Properties["State"])
		e, err := events.Parse([]byte(s.at("Target", "Input").(string)))
		if err != nil && !strings.Contains(err.Error(), "time") { // the scheduler fills in the time
			t.Errorf("%v sends %v: %v", s.Properties["Name"], s.at("Target", "Input"), err)
		}
		_ = e
		if !strings.Contains(s.at("Target", "Input").(string), "<aws.scheduler.execution-id>") {
			t.Errorf("two executions of %v are one event", s.Properties["Name"])
		}
	}
	if want := map[string]string{"tick": "DISABLED", "reconcile": "DISABLED", "expire": "DISABLED", "refresh": "ENABLED"}; !maps.Equal(on, want) {
		t.Errorf("schedules %v", on)
	}
	for typ := range map[string]bool{"AWS::EC2::NatGateway": true, "AWS::KMS::Key": true, "AWS::EC2::VPC": true, "Custom::S3BucketNotifications": true} {
		if n := len(d.of(typ)); n > 0 {
			t.Errorf("%d %s", n, typ)
		}
	}
}

func TestTemplateContainsNoSecret(t *testing.T) {
	d := deployed()(t)
	for _, f := range d.of("AWS::Lambda::Function") {
		for name := range f.at("Environment", "Variables").(map[string]any) {
			if !strings.HasPrefix(name, "TRADEWIND_") {
				t.Errorf("environment has %s", name)
			}
		}
	}
	if n := len(d.of("AWS::SSM::Parameter")) + len(d.of("AWS::SecretsManager::Secret")); n > 0 {
		t.Errorf("%d secrets are created by the template, where they are visible", n)
	}
}

func TestLogGroupsHaveRetention(t *testing.T) {
	d := deployed()(t)
	logs := d.of("AWS::Logs::LogGroup")
	if len(logs) != len(functionNames())+1 {
		t.Errorf("%d log groups", len(logs))
	}
	for id, l := range logs {
		if l.Properties["RetentionInDays"] != 30.0 {
			t.Errorf("%s: %v", id, l.Properties)
		}
	}
}

func TestAlarmsCoverJobStoppersWithinFreeTier(t *testing.T) {
	d := deployed()(t)
	watched := map[string]bool{}
	alarms := d.of("AWS::CloudWatch::Alarm")
	for id, a := range alarms {
		dims, _ := a.Properties["Dimensions"].([]any)
		for _, dim := range dims {
			watched[fmt.Sprint(dim.(map[string]any)["Value"])] = true
		}
		if len(words(a.Properties["AlarmActions"])) != 1 {
			t.Errorf("alarm %s has no action", id)
		}
	}
	for _, name := range alarmed() {
		if id, _ := d.named(t, "AWS::SQS::Queue", "QueueName", "tradewind-"+name+"-dlq"); !watched["<"+id+".QueueName>"] {
			t.Errorf("no alarm for dead letters of %s", name)
		}
	}
	if len(alarms) > 10 {
		t.Errorf("%d alarms: only ten are free", len(alarms))
	}
}

// TestAllAlarmsCoverAgeAndAbsence: each queue, each dead-letter queue and reconcile are watched, by no more metrics in an
// alarm than CloudWatch allows, and docs/alarms.md has instructions for each alarm.
func TestAllAlarmsCoverAgeAndAbsence(t *testing.T) {
	d := synthesise(t, func(c *Config) { c.AllAlarms = true })["tradewind"]
	page, err := os.ReadFile("../../docs/alarms.md")
	if err != nil {
		t.Fatal(err)
	}
	alarms, watched, metrics := d.of("AWS::CloudWatch::Alarm"), map[string]bool{}, 0
	for id, a := range alarms {
		_, section, _ := strings.Cut(fmt.Sprint(a.Properties["AlarmDescription"]), "docs/alarms.md#")
		heading := "\n## " + strings.ReplaceAll(strings.TrimSuffix(section, "."), "-", " ") + "\n"
		if !strings.Contains(strings.ToLower(string(page)), heading) {
			t.Errorf("docs/alarms.md has no section for %s: %v", id, a.Properties["AlarmDescription"])
		}
		if len(words(a.Properties["AlarmActions"])) != 1 {
			t.Errorf("alarm %s has no action", id)
		}
		of := []any{map[string]any{"MetricStat": map[string]any{"Metric": a.Properties}}}
		if a.Properties["Metrics"] != nil {
			of = a.Properties["Metrics"].([]any)
		}
		n := 0
		for _, m := range of {
			stat, ok := m.(map[string]any)["MetricStat"].(map[string]any)
			if !ok {
				continue
			}
			n++
			m := stat["Metric"].(map[string]any)
			dims, _ := m["Dimensions"].([]any)
			for _, dim := range dims {
				watched[fmt.Sprint(m["MetricName"], " ", dim.(map[string]any)["Value"])] = true
			}
		}
		if metrics += n; n == 0 || n > mathMost {
			t.Errorf("alarm %s uses %d metrics", id, n)
		}
	}
	for _, name := range deadNames() {
		id, _ := d.named(t, "AWS::SQS::Queue", "QueueName", "tradewind-"+name+"-dlq")
		if !watched["ApproximateNumberOfMessagesVisible <"+id+".QueueName>"] {
			t.Errorf("no alarm for dead letters of %s", name)
		}
	}
	for _, fn := range events.Functions() {
		queue, _ := d.named(t, "AWS::SQS::Queue", "QueueName", "tradewind-"+fn)
		function, _ := d.named(t, "AWS::Lambda::Function", "FunctionName", "tradewind-"+fn)
		if fn != events.FnRefresh && !watched["ApproximateAgeOfOldestMessage <"+queue+".QueueName>"] ||
			!watched["RecursiveInvocationsDropped <"+function+">"] {
			t.Errorf("no alarm for old messages or dropped invocations of %s", fn)
		}
	}
	reconcile, _ := d.named(t, "AWS::Lambda::Function", "FunctionName", "tradewind-reconcile")
	if !watched["Invocations <"+reconcile+">"] || !watched["InvocationAttemptCount tradewind"] || !watched["Lost tradewind"] {
		t.Errorf("no alarm for a missing reconcile or for lost machines: %v", watched)
	}
	if len(alarms) > 13 || metrics != allAlarmMetrics {
		t.Errorf("%d alarms with %d metrics", len(alarms), metrics)
	}
}

// allAlarmMetrics is the number of metrics in docs/aws.md, of which ten are free and the others cost 0.10 USD a month each.
const allAlarmMetrics = 45

func TestEveryResourceHasDeploymentTag(t *testing.T) {
	d := deployed()(t)
	for _, typ := range []string{"AWS::DynamoDB::Table", "AWS::SQS::Queue", "AWS::Lambda::Function", "AWS::S3::Bucket", "AWS::Logs::LogGroup", "AWS::SNS::Topic"} {
		for id, r := range d.of(typ) {
			raw, err := json.Marshal(r.Properties["Tags"])
			if err != nil || !strings.Contains(string(raw), `{"Key":"tradewind:deployment","Value":"tradewind"}`) {
				t.Errorf("%s: tags %s", id, raw)
			}
		}
	}
}

func TestValidateRejectsInvalidConfigurations(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"-name":              func(c *Config) { c.Name = "Trade_wind" },
		"-architecture":      func(c *Config) { c.Architecture = "mips" },
		"-log-days":          func(c *Config) { c.LogDays = 31 },
		"-planner-memory":    func(c *Config) { c.PlannerMemory = 64 },
		"-data-buckets":      func(c *Config) { c.DataBuckets = []string{"s3://x"} },
		"-secrets: \"/trade": func(c *Config) { c.Secrets = []string{"/tradewind/clouds/"} },
		"-make-buckets":      func(c *Config) { c.MakeBuckets = []string{"*"} },
		"-regions needs":     func(c *Config) { c.Regions = []string{"eu-west-1"} },
		"-regions: \"moon\"": func(c *Config) { c.Regions, c.Account, c.Region = []string{"moon"}, "1", "us-east-1" },
		"-webhook":           func(c *Config) { c.Webhook = "http://plain" },
		"-mail-from":         func(c *Config) { c.MailFrom = "broker" },
		"-traces":            func(c *Config) { c.Traces = "http://plain" },
		"-trace-headers: \"": func(c *Config) { c.Traces, c.TraceHeaders = "https://collector", "no path" },
		"-trace-headers n":   func(c *Config) { c.TraceHeaders = "/team/otlp" },
		"make lambda":        func(c *Config) { c.Assets = t.TempDir() },
		"make agent":         func(c *Config) { _ = os.Remove(filepath.Join(c.Assets, "agent", "arm64", "tradewind-agent")) },
	} {
		cfg := Default()
		cfg.Assets = assets(t)
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Old versions of removed objects stay until their noncurrent expiration (Amazon S3 User Guide, "Deleting object
// versions"): a training day's checkpoints, written over and removed, cost 6.6 USD for the month after.
func TestRemovedCheckpointsAreNotKeptAsVersions(t *testing.T) {
	all := synthesise(t, func(c *Config) {
		c.Account, c.Region, c.Regions = "111122223333", "us-east-1", []string{"eu-west-1"}
	})
	for stack, d := range all {
		for id, b := range d.of("AWS::S3::Bucket") {
			versioned := b.at("VersioningConfiguration", "Status") == "Enabled"
			if want := strings.HasPrefix(id, "Dags"); versioned != want {
				t.Errorf("%s %s: versioned %v", stack, id, versioned)
			}
			rules, _ := b.at("LifecycleConfiguration", "Rules").([]any)
			for _, r := range rules {
				old, _ := r.(map[string]any)["NoncurrentVersionExpiration"].(map[string]any)
				if n, ok := old["NoncurrentDays"].(float64); ok && !versioned && n > 1 {
					t.Errorf("%s %s: old versions stay %v days", stack, id, n)
				}
			}
		}
	}
}

// ForAllValues holds for a request without the key, so each such condition needs a Null condition for the key.
func TestConditionsOnAllValuesRequireTheKey(t *testing.T) {
	d := synthesise(t, clouds(t, map[string]string{"azure": "subscription=s,regions=eastus", "lambda": "regions=us-east-1"}))["tradewind"]
	n := 0
	for _, s := range d.statements() {
		null, _ := s.condition["Null"].(map[string]any)
		for name, keys := range s.condition {
			if !strings.HasPrefix(name, "ForAllValues:") {
				continue
			}
			for key := range keys.(map[string]any) {
				if n++; null[key] != "false" {
					t.Errorf("%s: %s %s also holds without the key", s.role, name, key)
				}
			}
		}
	}
	if n < 4 {
		t.Errorf("%d such conditions were found", n)
	}
}

// A stack with data cannot be deleted by accident. `tradewind deploy aws --destroy` removes the protection first.
func TestStacksAreProtectedIfDataIsKept(t *testing.T) {
	for _, keep := range []bool{true, false} {
		out := ""
		synthesise(t, func(c *Config) {
			c.Account, c.Region, c.Regions, c.KeepData, out = "123456789012", "us-east-1", []string{"eu-west-1"}, keep, c.Out
		})
		body, err := os.ReadFile(filepath.Join(out, "manifest.json"))
		if err != nil {
			t.Fatal(err)
		}
		var manifest struct {
			Artifacts map[string]struct {
				Type       string
				Properties struct{ TerminationProtection bool }
			}
		}
		if err := json.Unmarshal(body, &manifest); err != nil {
			t.Fatal(err)
		}
		stacks := 0
		for name, a := range manifest.Artifacts {
			if a.Type != "aws:cloudformation:stack" {
				continue
			}
			if stacks++; a.Properties.TerminationProtection != keep {
				t.Errorf("data is kept: %v; %s is protected: %v", keep, name, a.Properties.TerminationProtection)
			}
		}
		if stacks != 2 {
			t.Errorf("%d stacks", stacks)
		}
	}
}
