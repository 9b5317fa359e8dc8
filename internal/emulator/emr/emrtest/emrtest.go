// Package emrtest has the emulated account with which tests of EMR and EMR Serverless run.
package emrtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/emulator/emr"
	"github.com/tradewind-broker/tradewind/internal/emulator/sparkjob"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service/servicetest"
)

var counter atomic.Int64

// World is an emulated account with a bucket.
type World struct {
	*emr.Cloud
	URL        string
	Bucket     string
	Deployment string
}

// New makes an account in front of the shared moto. run runs applications; nil runs those of the conformance suite.
func New(t *testing.T, run sparkjob.Runner) *World {
	t.Helper()
	if run == nil {
		run = Suite
	}
	moto := emulator.Moto(t)
	account, err := emr.New(moto, run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.Close)
	server := httptest.NewServer(account)
	t.Cleanup(server.Close)
	w := &World{Cloud: account, URL: server.URL,
		Deployment: fmt.Sprintf("tw%d-%d", time.Now().UnixNano(), counter.Add(1))}
	w.Bucket = w.Deployment
	if _, err := w.S3().CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &w.Bucket}); err != nil {
		t.Fatal(err)
	}
	return w
}

// S3 returns a client of the account's buckets.
func (w *World) S3() *s3.Client {
	return s3.NewFromConfig(emulator.Config(w.URL), func(o *s3.Options) { o.UsePathStyle = true })
}

// SDK is the configuration of a client that repeats each failed call once, immediately.
func (w *World) SDK() awssdk.Config {
	sdk := emulator.Config(w.URL)
	sdk.Retryer = func() awssdk.Retryer { return hasty{awssdk.NopRetryer{}} }
	return sdk
}

type hasty struct{ awssdk.NopRetryer }

func (hasty) IsErrorRetryable(error) bool                  { return true }
func (hasty) MaxAttempts() int                             { return 2 }
func (hasty) RetryDelay(int, error) (time.Duration, error) { return 0, nil }
func (hasty) GetAttemptToken(context.Context) (func(error) error, error) {
	return func(error) error { return nil }, nil
}

// Suite runs the applications of the conformance suite, named by their main file.
func Suite(ctx context.Context, args []string) sparkjob.Result {
	all := strings.Join(args, " ")
	switch {
	case strings.Contains(all, "/"+string(servicetest.Fails)+".py"):
		return sparkjob.Result{Stderr: []byte(servicetest.Trouble), Err: errors.New("exit status 1")}
	case strings.Contains(all, "/"+string(servicetest.Waits)+".py"):
		<-ctx.Done()
		return sparkjob.Result{Err: ctx.Err()}
	}
	return sparkjob.Result{Stdout: []byte(servicetest.Hello)}
}

// Harness is the part of a harness that is the same for both services.
type Harness struct {
	*World
	Driver func(deployment string) service.Service
	Mine   service.Service
	// Actions are the actions of the API for the calls of a service.
	Actions map[servicetest.Call]string
	// Refusals are the API's answers for each kind of failure.
	Refusals map[cloud.Kind]emr.Refusal
}

// Service implements servicetest.Harness.
func (h Harness) Service() service.Service { return h.Mine }

// Restarted implements servicetest.Harness.
func (h Harness) Restarted() service.Service { return h.Driver(h.Deployment) }

// Sibling implements servicetest.Harness.
func (h Harness) Sibling() service.Service { return h.Driver("another") }

// Spec implements servicetest.Harness.
func (h Harness) Spec(name string) service.Spec {
	return service.Spec{
		Name: name, Region: emulator.Region, Release: "7.5.0", InstanceType: "m5.xlarge",
		Logs: "s3://" + h.Bucket + "/logs/", Executors: service.Executors{Min: 1, Max: 3}, Idle: 10 * time.Minute,
		Labels: map[string]string{"job": "j-1"},
	}
}

// App implements servicetest.Harness.
func (h Harness) App(name string, kind servicetest.Kind) service.App {
	return service.App{Name: name, Main: "s3://" + h.Bucket + "/code/" + string(kind) + ".py",
		Executors: service.Executors{Min: 1, Max: 3}, Limit: time.Hour}
}

// Fail implements servicetest.Harness. The refusal is for the call and for the SDK's own repetition.
func (h Harness) Fail(call servicetest.Call, err *cloud.Error) bool {
	r, ok := h.Refusals[err.Kind]
	if !ok {
		return false
	}
	r.Message, r.RetryAfter = err.Message, err.RetryAfter
	h.Refuse(h.Actions[call], r)
	if h.Repeats(call) {
		h.Refuse(h.Actions[call], r)
	}
	return true
}

// Repeats reports whether the SDK repeats a call of the API that failed.
func (h Harness) Repeats(call servicetest.Call) bool {
	return h.Actions[call] != "RunJobFlow" && h.Actions[call] != "AddJobFlowSteps"
}

// LoseAnswer implements servicetest.Harness.
func (h Harness) LoseAnswer(call servicetest.Call) { h.Lose(h.Actions[call]) }

// Settle implements servicetest.Harness: time advances with each request.
func (h Harness) Settle(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(5 * time.Millisecond):
	}
}

// Left implements servicetest.Harness.
func (h Harness) Left(context.Context) (int, error) { return h.World.Left(), nil }

// Close implements servicetest.Harness.
func (h Harness) Close() {}

// Blind is the configuration of a client whose first requests for a list have empty answers.
func Blind(w *World, action string, lists int) awssdk.Config {
	sdk := w.SDK()
	sdk.HTTPClient = &blind{action: action, left: lists}
	return sdk
}

type blind struct {
	action string
	left   int
}

// Do implements aws.HTTPClient.
func (b *blind) Do(r *http.Request) (*http.Response, error) {
	if b.left > 0 && strings.HasSuffix(r.Header.Get("X-Amz-Target"), "."+b.action) {
		b.left--
		answer := httptest.NewRecorder()
		_, _ = answer.WriteString("{}")
		return answer.Result(), nil
	}
	return http.DefaultClient.Do(r) //nolint:gosec // to the emulator
}
