package e2e_test

import (
	"context"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamotypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	schedulertypes "github.com/aws/aws-sdk-go-v2/service/scheduler/types"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

const printsMuch = `apiVersion: tradewind/v1
name: much
tasks:
  only:
    run: |
      head -c 40000 /dev/urandom | base64 -w 100
      echo result >$TRADEWIND_OUTPUT/result.txt
    resources: {cpus: 2+, market: on-demand}
    time: 10m
`

const on, off = schedulertypes.ScheduleStateEnabled, schedulertypes.ScheduleStateDisabled

// stored lists the items of the table whose partition begins with a text: their sort keys and times to live, 0 for none.
func (w *world) stored(ctx context.Context, prefix string) map[string]int64 {
	w.Helper()
	all := map[string]int64{}
	pages := dynamodb.NewScanPaginator(dynamodb.NewFromConfig(w.cfg), &dynamodb.ScanInput{TableName: aws.String(w.name)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			w.Fatal(err)
		}
		for _, item := range page.Items {
			pk, _ := item["pk"].(*dynamotypes.AttributeValueMemberS)
			sk, _ := item["sk"].(*dynamotypes.AttributeValueMemberS)
			if pk == nil || sk == nil || !strings.HasPrefix(pk.Value, prefix) {
				continue
			}
			all[pk.Value+" "+sk.Value] = 0
			if ttl, ok := item[dynamo.AttrExpires].(*dynamotypes.AttributeValueMemberN); ok {
				all[pk.Value+" "+sk.Value], _ = strconv.ParseInt(ttl.Value, 10, 64)
			}
		}
	}
	return all
}

// objectsBelow counts the objects of the work bucket below a prefix.
func (w *world) objectsBelow(ctx context.Context, prefix string) int {
	w.Helper()
	out, err := w.s3().ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String(w.name + "-work"), Prefix: &prefix})
	if err != nil {
		w.Fatal(err)
	}
	return len(out.Contents)
}

// held returns how many hours of tasks and of vCPUs the queues have held in a month.
func (w *world) held(ctx context.Context) (tasks, vcpus float64) {
	w.Helper()
	var u apitypes.UsageView
	w.get(ctx, "/v1/usage?hours=744", &u)
	for _, q := range u.Queues {
		for i := range q.Running {
			tasks += q.Running[i] * u.StepHours
			vcpus += q.VCPUs[i] * u.StepHours
		}
	}
	return tasks, vcpus
}

// TestFinishedJobExpires runs a job on a deployment that keeps jobs for two hours, on DynamoDB Local and an emulated S3.
func TestFinishedJobExpires(t *testing.T) {
	if testing.Short() {
		t.Skip("starts emulators")
	}
	var ahead atomic.Int64
	w := deployWith(t, nil, []string{lambdahost.EnvKeep + "=2h"}, func(s *lambdahost.Sandbox) {
		s.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	defer w.agents.Wait()
	defer cancel()
	w.drop(ctx, events.FnSubmit, w.created("17793124-05d4-b198-2fde-7ededc63b104", "much.yaml", printsMuch))
	job := w.untilOver(ctx, func(i types.Instance) {
		id := aws.ToString(i.InstanceId)
		w.machine(ctx, id, w.tokenOf(ctx, id))
	})
	if job.State != apitypes.JobSucceeded {
		t.Fatalf("%+v\n%s", job, w.log.String())
	}
	others := []string{"agent/digest/program", job.ID + "0/task/out/x/0/data", "events/large", "packs/piece"}
	for _, key := range others {
		if _, err := w.s3().PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String(w.name + "-work"), Key: &key, Body: strings.NewReader("x")}); err != nil {
			t.Fatal(err)
		}
	}
	w.reconcile(ctx, "mark")
	w.quiet(ctx)
	if always, daily := w.scheduleState(ctx, "reconcile"), w.scheduleState(ctx, "expire"); always != off || daily != on {
		t.Errorf("asleep, reconcile is %s, and its daily schedule %s\n%s", always, daily, w.log.String())
	}
	records, logs := w.stored(ctx, "job#"+job.ID), w.stored(ctx, "logs/"+job.ID+"/")
	outputs, pieces := w.objectsBelow(ctx, job.ID+"/"), w.objectsBelow(ctx, "logs/"+job.ID+"/")
	tasks, vcpus := w.held(ctx)
	t.Logf("before: %d records, %d records of logs, %d outputs, %d objects of logs, %.6f task hours", len(records), len(logs), outputs, pieces, tasks)
	if len(records) < 5 || len(logs) == 0 || outputs == 0 || pieces == 0 || tasks == 0 {
		t.Error("the test shows nothing")
	}
	keep := job.Finished.Add(2 * time.Hour)
	for name, ttl := range records {
		if isJob := strings.HasSuffix(name, " job"); isJob != (ttl == 0) || !isJob && ttl < keep.Unix() {
			t.Errorf("%s expires at %d; the job has finished at %v", name, ttl, job.Finished)
		}
	}
	for name, ttl := range logs {
		if ttl < keep.Unix() {
			t.Errorf("%s expires at %d; the job has finished at %v", name, ttl, job.Finished)
		}
	}

	ahead.Store(int64(3 * time.Hour))
	w.reconcile(ctx, "expire") // as the daily schedule does
	w.quiet(ctx)
	logs, outputs, pieces = w.stored(ctx, "logs/"+job.ID+"/"), w.objectsBelow(ctx, job.ID+"/"), w.objectsBelow(ctx, "logs/"+job.ID+"/")
	if len(logs) > 0 || outputs > 0 || pieces > 0 {
		t.Errorf("after its time there are %d records of logs, %d outputs, %d objects of logs\n%s", len(logs), outputs, pieces, w.log.String())
	}
	w.reconcile(ctx, "asleep again") // the first finds its own changes open
	w.quiet(ctx)
	if always, daily := w.scheduleState(ctx, "reconcile"), w.scheduleState(ctx, "expire"); always != off || daily != off {
		t.Errorf("with nothing kept, reconcile is %s, and its daily schedule %s", always, daily)
	}
	if status, body := w.request(ctx, "GET", "/v1/jobs/"+job.ID, signed); status != 404 || !strings.Contains(string(body), "expired at") {
		t.Errorf("the job is answered with %d %s", status, body)
	}
	for _, key := range others {
		if w.objectsBelow(ctx, key) == 0 {
			t.Errorf("%s was removed, too", key)
		}
	}
	if t2, v2 := w.held(ctx); math.Abs(t2-tasks) > 1e-9 || math.Abs(v2-vcpus) > 1e-9 {
		t.Errorf("usage was %v and %v, and is %v and %v", tasks, vcpus, t2, v2)
	}
}
