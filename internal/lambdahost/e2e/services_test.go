package e2e_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/internal/cli"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/awskit/services"
	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/emulator/emr/emrtest"
	"github.com/tradewind-broker/tradewind/internal/emulator/sparkjob"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/cloudhost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/data"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/far"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/objects"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/servicehost"
	"github.com/tradewind-broker/tradewind/internal/sparkrun/sparktest"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
)

// invocations serves Lambda's API for one function, by the end of its name, and passes all other calls on.
type invocations struct {
	function string
	handler  cloudhost.Handler
	others   http.Handler
}

func (i *invocations) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	name, invoked := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/2015-03-31/functions/"), "/invocations")
	if !invoked || !strings.HasSuffix(name, i.function) {
		i.others.ServeHTTP(out, r)
		return
	}
	message, err := io.ReadAll(r.Body)
	var answer json.RawMessage
	if err == nil {
		answer, err = i.handler(r.Context(), message)
	}
	if err != nil {
		out.Header().Set("X-Amz-Function-Error", "Unhandled")
		answer, _ = json.Marshal(map[string]string{"errorMessage": err.Error()})
	}
	_, _ = out.Write(answer)
}

// TestDeploymentBuysServices submits a Spark task with packed code and input to a deployment that buys EMR and EMR
// Serverless. Each task must run there with a real Spark, by the functions that a deployment has for it. The result and
// the log must be stored, nothing may be left, and the deployment must sleep afterwards.
func TestDeploymentBuysServices(t *testing.T) {
	bin, jars := sparktest.Bin(t, "../../.."), sparktest.Stores(t, "../../..")
	var account *emrtest.World
	account = emrtest.New(t, func(ctx context.Context, args []string) sparkjob.Result {
		return sparkjob.Spark{Bin: bin, Jars: jars, Dir: t.TempDir(), Properties: sparkjob.S3(account.URL)}.Run(ctx, args)
	})
	moto, err := url.Parse(emulator.Moto(t))
	if err != nil {
		t.Fatal(err)
	}
	front := &invocations{function: "-cloud-aws", others: httputil.NewSingleHostReverseProxy(moto)}
	lambda := httptest.NewServer(front)
	t.Cleanup(lambda.Close)
	w := deployWith(t, []string{
		"AWS_ENDPOINT_URL_LAMBDA=" + lambda.URL, "AWS_ENDPOINT_URL_EMR=" + account.URL,
		"AWS_ENDPOINT_URL_EMR_SERVERLESS=" + account.URL,
	}, []string{lambdahost.EnvServices + "=emr,emr-serverless"})
	if front.handler, err = cloudhost.New(cloudhost.Env{
		Deployment: w.name, Table: w.name, API: w.api.URL, AgentKey: strings.Repeat("a", 64), LogLevel: "info",
		Settings: map[string]string{"services": "emr+emr-serverless", "regions": "us-east-1", "emrRole": w.name + "-emr",
			"emrProfile": w.name + "-emr-nodes", "jobRole": "arn:aws:iam::123456789012:role/" + w.name + "-spark"},
	}, w.cfg, services.Kit(w.cfg), w.log); err != nil {
		t.Fatal(err)
	}
	env, err := lambdahost.LoadEnv(func(name string) string { return w.environment()[name] })
	if err != nil {
		t.Fatal(err)
	}
	s, err := lambdahost.Open(servicehost.Name, env, w.cfg, w.log)
	if err != nil {
		t.Fatal(err)
	}
	all := far.New(s).Services()
	watcher, err := servicehost.New(s, servicehost.Adapters{
		Services: all, Data: data.New(s, far.New(s)), Packs: objects.NewDepot(s).Store,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	for n, name := range []string{"emr", "emr-serverless"} {
		w.runSpark(ctx, name, n+1, watcher.Once(), all)
	}
	w.reconcile(ctx, "last")
	w.quiet(ctx)
	if state := w.scheduleState(ctx, "reconcile"); state != "DISABLED" {
		t.Errorf("after the last task the schedules are %s\n%s", state, w.log.String())
	}
}

// runSpark runs the n-th job, whose task is on a service.
func (w *world) runSpark(ctx context.Context, name string, n int, watcher *servicehost.Watcher,
	all map[string]service.Service) {
	w.Helper()
	dir := w.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../../examples/spark")); err != nil {
		w.Fatal(err)
	}
	file := filepath.Join(dir, "job.yaml")
	if err := os.WriteFile(file, []byte(`
apiVersion: tradewind/v1
name: words
tasks:
  count:
    inputs: [words.txt]
    spark:
      main: jobs/count.py
      args: [$TRADEWIND_INPUTS/words.txt, $TRADEWIND_OUTPUT/counts]
    outputs: [{name: counts, path: counts, size: 1MiB}]
    resources: {executors: 1-4, region: us-east-1, anyOf: [{service: `+name+`}, {cpus: 96}]}
    time: 5m
`), 0o600); err != nil {
		w.Fatal(err)
	}
	var said strings.Builder
	if code := cli.Run(ctx, &cli.Env{Env: command.Env{
		In: strings.NewReader(""), Out: &said, Err: &said, Now: time.Now, Exit: os.Exit,
		Environ: append(os.Environ(), "TRADEWIND_SIGN_REGION=us-east-1"),
	}}, []string{"submit", file, "--endpoint", w.api.URL}); code != 0 {
		w.Fatalf("exit %d\n%s", code, said.String())
	}
	job := w.sparkOver(ctx, n, watcher)
	if job.State != apitypes.JobSucceeded || len(job.Attempts) != 1 || job.Attempts[0].Offer.Service != name || !(job.SpentUSD > 0) {
		w.Fatalf("%s: %s (%s), %+v, %v USD\n%s", name, job.State, job.Reason, job.Attempts, job.SpentUSD, w.log.String())
	}
	if log := w.text(ctx, "/v1/jobs/"+job.ID+"/tasks/count/logs?follow=true"); !strings.Contains(log, "words") {
		w.Errorf("%s: the log of the application is %q", name, log)
	}
	list, err := w.s3().ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String(w.name + "-work"), Prefix: &job.ID})
	if err != nil {
		w.Fatal(err)
	}
	found := false
	for _, o := range list.Contents {
		found = found || strings.Contains(*o.Key, "/0/counts/part-")
	}
	if !found {
		w.Errorf("%s: no result below %s", name, job.ID)
	}
	for i := range 100 { // services end in stages
		w.reconcile(ctx, name+strconv.Itoa(i))
		w.quiet(ctx)
		if err := watcher.Watch(ctx); err != nil {
			w.Fatal(err)
		}
		places, err := all[name].Places(ctx)
		if err != nil {
			w.Fatal(err)
		}
		left := 0
		for _, p := range places {
			if p.State != service.Ended {
				left++
			}
		}
		if left == 0 {
			return
		}
	}
	w.Errorf("%s: places are left", name)
}

// sparkOver simulates Lambda until n jobs are over, and returns the newest.
func (w *world) sparkOver(ctx context.Context, n int, watcher *servicehost.Watcher) (job apitypes.JobDetail) {
	w.Helper()
	for ctx.Err() == nil {
		w.round(ctx)
		if err := watcher.Watch(ctx); err != nil {
			w.Fatalf("%v\n%s", err, w.log.String())
		}
		var jobs struct{ Jobs []apitypes.JobView }
		w.get(ctx, "/v1/jobs", &jobs)
		over := 0
		newest := jobs.Jobs[0]
		for _, j := range jobs.Jobs {
			if j.State.Finished() {
				over++
			}
			if j.Submitted.After(newest.Submitted) {
				newest = j
			}
		}
		if over == n {
			w.quiet(ctx)
			w.get(ctx, "/v1/jobs/"+newest.ID, &job)
			return job
		}
	}
	w.Fatalf("not all jobs ended\n%s", w.log.String())
	return job
}
