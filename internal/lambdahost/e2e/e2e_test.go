package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	schedulertypes "github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/traces/tracestest"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

const chain = `apiVersion: tradewind/v1
name: chain
tasks:
  first:
    run: echo made by first; echo result > $TRADEWIND_OUTPUT/result.txt
    outputs: [{name: result, size: 1MiB}]
    resources: {cpus: 2+, market: on-demand}
    time: 10m
  second:
    after: [first]
    run: cat $TRADEWIND_INPUTS/first/result.txt
    resources: {cpus: 2+, market: on-demand}
    time: 10m
`

// TestUploadedDAGFileRuns covers the whole control plane: submit, optimize, bid, advance, schedule, provision, execute,
// the relay, the API, agents with real processes, and reconcile, which puts the deployment to sleep at the end.
func TestUploadedDAGFileRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("starts emulators")
	}
	collector := tracestest.New(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	w := deployWith(t, nil, []string{lambdahost.EnvTraceHeaders + "=/team/otlp"})
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	defer w.agents.Wait()
	defer cancel()
	if _, err := ssm.NewFromConfig(w.cfg).PutParameter(ctx, &ssm.PutParameterInput{
		Name: aws.String("/team/otlp"), Value: aws.String("api-key=of-the-collector"), Type: ssmtypes.ParameterTypeSecureString, Overwrite: aws.Bool(true),
	}); err != nil {
		t.Fatal(err)
	}
	created := w.created("17793124-05d4-b198-2fde-7ededc63b103", "chain.yaml", chain)
	w.drop(ctx, events.FnSubmit, created)
	w.drop(ctx, events.FnSubmit, created) // delivered twice

	job := w.untilOver(ctx, func(i types.Instance) {
		id := aws.ToString(i.InstanceId)
		w.machine(ctx, id, w.tokenOf(ctx, id))
	})
	if job.State != apitypes.JobSucceeded || len(job.Attempts) != 2 {
		t.Fatalf("%+v\n%s", job, w.log.String())
	}
	if state := w.scheduleState(ctx, "reconcile"); state != schedulertypes.ScheduleStateEnabled {
		t.Errorf("while work is open the schedule is %s", state)
	}
	var jobs struct{ Jobs []apitypes.JobView }
	w.get(ctx, "/v1/jobs", &jobs)
	if len(jobs.Jobs) != 1 {
		t.Errorf("%d jobs of a file that was delivered twice", len(jobs.Jobs))
	}
	if log := w.text(ctx, "/v1/jobs/"+job.ID+"/tasks/first/logs?follow=true"); !strings.Contains(log, "made by first") {
		t.Errorf("the log is %q", log)
	}
	if running := w.instances(ctx); len(running) > 0 {
		t.Errorf("%d machines are left", len(running))
	}
	w.reconcile(ctx, "r1")
	w.quiet(ctx)
	if state := w.scheduleState(ctx, "reconcile"); state != schedulertypes.ScheduleStateDisabled {
		t.Errorf("with nothing open the schedule is %s\n%s", state, w.log.String())
	}
	w.refusals(ctx, job.ID)
	w.secrets(ctx)
	w.traced(collector)
}

// traced checks the data that the collector received: its key, and the spans of the job, its tasks and their attempts.
func (w *world) traced(c *tracestest.Collector) {
	w.Helper()
	c.Await(w.T, "chain")
	c.Lock()
	defer c.Unlock()
	if got := c.Headers.Get("Api-Key"); got != "of-the-collector" || strings.Contains(w.log.String(), got) {
		w.Errorf("the collector was given the key %q", got)
	}
	job, second := c.Named("chain"), c.Named("second")
	if len(second) == 0 || string(second[0].ParentSpanId) != string(job[0].SpanId) || len(c.Spans) < 5 {
		w.Errorf("%d spans: %v", len(c.Spans), c.Spans)
	}
}

// untilOver simulates Lambda, and the hypervisor that starts machines, until the only job has finished.
func (w *world) untilOver(ctx context.Context, start func(types.Instance)) (job apitypes.JobDetail) {
	w.Helper()
	return w.untilAllOver(ctx, 1, start)[0]
}

// untilAllOver is untilOver for n submitted jobs.
func (w *world) untilAllOver(ctx context.Context, n int, start func(types.Instance)) []apitypes.JobDetail {
	w.Helper()
	booted := map[string]bool{}
	for ctx.Err() == nil {
		w.round(ctx)
		for _, i := range w.instances(ctx) {
			if id := aws.ToString(i.InstanceId); !booted[id] {
				booted[id] = true
				start(i)
			}
		}
		var jobs struct{ Jobs []apitypes.JobView }
		w.get(ctx, "/v1/jobs", &jobs)
		over := slices.DeleteFunc(jobs.Jobs, func(j apitypes.JobView) bool { return !j.State.Finished() })
		if len(over) < n {
			continue
		}
		w.quiet(ctx)
		all := make([]apitypes.JobDetail, len(over))
		for i, j := range over {
			w.get(ctx, "/v1/jobs/"+j.ID, &all[i])
		}
		return all
	}
	w.Fatalf("not all jobs ended\n%s", w.log.String())
	return nil
}

// reconcile invokes the broker's reconcile, as its schedule does.
func (w *world) reconcile(ctx context.Context, id string) {
	w.Helper()
	w.drop(ctx, events.FnReconcile, json.RawMessage(`{"specversion":"1.0","type":"tradewind.broker.reconcile.v1",`+
		`"source":"tradewind/schedule","id":"`+id+`","time":"2026-11-21T09:00:00Z","data":{}}`))
}

// quiet simulates Lambda until no messages are left.
func (w *world) quiet(ctx context.Context) {
	for idle := 0; idle < 3 && ctx.Err() == nil; {
		if w.round(ctx) == 0 {
			idle++
		} else {
			idle = 0
		}
	}
}

// instances returns the running machines of the deployment.
func (w *world) instances(ctx context.Context) (all []types.Instance) {
	w.Helper()
	for _, region := range strings.Split(w.environment()[lambdahost.EnvRegions], ",") {
		out, err := w.ec2(region).DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: []types.Filter{
			{Name: aws.String("tag:tradewind:deployment"), Values: []string{w.name}},
			{Name: aws.String("instance-state-name"), Values: []string{"pending", "running"}},
		}})
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			w.Fatal(err)
		}
		for _, r := range out.Reservations {
			for _, i := range r.Instances {
				w.zones[aws.ToString(i.InstanceId)] = aws.ToString(i.Placement.AvailabilityZone)
				all = append(all, i)
			}
		}
	}
	return all
}

// ec2 returns the client of a region's EC2.
func (w *world) ec2(region string) *ec2.Client {
	return ec2.NewFromConfig(w.cfg, func(o *ec2.Options) { o.Region = region })
}

// zone returns the zone of a machine that was seen.
func (w *world) zone(id string) (region, zone string) {
	zone = cmp.Or(w.zones[id], "us-east-1a")
	return strings.TrimRight(zone, "abcdef"), zone
}

var jwt = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`)

// tokenOf returns the token in a machine's user data.
func (w *world) tokenOf(ctx context.Context, id string) string {
	w.Helper()
	raw := w.userData(ctx, id)
	found := jwt.FindString(string(plain(w.T, raw)))
	if found == "" {
		w.Fatalf("no token in %q", raw)
	}
	return found
}

// userData returns the user data with which a machine was launched.
func (w *world) userData(ctx context.Context, id string) []byte {
	w.Helper()
	region, _ := w.zone(id)
	out, err := w.ec2(region).DescribeInstanceAttribute(ctx, &ec2.DescribeInstanceAttributeInput{
		InstanceId: &id, Attribute: types.InstanceAttributeNameUserData,
	})
	if err != nil {
		w.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(aws.ToString(out.UserData.Value))
	if err != nil {
		w.Fatal(err)
	}
	return raw
}

// request calls the API as a user whom IAM has verified, or with the given authorization.
func (w *world) request(ctx context.Context, method, path, authorization string) (int, []byte) {
	w.Helper()
	req, err := http.NewRequestWithContext(ctx, method, w.api.URL+path, http.NoBody)
	if err != nil {
		w.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			w.Fatalf("%v\n%s", ctx.Err(), w.log.String())
		}
		w.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.Fatal(err)
	}
	return res.StatusCode, body
}

const signed = "AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE"

func (w *world) text(ctx context.Context, path string) string {
	w.Helper()
	status, body := w.request(ctx, http.MethodGet, path, signed)
	if status != http.StatusOK {
		w.Fatalf("GET %s: %d %s", path, status, body)
	}
	return string(body)
}

func (w *world) get(ctx context.Context, path string, into any) {
	w.Helper()
	if err := json.Unmarshal([]byte(w.text(ctx, path)), into); err != nil {
		w.Fatal(err)
	}
}

// key is the deployment's token key. Only its functions may read it.
func (w *world) key(ctx context.Context) []byte {
	w.Helper()
	out, err := ssm.NewFromConfig(w.cfg).GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String("/" + w.name + "/token-key"), WithDecryption: aws.Bool(true)})
	if err != nil {
		w.Fatal(err)
	}
	key, err := base64.StdEncoding.DecodeString(aws.ToString(out.Parameter.Value))
	if err != nil {
		w.Fatal(err)
	}
	return key
}

// refusals sends requests without credentials, with an expired token and with the token of another job.
func (w *world) refusals(ctx context.Context, job string) {
	w.Helper()
	mint := func(c wire.Claims) string {
		text, err := token.Mint(w.key(ctx), c)
		if err != nil {
			w.Fatal(err)
		}
		return "Bearer " + text
	}
	hour := time.Now().Add(time.Hour)
	for _, c := range []struct {
		what, path, authorization string
		want                      []int
	}{
		{"nobody, a user's path", "/v1/jobs", "", []int{401}},
		{"a guess, a user's path", "/v1/jobs", "Bearer " + strings.Repeat("0", 64), []int{401}},
		{"an agent, a user's path", "/v1/jobs", mint(wire.Claims{Job: job, Cluster: job + ".0.1", Expires: hour}), []int{401}},
		{"nobody, an agent's path", wire.PathWork, "", []int{401}},
		{"a user, an agent's path", wire.PathWork, signed, []int{401}},
		{"an expired token", wire.PathWork, mint(wire.Claims{Job: job, Cluster: job + ".0.1", Expires: time.Now().Add(-time.Hour)}), []int{401}},
		{"a token of another job", wire.PathWork, mint(wire.Claims{Job: "other-1", Cluster: job + ".0.1", Expires: hour}), []int{403}},
		{"a token of an attempt that is over", wire.PathWork, mint(wire.Claims{Job: job, Cluster: job + ".0.1", Expires: hour}), []int{410}},
		{"a token of a job that never was", wire.PathWork, mint(wire.Claims{Job: "none-1", Cluster: "none-1.0.1", Expires: hour}), []int{410}},
	} {
		status, body := w.request(ctx, http.MethodGet, c.path, c.authorization)
		if !strings.Contains(fmt.Sprint(c.want), fmt.Sprint(status)) {
			w.Errorf("%s: %d %s", c.what, status, body)
		}
	}
	// A token is not valid for another job's attempt either.
	w.foreignReport(ctx, mint(wire.Claims{Job: "other-1", Cluster: "other-1.0.1", Expires: hour}), job)
}

func (w *world) foreignReport(ctx context.Context, authorization, job string) {
	w.Helper()
	body, _ := json.Marshal(wire.Report{ID: "1", Attempt: job + ".0.1", Event: wire.Failed}) // of strings
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.api.URL+wire.PathReport, bytes.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	req.Header.Set("Authorization", authorization)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // only its status matters
	if res.StatusCode != http.StatusForbidden {
		w.Errorf("a report for another job's attempt: %s", res.Status)
	}
}

// secrets checks that no log contains a secret.
func (w *world) secrets(ctx context.Context) {
	w.Helper()
	log := w.log.String()
	if found := jwt.FindString(log); found != "" {
		w.Errorf("a token was logged: %s", found)
	}
	if strings.Contains(log, base64.StdEncoding.EncodeToString(w.key(ctx))) || strings.Contains(log, "TRADEWIND_OUTPUT") {
		w.Error("the key, or what a task runs, was logged")
	}
	for line := range strings.Lines(log) {
		if !json.Valid([]byte(line)) {
			w.Errorf("a line that is no JSON: %q", line)
		}
	}
}
