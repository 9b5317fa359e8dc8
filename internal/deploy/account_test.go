package deploy_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/cloud/remote"
	"github.com/tradewind-broker/tradewind/internal/deploy"
	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// fresh is a new account: low concurrency, no quota of vCPUs on spot, and no default VPC.
type fresh struct {
	mu      sync.Mutex
	invoked []string
	failing int // number of invocations that fail
	body    string
	ready   bool // all quotas were raised
	// clouds has the functions of other clouds' drivers, by name.
	clouds map[string]func([]byte) ([]byte, error)
}

func (f *fresh) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	value := map[bool]string{true: "1000", false: "0"}[f.ready]
	switch text := string(body); {
	case f.clouds != nil && strings.Contains(r.URL.Path, "-cloud-"):
		call := f.clouds[strings.Split(r.URL.Path, "/")[3]]
		if call == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		answer, err := call(body)
		if err != nil {
			answer, _ = json.Marshal(map[string]string{"errorMessage": err.Error(), "errorType": "errorString"})
		}
		_, _ = w.Write(answer)
	case strings.Contains(text, "Action=DescribeInstances"):
		_, _ = io.WriteString(w, `<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>`)
	case strings.HasSuffix(r.URL.Path, "/invocations"):
		f.invoked, f.body = append(f.invoked, r.Header.Get("X-Amz-Invocation-Type")+" "+r.URL.Path), text
		if f.failing--; f.failing >= 0 {
			_, _ = io.WriteString(w, `{"errorType":"Runtime.ExitError","errorMessage":"exit status 2"}`)
			return
		}
		_, _ = io.WriteString(w, "null")
	case strings.HasPrefix(r.URL.Path, "/2016-08-19/account-settings"):
		_, _ = io.WriteString(w, `{"AccountLimit":{"ConcurrentExecutions":`+map[bool]string{true: "1000", false: "10"}[f.ready]+`}}`)
	case strings.Contains(text, "Action=GetCallerIdentity"):
		_, _ = io.WriteString(w, `<GetCallerIdentityResponse><GetCallerIdentityResult><Account>1</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`)
	case strings.Contains(text, "Action=DescribeVpcs") && f.ready:
		_, _ = io.WriteString(w, `<DescribeVpcsResponse><vpcSet><item><vpcId>vpc-1</vpcId></item></vpcSet></DescribeVpcsResponse>`)
	case strings.Contains(text, "Action=DescribeVpcs"):
		_, _ = io.WriteString(w, `<DescribeVpcsResponse><vpcSet/></DescribeVpcsResponse>`)
	case strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".GetServiceQuota"):
		_, _ = io.WriteString(w, `{"Quota":{"Value":`+value+`}}`)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (f *fresh) target(t *testing.T) *deploy.Target {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	cfg := emulator.Config(server.URL)
	cfg.BaseEndpoint = aws.String(server.URL)
	target, err := deploy.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// A deployment to a new account must warn of its low quotas. Sources: AWS Lambda developer guide, "Lambda quotas":
// new accounts have reduced concurrency (10 was seen); Lambda API reference, GetAccountSettings; Service Quotas API
// reference, GetServiceQuota.
func TestDeployWarnsOfFreshAccount(t *testing.T) {
	f := &fresh{}
	got := f.target(t).Warnings(t.Context(), "tw")
	for _, want := range []string{"at most 10 Lambda functions", "aws ec2 create-default-vpc", "0 on-demand vCPUs", "0 spot vCPUs"} {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, want) && strings.Contains(s, "aws ") }) {
			t.Errorf("no warning of %q: %q", want, got)
		}
	}
	f.ready = true
	if got := f.target(t).Warnings(t.Context(), "tw"); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

// An update of a stack sets all properties of a changed resource again. So it switches event source mappings and
// schedules off, because they are off in the template. reconcile must switch them on again, and is repeated until it
// succeeds. Sources: CloudFormation template reference, AWS::Lambda::EventSourceMapping, Enabled; EventBridge
// Scheduler API reference, UpdateSchedule, which replaces all values.
func TestReconcileIsRepeatedUntilItSucceeds(t *testing.T) {
	f := &fresh{failing: 2}
	target := f.target(t)
	target.Look = time.Millisecond
	if err := target.Reconcile(t.Context(), "tw"); err != nil {
		t.Fatal(err)
	}
	if want := " /2015-03-31/functions/tw-reconcile/invocations"; !slices.Equal(f.invoked, []string{want, want, want}) {
		t.Errorf("%q", f.invoked)
	}
	if e, err := events.Parse([]byte(f.body)); err != nil || e.Data.Type() != (events.BrokerReconcile{}).Type() {
		t.Errorf("%s: %v", f.body, err)
	}
	f.failing = 100
	if err := target.Reconcile(t.Context(), "tw"); err == nil || !strings.Contains(err.Error(), "aws lambda invoke") {
		t.Errorf("a function that always fails: %v", err)
	}
}

// rented is a cloud with a machine, and an SSH key that its driver created.
type rented struct {
	cloud.Cloud
	machines []cloud.Machine
	cleaned  bool
}

func (r *rented) Machines(context.Context, string) ([]cloud.Machine, error) { return r.machines, nil }

func (r *rented) Clean(_ context.Context, tell func(string)) error {
	r.cleaned = true
	tell("SSH key tradewind-1")
	return nil
}

// The account has no stack. Destroy must nevertheless remove everything from the other clouds, and report what it could
// not see.
func TestDestroyLeavesOtherClouds(t *testing.T) {
	gpus := &rented{machines: []cloud.Machine{{ID: "m-1", State: cloud.Running}}}
	serve := func(message []byte) ([]byte, error) {
		return remote.Server{Cloud: gpus}.Serve(context.Background(), message)
	}
	f := &fresh{clouds: map[string]func([]byte) ([]byte, error){
		"tw-cloud-lambda": serve,
		"tw-cloud-gcp":    func([]byte) ([]byte, error) { return nil, errors.New("no key") },
	}}
	var steps []deploy.Step
	target := f.target(t)
	target.Progress = func(s deploy.Step) { steps = append(steps, s) }
	err := target.Destroy(t.Context(), "tw", "tw")
	if !errors.Is(err, deploy.ErrMachines) || !strings.Contains(err.Error(), "m-1 on lambda") || gpus.cleaned {
		t.Fatalf("%v", err)
	}
	gpus.machines, steps = nil, nil
	_ = target.Destroy(t.Context(), "tw", "tw")
	if len(steps) != 4 || steps[0].Status != "unknown" || !strings.Contains(steps[0].Reason, "no key") ||
		steps[1].Name != "SSH key tradewind-1" || steps[2].What != "dataproc" || steps[3].What != "dataproc-serverless" {
		t.Errorf("%+v", steps)
	}
}
