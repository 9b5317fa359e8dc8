package e2e_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/internal/agent/container/containertest"
	"github.com/tradewind-broker/tradewind/internal/cli/loopback"
	"github.com/tradewind-broker/tradewind/internal/tes"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// workflows is a client of TES that cannot sign requests: it calls a proxy on this computer, which signs them.
type workflows struct {
	*testing.T
	url string
}

const tesToken = "of the proxy alone"

// tes calls a path of TES, and reads the response into out.
func (w *workflows) tes(ctx context.Context, method, path string, body, out any) {
	w.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		w.Fatal(err)
	}
	r, err := http.NewRequestWithContext(ctx, method, w.url+"/ga4gh/tes/v1"+path, strings.NewReader(string(text)))
	if err != nil {
		w.Fatal(err)
	}
	r.SetBasicAuth("engine", tesToken)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // only read from
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode == http.StatusOK {
		err = json.Unmarshal(answer, out)
	}
	if err != nil || res.StatusCode != http.StatusOK {
		w.Fatalf("%s %s: %d %s %v", method, path, res.StatusCode, answer, err)
	}
}

// TestTESTasksRunOnAWS: a workflow engine's task goes through the signing proxy, API Gateway and the functions to a
// machine, which runs it in its container. The engine reads its end, its exit codes and its output, and cancels another
// task.
func TestTESTasksRunOnAWS(t *testing.T) {
	if testing.Short() {
		t.Skip("starts emulators")
	}
	for _, v := range containertest.Environ(t) {
		if name, value, _ := strings.Cut(v, "="); name == "CONTAINERS_CONF" || strings.HasPrefix(name, "TRADEWIND_") {
			t.Setenv(name, value)
		}
	}
	w := deploy(t)
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	defer w.agents.Wait()
	defer cancel()
	lake := w.name + "-lake"
	if _, err := w.s3().CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &lake}); err != nil {
		t.Fatal(err)
	}
	signing := client.NewSigned(w.api.URL, "us-east-1", credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "x", ""))
	proxy := httptest.NewServer(loopback.TESHandler(signing, tesToken))
	defer proxy.Close()
	engine := &workflows{t, proxy.URL}

	var made struct{ ID string }
	engine.tes(ctx, http.MethodPost, "/tasks", tes.Task{
		Name: "sorted", Tags: map[string]string{"by": "engine"},
		Executors: []tes.Executor{
			{Image: containertest.Image, Command: []string{"sort", "/in/words"}, Stdout: "/out/sorted"},
			{Image: containertest.Image, Command: []string{"sh", "-c", "echo said; echo told >&2"}},
		},
		Inputs:  []tes.Input{{Path: "/in/words", Content: "b\na\n"}},
		Outputs: []tes.Output{{Path: "/out/sorted", URL: "s3://" + lake + "/sorted"}},
	}, &made)
	job := w.untilOver(ctx, func(i types.Instance) {
		id := aws.ToString(i.InstanceId)
		w.machine(ctx, id, w.tokenOf(ctx, id))
	})
	if job.State != apitypes.JobSucceeded || job.ID != made.ID {
		t.Fatalf("%+v\n%s", job, w.log.String())
	}
	var task tes.Task
	engine.tes(ctx, http.MethodGet, "/tasks/"+made.ID+"?view=FULL", nil, &task)
	if task.State != tes.Complete || len(task.Logs) != 1 || len(task.Logs[0].Logs) != 2 || task.Tags["by"] != "engine" {
		t.Fatalf("%+v", task)
	}
	if said := task.Logs[0].Logs[1]; said.Stdout != "said\n" || said.Stderr != "told\n" || said.ExitCode != 0 {
		t.Errorf("%+v", said)
	}
	if out := task.Logs[0].Outputs; len(out) != 1 || out[0].SizeBytes != "4" {
		t.Errorf("outputs %+v", out)
	}
	kept, err := w.s3().GetObject(ctx, &s3.GetObjectInput{Bucket: &lake, Key: aws.String("sorted")})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(kept.Body); err != nil || string(text) != "a\nb\n" {
		t.Errorf("the output is %q %v", text, err)
	}

	var second struct{ ID string }
	engine.tes(ctx, http.MethodPost, "/tasks", tes.Task{
		Executors: []tes.Executor{{Image: containertest.Image, Command: []string{"sleep", "600"}}},
	}, &second)
	engine.tes(ctx, http.MethodPost, "/tasks/"+second.ID+":cancel", struct{}{}, &struct{}{})
	w.quiet(ctx)
	var list struct{ Tasks []tes.Task }
	engine.tes(ctx, http.MethodGet, "/tasks", nil, &list)
	if len(list.Tasks) != 2 || list.Tasks[0].State != tes.Canceled || list.Tasks[1].State != tes.Complete {
		t.Errorf("%+v", list)
	}
}
