package host_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/cloud/emr"
	"github.com/tradewind-broker/tradewind/internal/cloud/emrserverless"
	"github.com/tradewind-broker/tradewind/internal/emulator/emr/emrtest"
	"github.com/tradewind-broker/tradewind/internal/emulator/sparkjob"
	"github.com/tradewind-broker/tradewind/internal/grant/s3grant"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/internal/sparkrun/sparktest"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// A job has a Spark task on a service. The broker must plan it, upload its packed code and input, buy the service,
// and store the task's result and cost. The next task reads the result. Spark is real.
func TestSparkTaskRunsOnEmulatedEMR(t *testing.T) {
	bin, jars := sparktest.Bin(t, "../.."), sparktest.Stores(t, "../..")
	var w *emrtest.World
	w = emrtest.New(t, func(ctx context.Context, args []string) sparkjob.Result {
		return sparkjob.Spark{Bin: bin, Jars: jars, Dir: t.TempDir(), Properties: sparkjob.S3(w.URL)}.Run(ctx, args)
	})
	for _, of := range []service.Service{
		emr.New(w.SDK(), emr.Config{Deployment: "host"}),
		emrserverless.New(w.SDK(), emrserverless.Config{Deployment: "host", Role: "arn:aws:iam::123456789012:role/spark"}),
	} {
		h, _ := serve(t, host.Options{
			State: t.TempDir(), TimeScale: 1, Stores: grant.Mux{"s3": s3grant.New(w.S3(), s3grant.Options{})},
			Services:      map[string]service.Service{of.Name(): of},
			ServiceStores: map[string]string{"aws:us-east-1": "s3://" + w.Bucket},
		})
		spec, err := read.Job("job.yaml", strings.NewReader(fmt.Sprintf(`
apiVersion: tradewind/v1
name: words
tasks:
  count:
    inputs: [words.txt]
    spark:
      main: jobs/count.py
      args: [$TRADEWIND_INPUTS/words.txt, $TRADEWIND_OUTPUT/counts]
    outputs: [{name: counts, path: counts, size: 1MiB}]
    resources: {executors: 1-4, region: us-east-1, anyOf: [{service: %s}, {cpus: 96}]}
    time: 5m
  show:
    inputs: [{from: count, output: counts}]
    run: test "$(cat "$TRADEWIND_INPUTS"/count/counts/part-* | grep -c .)" = 4
    resources: {cpus: 1}
    time: 1m
`, of.Name())))
		if err != nil {
			t.Fatal(err)
		}
		if err := host.Settle(t.Context(), h, "../../examples/spark", spec); err != nil {
			t.Fatal(err)
		}
		job, err := h.Broker().Users.Submit(t.Context(), broker.Submission{Spec: spec})
		if err != nil {
			t.Fatal(err)
		}
		d := await(t, h.Broker(), job.ID)
		if d.State != apitypes.JobSucceeded || len(d.Attempts) != 2 || d.Attempts[0].Offer.Service != of.Name() || !(d.SpentUSD > 0) {
			t.Errorf("%s: %s, %+v, %v USD", of.Name(), d.State, d.Attempts, d.SpentUSD)
		}
		list, err := w.S3().ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &w.Bucket, Prefix: &job.ID})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, o := range list.Contents {
			found = found || strings.Contains(*o.Key, "/0/counts/part-")
		}
		if !found {
			t.Errorf("%s: no result below %s", of.Name(), job.ID)
		}
	}
}
