package inputs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/inputs"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// stores are buckets. For some buckets a list fails with an error; the objects of a bucket that may not be listed can
// be read by URI. All other buckets exist and are empty.
type stores struct {
	grant.Store
	here   inputs.Machine
	refuse map[string]error
	read   map[string]bool
	lend   error
	server *httptest.Server
	lists  int
}

func (s *stores) List(_ context.Context, prefix, _ string) (grant.Page, error) {
	s.lists++
	bucket, err := grant.BucketOf(prefix)
	if err == nil {
		err = s.refuse[strings.TrimSuffix(bucket, "/")]
	}
	return grant.Page{}, err
}

func (s *stores) Sign(_ context.Context, wants ...grant.Want) ([]grant.Grant, error) {
	return []grant.Grant{{Method: http.MethodGet, URL: fmt.Sprintf("%s/?there=%v", s.server.URL, s.read[wants[0].URI])}}, nil
}

func (s *stores) Lend(context.Context, grant.Loan) (grant.Credentials, error) {
	return grant.Credentials{}, s.lend
}

func check(t *testing.T, s *stores, tasks string) *dag.Error {
	t.Helper()
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("there") != "true" {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer s.server.Close()
	spec, err := read.Job("job.yaml", strings.NewReader("apiVersion: tradewind/v1\nname: n\ntasks:\n"+tasks))
	if err != nil {
		t.Fatal(err)
	}
	c := inputs.Checker{Stores: s, Local: s.here, Own: "s3://work", For: time.Minute, Log: slog.New(slog.DiscardHandler)}
	err = c.Check(t.Context(), spec)
	var bad *dag.Error
	if err != nil && !errors.As(err, &bad) {
		t.Fatalf("no error of the file: %v", err)
	}
	return bad
}

func TestCheckRefusesInputsWithLine(t *testing.T) {
	none := fmt.Errorf("s3: %w: NoSuchBucket", grant.ErrNoBucket)
	s := &stores{
		refuse: map[string]error{
			"s3://none": none, "s3://shut": fmt.Errorf("s3: %w: AccessDenied", grant.ErrNoBucket),
			"s3://slow": errors.New("try again"), "gs://other": fmt.Errorf("%w: gs", grant.ErrStore),
			"azblob://mine": fmt.Errorf("%w: log in", grant.ErrCredentials),
		},
		read: map[string]bool{"s3://shut/public.csv": true},
	}
	for tasks, want := range map[string]string{
		"  a: {run: ls, inputs: [s3://there/x]}":                                                                       "",
		"  a: {run: ls, inputs: ['s3:///x']}":                                                                          "the bucket is missing or has an invalid name",
		"  a: {run: ls, workdir: s3://none/x}":                                                                         `tasks.a.workdir: "s3://none/x" cannot be read`,
		"  a: {run: ls, workdir: s3://there/x, inputs: [s3://none/x]}":                                                 "tasks.a.inputs[0]",
		"  a: {run: ls, inputs: [s3://slow/x]}":                                                                        "",
		"  a: {run: ls, inputs: ['file:///tmp/x', 'pack://sha256-7/z', /opt/y]}":                                       "",
		"  a: {run: ls, inputs: [s3://there/y,\n    s3://none/x]}":                                                     `job.yaml:5:5: tasks.a.inputs[1]: "s3://none/x" cannot be read`,
		"  a: {run: ls, inputs: [s3://shut/x]}":                                                                        "AccessDenied",
		"  a: {run: ls, inputs: [s3://shut/public.csv]}":                                                               "",
		"  a: {run: ls, inputs: [gs://other/x]}":                                                                       "tasks.a.inputs[0]",
		"  a: {run: ls, inputs: [azblob://mine/x]}":                                                                    "log in",
		"  a: {run: ls, outputs: [{name: o, uri: s3://none/x/}]}\n  b: {run: ls, after: [a], inputs: [s3://none/x/y]}": "",
		"  a: {run: ls, inputs: [{uri: s3://none/x, bucket: make, mount: cached, path: o}]}\n  b: {run: ls, inputs: [s3://none/x]}": "",
		"  a: {run: ls, inputs: [{uri: s3://none/x, mount: true, path: o}]}":                                                        `"s3://none/x" cannot be mounted`,
		"  a: {run: ls, inputs: [{uri: s3://shut/public.csv, mount: true, path: o}]}":                                               "cannot be mounted",
		"  a: {run: ls, inputs: [{uri: s3://work, mount: true, path: o}]}":                                                          "it holds the data of all jobs",
	} {
		bad := check(t, s, tasks)
		switch {
		case want == "" && bad != nil:
			t.Errorf("%s: %v", tasks, bad)
		case want != "" && (bad == nil || bad.Line == 0 || !strings.Contains(bad.Error(), want)):
			t.Errorf("%s: %v, want %s", tasks, bad, want)
		}
	}
}

// A mount must name a folder, not an object, and credentials for it must be available.
func TestMountNeedsFolderAndCredentials(t *testing.T) {
	s := &stores{read: map[string]bool{"s3://there/data.csv": true}}
	const file = "  a: {run: ls, inputs: [{uri: s3://there/%s, mount: write, path: o}]}"
	if bad := check(t, s, fmt.Sprintf(file, "data.csv")); bad == nil || !strings.Contains(bad.Error(), "it is an object") {
		t.Errorf("%v", bad)
	}
	if bad := check(t, s, fmt.Sprintf(file, "data/")); bad != nil {
		t.Errorf("%v", bad)
	}
	s.lend = errors.ErrUnsupported
	if bad := check(t, s, fmt.Sprintf(file, "data/")); bad == nil || !strings.Contains(bad.Error(), "docs/mounts.md") {
		t.Errorf("%v", bad)
	}
}

// bare is a machine that lacks the programs of the given errors. It counts how often it is asked.
type bare struct {
	mounts, containers error
	asked              int
}

func (b *bare) Mounts(context.Context) error     { b.asked++; return b.mounts }
func (b *bare) Containers(context.Context) error { b.asked++; return b.containers }

// If all tasks run on one known machine, missing programs are reported before a task runs.
func TestCheckReportsMissingMachineFeatureWithLine(t *testing.T) {
	here := &bare{mounts: errors.New("rclone is missing"), containers: errors.New("no engine")}
	s := &stores{here: here}
	const mount, image = "{uri: 'file:///tmp/x', mount: true, path: o}", "resources: {image: 'docker:alpine'}"
	for tasks, want := range map[string]string{
		"  a: {run: ls, inputs: ['file:///tmp/x']}":                                 "",
		"  a: {run: ls, inputs: [s3://there/x,\n    " + mount + "]}":                `job.yaml:5:5: tasks.a.inputs[1]: "file:///tmp/x" cannot be mounted on this computer: rclone is missing`,
		"  a: {run: ls, " + image + "}":                                             `tasks.a.resources.image: "docker:alpine" cannot be run on this computer: no engine`,
		"  a: {run: ls, resources: {anyOf: [{cpus: 1}, {image: 'docker:alpine'}]}}": "",
	} {
		bad := check(t, s, tasks)
		if want == "" && bad != nil || want != "" && (bad == nil || bad.Line == 0 || !strings.Contains(bad.Error(), want)) {
			t.Errorf("%s: %v, want %s", tasks, bad, want)
		}
	}
	here.mounts, here.containers, here.asked = nil, nil, 0
	all := "  a: {run: ls, " + image + ", inputs: [" + mount + "]}\n  b: {run: ls, " + image + ", inputs: [" + mount + "]}"
	if bad := check(t, s, all); bad != nil || here.asked != 2 {
		t.Errorf("%v, asked %d times", bad, here.asked)
	}
}

// A job of many tasks that all copy from one bucket must check that bucket only once.
func TestBucketIsCheckedOnce(t *testing.T) {
	s := &stores{}
	tasks := &strings.Builder{}
	for i := range 100 {
		fmt.Fprintf(tasks, "  t%d: {run: ls, inputs: [s3://there/%d]}\n", i, i)
	}
	if bad := check(t, s, tasks.String()); bad != nil || s.lists != 1 {
		t.Errorf("%v after %d lists", bad, s.lists)
	}
}
