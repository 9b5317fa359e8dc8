package e2e_test

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// put puts a file into the bucket of DAG files and passes S3's event to submit.
func (w *world) put(key, body string) {
	w.Helper()
	w.drop(w.Context(), events.FnSubmit, w.created("created-"+key, key, body))
}

// created puts a file into the bucket of DAG files and returns S3's event for it.
func (w *world) created(id, key, body string) map[string]any {
	w.Helper()
	out, err := w.s3().PutObject(w.Context(),
		&s3.PutObjectInput{Bucket: aws.String(w.name + "-dags"), Key: &key, Body: strings.NewReader(body)})
	if err != nil {
		w.Fatal(err)
	}
	tag := strings.Trim(aws.ToString(out.ETag), `"`)
	return map[string]any{
		"version": "0", "id": id, "detail-type": "Object Created", "source": "aws.s3", "time": "2026-11-21T09:00:00Z",
		"region": "us-east-1", "resources": []string{}, "detail": map[string]any{
			"bucket": map[string]any{"name": w.name + "-dags"},
			"object": map[string]any{"key": key, "size": len(body), "etag": tag},
		},
	}
}

// TestUploadedFileIsCheckedAgainstStores: the mounts and inputs of a file in the bucket of DAG files are checked like
// those of a job that is submitted to the API. The error, with its line, is written next to the file. Nothing is stored
// and nothing is bought.
func TestUploadedFileIsCheckedAgainstStores(t *testing.T) {
	if testing.Short() {
		t.Skip("starts emulators")
	}
	role := "arn:aws:iam::123456789012:role/mounts"
	w := deployWith(t, nil, []string{"TRADEWIND_MOUNTS_ROLE=" + role})
	ctx := t.Context()
	lake := w.name + "-lake"
	if _, err := w.s3().CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &lake}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.s3().PutObject(ctx, &s3.PutObjectInput{Bucket: &lake, Key: aws.String("in/x.csv"), Body: strings.NewReader("1")}); err != nil {
		t.Fatal(err)
	}
	head := "apiVersion: tradewind/v1\nname: n\ntasks:\n  a:\n    run: ls\n    inputs:\n      - "
	refused := map[string]string{
		"mount-none":   "{uri: s3://" + lake + "-none/x, mount: true, path: d}",
		"mount-object": "{uri: s3://" + lake + "/in/x.csv, mount: true, path: d}",
		"mount-ours":   "{uri: s3://" + w.name + "-work, mount: true, path: d}",
		"mount-over":   "{uri: s3://" + lake + "/in, mount: true, path: .}",
		"mount-gs":     "{uri: gs://" + lake + "/in, mount: true, path: d}",
		"copy-none":    "{uri: s3://" + lake + "-none/x}",
		"copy-gs":      "{uri: gs://" + lake + "/in}",
	}
	words := map[string]string{
		"mount-none": "or no permission to read it", "mount-object": "it is an object", "mount-ours": "it holds the data of all jobs",
		"mount-over": "working folder", "mount-gs": "gs", "copy-none": "cannot be read", "copy-gs": "gs",
	}
	for name, input := range refused {
		w.put(name+".yaml", head+input+"\n")
	}
	w.put("good.yaml", head+"{uri: s3://"+lake+"/in, mount: true, path: d}\n      - s3://"+lake+"/in/x.csv\n")
	for range refused {
		w.poll(ctx, events.FnSubmit)
	}
	w.poll(ctx, events.FnSubmit)
	var jobs struct{ Jobs []apitypes.JobView }
	for range 3 {
		w.relay(ctx)
		w.poll(ctx, events.FnHook)
	}
	if w.get(ctx, "/v1/jobs", &jobs); len(jobs.Jobs) != 1 {
		t.Errorf("jobs: %+v\n%s", jobs.Jobs, w.log.String())
	}
	for name := range refused {
		out, err := w.s3().GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(w.name + "-dags"), Key: aws.String(name + ".yaml.error.txt")})
		if err != nil {
			t.Errorf("%s: no remark: %v", name, err)
			continue
		}
		remark, err := io.ReadAll(out.Body)
		if err != nil || !strings.Contains(string(remark), name+".yaml:7:") || !strings.Contains(string(remark), "tasks.a.inputs[0]") ||
			!strings.Contains(string(remark), words[name]) {
			t.Errorf("%s: %v %s", name, err, remark)
		}
	}
	if running := w.instances(ctx); len(running) > 0 {
		t.Errorf("%d machines", len(running))
	}
	w.put("mount-none.yaml", head+"s3://"+lake+"/in/x.csv\n") // the user has fixed the file
	w.poll(ctx, events.FnSubmit)
	remarks, err := w.s3().ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String(w.name + "-dags")})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, o := range remarks.Contents {
		if strings.HasSuffix(*o.Key, ".error.txt") {
			left = append(left, *o.Key)
		}
	}
	if len(left) != len(refused)-1 || slices.Contains(left, "mount-none.yaml.error.txt") {
		t.Errorf("remarks that are left: %v", left)
	}
}
