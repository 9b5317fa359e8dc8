package sparkrun_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/cockroachdb/datadriven"
	"google.golang.org/api/option"

	"github.com/tradewind-broker/tradewind/internal/cloud/dataproc"
	"github.com/tradewind-broker/tradewind/internal/cloud/emr"
	"github.com/tradewind-broker/tradewind/internal/cloud/emrserverless"
	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/emulator/emr/emrtest"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/internal/emulator/sparkjob"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
	"github.com/tradewind-broker/tradewind/internal/sparkrun"
	"github.com/tradewind-broker/tradewind/internal/sparkrun/sparktest"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// example is the application in examples/spark.
var example = dag.SparkApp{
	Main: "jobs/count.py", Args: []string{"$TRADEWIND_INPUTS/words.txt", "$TRADEWIND_OUTPUT/counts"},
}

const exampleDir = "../../examples/spark"

// store is the bucket that a service uses.
type store interface {
	prefix() string
	put(t *testing.T, key string, body []byte)
	parts(t *testing.T, prefix string) []byte // parts returns the content of the part files below a prefix, in order
}

type s3Store struct{ *emrtest.World }

func (s s3Store) prefix() string { return "s3://" + s.Bucket + "/" }

func (s s3Store) put(t *testing.T, key string, body []byte) {
	t.Helper()
	if _, err := s.S3().PutObject(t.Context(), &s3.PutObjectInput{Bucket: &s.Bucket, Key: &key, Body: bytes.NewReader(body)}); err != nil {
		t.Fatal(err)
	}
}

func (s s3Store) parts(t *testing.T, prefix string) (all []byte) {
	t.Helper()
	list, err := s.S3().ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &s.Bucket, Prefix: &prefix})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Contents {
		if !strings.Contains(*o.Key, "/part-") {
			continue
		}
		out, err := s.S3().GetObject(t.Context(), &s3.GetObjectInput{Bucket: &s.Bucket, Key: o.Key})
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(out.Body)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, body...)
	}
	return all
}

type gsStore struct{ url string }

const gsBucket = "spark-words"

func (s gsStore) prefix() string { return "gs://" + gsBucket + "/" }

func (s gsStore) call(t *testing.T, method, path string, body []byte) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s %s %v", method, path, resp.Status, answer, err)
	}
	return answer
}

func (s gsStore) put(t *testing.T, key string, body []byte) {
	t.Helper()
	s.call(t, http.MethodPost, "/upload/storage/v1/b/"+gsBucket+"/o?"+url.Values{"uploadType": {"media"}, "name": {key}}.Encode(), body)
}

func (s gsStore) parts(t *testing.T, prefix string) (all []byte) {
	t.Helper()
	var list struct{ Items []struct{ Name string } }
	if err := json.Unmarshal(s.call(t, http.MethodGet, "/storage/v1/b/"+gsBucket+"/o?prefix="+prefix, nil), &list); err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		if strings.Contains(o.Name, "/part-") {
			all = append(all, s.call(t, http.MethodGet, "/storage/v1/b/"+gsBucket+"/o/"+url.PathEscape(o.Name)+"?alt=media", nil)...)
		}
	}
	return all
}

// runOn runs the example on a service, and returns its result.
func runOn(t *testing.T, of service.Service, in store, spec service.Spec) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for key, file := range map[string]string{"code/jobs/count.py": "jobs/count.py", "inputs/words.txt": "words.txt"} {
		body, err := os.ReadFile(filepath.Join(exampleDir, file))
		if err != nil {
			t.Fatal(err)
		}
		in.put(t, spec.Name+"/"+key, body)
	}
	at := in.prefix() + spec.Name
	app, err := sparkrun.OnService(&example, sparkrun.Prefixes{Code: at + "/code/", Inputs: at + "/inputs/", Outputs: at + "/outputs/"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	app.Name, app.Executors, app.Limit = "count-1", spec.Executors, time.Hour
	app.Labels = map[string]string{"task": "count"}
	spec.Logs, spec.Idle, spec.Labels = at+"/logs/", 10*time.Minute, map[string]string{"job": "words"}
	p, err := of.Create(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	run, err := of.Submit(ctx, p, app)
	for err != nil && ctx.Err() == nil { // while the cluster starts
		run, err = of.Submit(ctx, p, app)
	}
	for poll := time.NewTicker(100 * time.Millisecond); !run.State.Final(); <-poll.C {
		if p, run, err = of.Watch(ctx, p, run); err != nil {
			t.Fatal(err)
		}
	}
	if run.State != service.Succeeded {
		log, err := of.Log(ctx, p, run)
		t.Fatalf("%+v\n%s\n%s\n%v", run, log.Stdout, log.Stderr, err)
	}
	for left := 1; left > 0; {
		if err := of.End(ctx, p); err != nil {
			t.Fatal(err)
		}
		all, err := of.Places(ctx)
		if err != nil {
			t.Fatal(err)
		}
		left = len(slices.DeleteFunc(all, func(p service.Place) bool { return p.State == service.Ended }))
	}
	return in.parts(t, spec.Name+"/outputs/counts/")
}

// runLocally runs the example on this machine, like an agent.
func runLocally(t *testing.T, bin string) []byte {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs(exampleDir)
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "script")
	write(t, script, sparkrun.Script(&example), 0o600)
	cmd := exec.CommandContext(t.Context(), "/bin/sh", script)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "TMPDIR="+dir, "TRADEWIND_NUM_NODES=1",
		"TRADEWIND_HEAD=127.0.0.1", "TRADEWIND_INPUTS="+root, "TRADEWIND_OUTPUT="+dir)
	if log, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	files, err := filepath.Glob(filepath.Join(dir, "counts", "part-*"))
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, f := range files {
		body, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, body...)
	}
	return all
}

// varying matches the parts of requests that differ in each run.
var varying = []struct{ pattern, name string }{
	{`\bj-[A-Z0-9]{13}\b`, "CLUSTER"}, {`"[0-9a-f]{64}"`, `"TOKEN"`}, {`\b[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f-]{18,22}\b`, "UUID"},
	{`tw[0-9]+-[0-9]+`, "BUCKET"},
}

func fixed(text string) string {
	for _, v := range varying {
		text = regexp.MustCompile(v.pattern).ReplaceAllString(text, v.name)
	}
	return text
}

// changes reports whether a request changes something. The other requests only read.
func changes(action string) bool {
	return !strings.HasPrefix(action, "List") && !strings.HasPrefix(action, "Describe") && !strings.HasPrefix(action, "Get") &&
		!strings.HasSuffix(action, ".get") && !strings.HasSuffix(action, ".list")
}

// The story runs one application on this machine and on each service. It shows the result, and the requests to the
// cloud that change something. The Spark of a service is real, and reads and writes the emulated store.
func TestServicesStory(t *testing.T) {
	bin := sparktest.Bin(t, "../..")
	jars := sparktest.Stores(t, "../..")
	var local []byte
	datadriven.RunTest(t, "testdata/services", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "local" {
			local = runLocally(t, bin)
			return string(local)
		}
		var result []byte
		var requests strings.Builder
		note := func(action string, body any) {
			text, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			if changes(action) {
				fmt.Fprintf(&requests, "%s %s\n", action, fixed(string(text)))
			}
		}
		spec := service.Spec{Name: "words", Executors: service.Executors{Min: 2, Max: 4}, InstanceType: d.Input, Spot: true}
		switch d.Cmd {
		case emr.Name, emrserverless.Name:
			var w *emrtest.World
			w = emrtest.New(t, func(ctx context.Context, args []string) sparkjob.Result {
				return sparkjob.Spark{Bin: bin, Jars: jars, Dir: t.TempDir(), Properties: sparkjob.S3(w.URL)}.Run(ctx, args)
			})
			of := service.Service(emr.New(w.SDK(), emr.Config{Deployment: "words"}))
			if d.Cmd == emrserverless.Name {
				of = emrserverless.New(w.SDK(), emrserverless.Config{Deployment: "words", Role: "arn:aws:iam::123456789012:role/spark"})
			}
			spec.Region, spec.Release = emulator.Region, "7.5.0"
			result = runOn(t, of, s3Store{w}, spec)
			for _, r := range w.Requests() {
				note(r.Action, r.Body)
			}
		case dataproc.Name, dataproc.ServerlessName:
			in := gsStore{servers.FakeGCS(t)}
			in.call(t, http.MethodPost, "/storage/v1/b", []byte(`{"name":"`+gsBucket+`"}`))
			spark := sparkjob.Spark{Bin: bin, Jars: jars, Dir: t.TempDir(), Properties: sparkjob.Storage(in.url, "demo")}
			google, err := gce.New(gce.Config{Run: spark.Run})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(google.Close)
			google.KeepBuckets(in.url)
			server := httptest.NewServer(google)
			t.Cleanup(server.Close)
			cfg := dataproc.Config{Deployment: "words", Project: "demo", Regions: []string{"us-central1"}, Endpoint: server.URL,
				Client: []option.ClientOption{option.WithoutAuthentication()}}
			of := service.Service(dataproc.NewClusters(cfg))
			if d.Cmd == dataproc.ServerlessName {
				of = dataproc.NewBatches(cfg)
			}
			spec.Region, spec.Release = "us-central1", "2.2"
			result = runOn(t, of, in, spec)
			for _, r := range google.Requests() {
				note(strings.TrimPrefix(r.Method, "dataproc.projects."), orNull(r.Body))
			}
			if faults := google.Faults(); len(faults) > 0 {
				t.Errorf("Google's description: %v", faults)
			}
		default:
			t.Fatalf("unknown command %s", d.Cmd)
		}
		if !bytes.Equal(result, local) {
			return fmt.Sprintf("another result:\n%s", result)
		}
		return "the same result\n" + requests.String()
	})
}

// orNull returns a body, or null if it is empty.
func orNull(body []byte) json.RawMessage {
	if len(body) == 0 {
		return json.RawMessage("null")
	}
	return body
}

func TestArgumentsOnServiceAreURIs(t *testing.T) {
	p := sparkrun.Prefixes{Code: "s3://b/c/", Inputs: "s3://b/in/", Outputs: "s3://b/out/"}
	app, err := sparkrun.OnService(&dag.SparkApp{
		Main: "jobs/a.py", PyFiles: []string{"lib.zip", "s3://other/x.py"},
		Args: []string{"${TRADEWIND_INPUTS}/x", "$TRADEWIND_OUTPUT", "$$5 `a`", "$DAY"},
	}, p, map[string]string{"DAY": "monday"})
	if err != nil || app.Main != "s3://b/c/jobs/a.py" || !slices.Equal(app.PyFiles, []string{"s3://b/c/lib.zip", "s3://other/x.py"}) ||
		!slices.Equal(app.Args, []string{"s3://b/in/x", "s3://b/out", "$5 `a`", "monday"}) {
		t.Errorf("%+v, %v", app, err)
	}
	if _, err := sparkrun.OnService(&dag.SparkApp{Main: "a.py", Args: []string{"x", "$HOME"}}, p, nil); err == nil ||
		!strings.Contains(err.Error(), "HOME") || !strings.Contains(err.Error(), "args[1]") {
		t.Errorf("%v", err)
	}
}
