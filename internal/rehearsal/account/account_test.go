package account

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/tradewind-broker/tradewind/internal/deploy"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// small is a template with each kind of resource that the rehearsal implements.
const small = `{"Resources":{
 "Table":{"Type":"AWS::DynamoDB::Table","Properties":{"TableName":"tw"}},
 "Q":{"Type":"AWS::SQS::Queue","Properties":{"QueueName":"tw-bid"}},
 "Bus":{"Type":"AWS::Events::EventBus","Properties":{"Name":"tw"}},
 "Rule":{"Type":"AWS::Events::Rule","Properties":{"EventBusName":{"Ref":"Bus"},"Targets":[{"Arn":{"Fn::GetAtt":["Q","Arn"]}}]}},
 "Role":{"Type":"AWS::IAM::Role","Properties":{"RoleName":"tw-bid"}},
 "Policy":{"Type":"AWS::IAM::Policy","Properties":{"Roles":[{"Ref":"Role"}],"PolicyDocument":{"Statement":[
  {"Effect":"Allow","Action":["dynamodb:PutItem","dynamodb:GetItem"],"Resource":{"Fn::GetAtt":["Table","Arn"]}},
  {"Effect":"Allow","Action":"sqs:DeleteMessage","Resource":{"Fn::GetAtt":["Q","Arn"]}},
  {"Effect":"Allow","Action":"s3:GetObject","Resource":{"Fn::Join":["",["arn:aws:s3:::",{"Fn::Sub":"tw-work-${AWS::AccountId}-${AWS::Region}"},"/events/*"]]}},
  {"Effect":"Allow","Action":"ec2:DescribeInstances","Resource":"*"}]}}},
 "Bid":{"Type":"AWS::Lambda::Function","Properties":{"FunctionName":"tw-bid","Role":{"Fn::GetAtt":["Role","Arn"]},"Timeout":60}},
 "BidFeed":{"Type":"AWS::Lambda::EventSourceMapping","Properties":{"FunctionName":{"Ref":"Bid"},"EventSourceArn":{"Fn::GetAtt":["Q","Arn"]},"BatchSize":10,
  "Enabled":false,"FunctionResponseTypes":["ReportBatchItemFailures"],"ScalingConfig":{"MaximumConcurrency":5}}},
 "Stream":{"Type":"AWS::Lambda::EventSourceMapping","Properties":{"FunctionName":{"Ref":"Bid"},"EventSourceArn":{"Fn::GetAtt":["Table","StreamArn"]},
  "BisectBatchOnFunctionError":true,"MaximumRetryAttempts":3,"DestinationConfig":{"OnFailure":{"Destination":{"Fn::GetAtt":["Q","Arn"]}}},
  "FilterCriteria":{"Filters":[{"Pattern":"{\"eventName\":[\"INSERT\"],\"dynamodb\":{\"Keys\":{\"pk\":{\"S\":[{\"prefix\":\"outbox#\"}]}}}}"}]}}},
 "Agents":{"Type":"AWS::ApiGatewayV2::Route","Properties":{"RouteKey":"ANY /v1/agent/{proxy+}","AuthorizationType":"NONE"}},
 "Users":{"Type":"AWS::ApiGatewayV2::Route","Properties":{"RouteKey":"$default","AuthorizationType":"AWS_IAM"}}}}`

func load(t *testing.T) (*Template, deploy.Stack) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "template.json")
	if err := os.WriteFile(path, []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
	s := deploy.Stack{Name: "tw", Template: deploy.Asset{Path: path}}
	tpl, err := readTemplate(s)
	if err != nil {
		t.Fatal(err)
	}
	tpl.resolve("arn:stream")
	return tpl, s
}

func TestPatternsMatchLikeLambda(t *testing.T) {
	for _, c := range []struct {
		pattern, event string
		want           bool
	}{
		{`{"a":["x","y"]}`, `{"a":"y"}`, true},
		{`{"a":["x"]}`, `{"a":"y"}`, false},
		{`{"a":["x"]}`, `{}`, false},
		{`{"a":[1]}`, `{"a":1}`, true},
		{`{"a":[null]}`, `{"a":null}`, true},
		{`{"a":{"b":[{"prefix":"out"}]}}`, `{"a":{"b":"outbox#1"}}`, true},
		{`{"a":{"b":[{"prefix":"out"}]}}`, `{"a":{"b":"job#out"}}`, false},
		{`{"a":{"b":[{"prefix":"out"}]}}`, `{"a":"outbox"}`, false},
		{`{"a":[{"exists":false}]}`, `{"b":1}`, true},
		{`{"a":[{"exists":true}]}`, `{"b":1}`, false},
		{`{"a":["x"],"b":["y"]}`, `{"a":"x","b":"z"}`, false},
	} {
		p, err := parsePattern(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		var event any
		if err := json.Unmarshal([]byte(c.event), &event); err != nil {
			t.Fatal(err)
		}
		if got, err := matches(p, event); err != nil || got != c.want {
			t.Errorf("%s on %s: %v, %v", c.pattern, c.event, got, err)
		}
	}
	if _, err := matches(map[string]any{"a": []any{map[string]any{"suffix": "x"}}}, map[string]any{"a": "x"}); err == nil {
		t.Error("an unsupported rule matches")
	}
}

func TestMappingsAreReadFromTheTemplate(t *testing.T) {
	tpl, _ := load(t)
	all, err := tpl.mappings()
	if err != nil || len(all) != 2 {
		t.Fatalf("%d mappings, %v", len(all), err)
	}
	q, s := all[0], all[1]
	if on, _ := q.Enabled(); on || q.Function != "tw-bid" || q.Source != "arn:aws:sqs:us-east-1:123456789012:tw-bid" || q.Batch != 10 || q.Parallel != 5 || !q.Partial {
		t.Errorf("queue %+v", q)
	}
	if on, _ := s.Enabled(); !on || s.Source != "arn:stream" || !s.Bisect || s.Retries != 3 || s.OnFailure != q.Source || s.Partial {
		t.Errorf("stream %+v", s)
	}
	for pk, want := range map[string]bool{"outbox#3": true, "job#a": false} {
		event := map[string]any{"eventName": "INSERT", "dynamodb": map[string]any{"Keys": map[string]any{"pk": map[string]any{"S": pk}}}}
		if got, err := s.accepts(event); err != nil || got != want {
			t.Errorf("%s: %v, %v", pk, got, err)
		}
	}
	// Functions enable and disable mappings with Lambda's API, which must wake waiting feeds.
	_, changed := q.Enabled()
	call := func(method, path, body string) (int, string) {
		w := httptest.NewRecorder()
		serveMappings(all, w, httptest.NewRequest(method, path, strings.NewReader(body)))
		return w.Code, w.Body.String()
	}
	if code, body := call(http.MethodPut, mappingPath+"/BidFeed", `{"Enabled":true}`); code != http.StatusAccepted || !strings.Contains(body, `"Enabled"`) {
		t.Errorf("%d %s", code, body)
	}
	select {
	case <-changed:
	default:
		t.Error("the channel was not closed")
	}
	if code, body := call(http.MethodGet, mappingPath+"/?FunctionName=tw-bid", ""); code != http.StatusOK || strings.Count(body, "UUID") != 2 {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := call(http.MethodPut, mappingPath+"/Nobody", `{"Enabled":true}`); code != http.StatusNotFound {
		t.Errorf("%d", code)
	}
}

func TestTemplateForEmulator(t *testing.T) {
	tpl, s := load(t)
	out, err := tpl.writeFor(s, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(out.Template.Path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for _, absent := range []string{"EventSourceMapping", "ApiGatewayV2", "DynamoDB::Table", `{"Ref":"Bus"}`} {
		if strings.Contains(text, absent) {
			t.Errorf("it contains %s", absent)
		}
	}
	if !strings.Contains(text, `"EventBusName":"tw"`) || !strings.Contains(text, `{"Fn::GetAtt":["Q","Arn"]}`) || strings.Index(text, `"Bus"`) > strings.Index(text, `"Rule"`) {
		t.Errorf("%s", text)
	}
	if s.Template.Path == out.Template.Path {
		t.Error("the assembly itself was changed")
	}
}

func TestFunctionHasRightsOfItsRole(t *testing.T) {
	tpl, _ := load(t)
	r := tpl.rights()
	if r.Function(functionKey("tw-bid")) != "tw-bid" || r.Function("AKIAUSER") != "" {
		t.Error("wrong function for an access key")
	}
	get := func(path string) *http.Request { return httptest.NewRequest(http.MethodGet, path, nil) }
	for _, c := range []struct {
		service, action, body, path string
		lacks                       string
	}{
		{"dynamodb", "PutItem", `{"TableName":"tw"}`, "/", ""},
		{"dynamodb", "PutItem", `{"TableName":"other"}`, "/", "dynamodb:PutItem of arn:aws:dynamodb:us-east-1:123456789012:table/other"},
		{"dynamodb", "Scan", `{"TableName":"tw"}`, "/", "dynamodb:Scan"},
		{"dynamodb", "TransactWriteItems", `{"TransactItems":[{"Put":{}},{"Get":{}}]}`, "/", ""},
		{"dynamodb", "TransactWriteItems", `{"TransactItems":[{"Put":{}},{"ConditionCheck":{}}]}`, "/", "dynamodb:ConditionCheckItem"},
		{"sqs", "DeleteMessageBatch", `{"QueueUrl":"http://x/123456789012/tw-bid"}`, "/", ""},
		{"sqs", "DeleteMessageBatch", `{"QueueUrl":"http://x/123456789012/tw-execute"}`, "/", "sqs:DeleteMessage"},
		{"s3", "GetObject", "", "/tw-work-123456789012-us-east-1/events/a", ""},
		{"s3", "GetObject", "", "/tw-work-123456789012-us-east-1/agent/a", "s3:GetObject"},
		{"ec2", "DescribeInstances", "", "/", ""},
		{"ec2", "RunInstances", "", "/", "ec2:RunInstances"},
		{"sts", "GetCallerIdentity", "", "/", ""}, // the function's role has no right of STS
		{"sts", "AssumeRole", "", "/", "sts:AssumeRole"},
	} {
		got := r.Missing("tw-bid", c.service, c.action, get(c.path), []byte(c.body))
		if c.lacks == "" && got != "" || !strings.HasPrefix(got, c.lacks) {
			t.Errorf("%s %s %s: lacks %q, want %q", c.service, c.action, c.body, got, c.lacks)
		}
	}
	if n := len(r.Denied()); n != 7 {
		t.Errorf("%d denied: %v", n, r.Denied())
	}
}

func TestBatchItemFailures(t *testing.T) {
	for answer, want := range map[string]string{
		``: "", `null`: "", `{}`: "", `{"batchItemFailures":[]}`: "",
		`{"batchItemFailures":[{"itemIdentifier":"a"},{"itemIdentifier":"b"}]}`: "a b",
		`{"batchItemFailures":[{"itemIdentifier":""}]}`:                         "error",
		`{"batchItemFailures":[{}]}`:                                            "error",
		`"text"`:                                                                "error",
	} {
		failed, err := failures([]byte(answer))
		var got []string
		for id := range failed {
			got = append(got, id)
		}
		slices.Sort(got)
		if s := strings.Join(got, " "); err == nil && s != want || (err != nil) != (want == "error") {
			t.Errorf("%s: %q, %v", answer, s, err)
		}
	}
}

func TestActionsAndUnits(t *testing.T) {
	for _, c := range []struct {
		service, method, path, target, body string
		action                              string
		units                               float64
	}{
		{"dynamodb", "POST", "/", "DynamoDB_20120810.PutItem", `{"Item":{"b":"` + strings.Repeat("x", 3000) + `"}}`, "PutItem", 3},
		{"dynamodb", "POST", "/", "DynamoDB_20120810.TransactWriteItems", `{"TransactItems":[{"Put":{"Item":{}}},{"ConditionCheck":{}}]}`, "TransactWriteItems", 4},
		{"dynamodb", "POST", "/", "DynamoDB_20120810.GetItem", `{"ConsistentRead":true}`, "GetItem", 1},
		{"dynamodb", "POST", "/", "DynamoDB_20120810.Query", `{}`, "Query", 0.5},
		{"dynamodb", "POST", "/", "DynamoDB_20120810.BatchWriteItem", `{"RequestItems":{"t":[{"DeleteRequest":{}},{"PutRequest":{"Item":{}}}]}}`, "BatchWriteItem", 2},
		{"events", "POST", "/", "AWSEvents.PutEvents", `{"Entries":[{},{},{}]}`, "PutEvents", 3},
		{"s3", "GET", "/bucket?list-type=2", "", "", "ListBucket", 0},
		{"s3", "HEAD", "/bucket/key", "", "", "GetObject", 0},
		{"s3", "PUT", "/bucket/a/b", "", "", "PutObject", 0},
		{"ec2", "POST", "/", "", "Action=RunInstances&MaxCount=1", "RunInstances", 0},
		{"scheduler", "PUT", "/schedules/tick", "", "", "UpdateSchedule", 0},
		{"lambda", "PUT", mappingPath + "/x", "", "", "UpdateEventSourceMapping", 0},
	} {
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
		r.Header.Set("X-Amz-Target", c.target)
		action := actionOf(c.service, r, []byte(c.body))
		if units := unitsOf(c.service, action, []byte(c.body), 100); action != c.action || units != c.units {
			t.Errorf("%s %s: %s, %v units; want %s, %v", c.service, c.path, action, units, c.action, c.units)
		}
	}
}

func TestGatewayChecksSignatures(t *testing.T) {
	tpl, _ := load(t)
	routes, err := tpl.routes()
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	g := &gateway{routes: routes, keys: aws.Credentials{AccessKeyID: "AKIAUSER", SecretAccessKey: "secret"}, count: &Counter{}, log: quiet}
	var Refused []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := g.authorise(r, body); err != nil {
			Refused = append(Refused, err.Error())
		}
		w.WriteHeader(http.StatusTeapot)
	}))
	defer s.Close()
	with := func(base, Region, key, secret string) {
		c := client.NewSigned(base, Region, credentials.NewStaticCredentialsProvider(key, secret, ""))
		_, _ = c.Jobs(t.Context(), 10)
		_, _ = c.Submit(t.Context(), "a b.yaml", "key", []byte("tasks: {}"), nil)
	}
	with(s.URL, Region, "AKIAUSER", "secret")
	if len(Refused) > 0 {
		t.Errorf("the user: %v", Refused)
	}
	with(s.URL, Region, "AKIAUSER", "wrong")
	with(s.URL, "eu-west-1", "AKIAUSER", "secret")
	with(s.URL, Region, "AKIAOTHER", "secret")
	if len(Refused) != 6 {
		t.Errorf("refused: %v", Refused)
	}
	// A signed request whose body was changed must be refused.
	r := httptest.NewRequest(http.MethodPost, "http://api.test/v1/jobs", bytes.NewReader([]byte("other")))
	if err := g.authorise(r, []byte("other")); err == nil {
		t.Error("a request without a signature is accepted")
	}
	for path, want := range map[string]string{
		"/v1/agent/hello": "ANY /v1/agent/{proxy+}", "/v1/agent": "$default", "/v1/agent/": "$default", "/v1/jobs": "$default", "/": "$default",
	} {
		if got := g.match(httptest.NewRequest(http.MethodPost, path, nil)); got == nil || got.key != want {
			t.Errorf("%s goes by %v, want %s", path, got, want)
		}
	}
}

func TestSeedDeterminesFaults(t *testing.T) {
	run := func(seed uint64) (all []bool) {
		p := newProxy(&httputil.ReverseProxy{}, &Counter{}, nil, seed, nil)
		p.FailCalls(0.1)
		n := 0
		for range 1000 {
			lost, broken := p.fault("tw-bid")
			if lost || broken {
				n++
			}
			all = append(all, lost, broken)
		}
		if l, b := p.fault("user"); l || b || n < 60 || n > 140 {
			t.Errorf("%d of 1000 fail", n)
		}
		return all
	}
	if !slices.Equal(run(1), run(1)) || slices.Equal(run(1), run(2)) {
		t.Error("a seed does not determine the faults")
	}
}

func TestReasonOfEndedMachineIsCorrected(t *testing.T) {
	p := newProxy(&httputil.ReverseProxy{}, &Counter{}, nil, 1, nil)
	p.Ended("i-1", "Server.SpotInstanceTermination")
	item := func(id string) string {
		return "<item><instanceId>" + id + "</instanceId><reason>User initiated (2026-11-21 17:00:00 UTC)</reason>" +
			"<stateReason><code>Client.UserInitiatedShutdown</code></stateReason></item>"
	}
	got := string(p.explained([]byte("<set>" + item("i-1") + item("i-2") + "</set>")))
	want := "<set><item><instanceId>i-1</instanceId><reason></reason><stateReason><code>Server.SpotInstanceTermination</code></stateReason></item>" + item("i-2") + "</set>"
	if got != want {
		t.Errorf("%s", got)
	}
}

func TestSchedulePeriods(t *testing.T) {
	for expression, want := range map[string]string{"rate(1 minute)": "1m0s", "rate(10 minutes)": "10m0s", "rate(2 hours)": "2h0m0s", "rate(1 day)": "24h0m0s"} {
		if got := every(expression).String(); got != want {
			t.Errorf("%s: %s", expression, got)
		}
	}
}

// A function is killed while it waits for the answer to a launch. The launch must not use the quota.
func TestLaunchWithoutAnswerUsesNoQuota(t *testing.T) {
	var p Proxy
	big, n := classOf("us-east-1", []byte("InstanceType=m5.2xlarge&MaxCount=1"))
	if !p.quotas.take(big, n) {
		t.Fatal("the first launch exceeds the quota")
	}
	p.quotas.abandon(&launch{each: big, n: n})
	if !p.quotas.take(big, n) {
		t.Fatal("the launch without an answer still uses the quota")
	}
	answered := &launch{each: big, n: n}
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	p.countLaunched(r.WithContext(context.WithValue(r.Context(), launching{}, answered)), []byte("<instanceId>i-0abc</instanceId>"))
	p.quotas.abandon(answered)
	if p.quotas.take(big, n) {
		t.Error("a machine that was launched does not use the quota")
	}
}
