package host_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/tradewind-broker/tradewind/internal/agent/mount"
	"github.com/tradewind-broker/tradewind/internal/agent/mount/mounttest"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/grant/s3grant"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// lending returns a client of an S3 server that lends credentials and enforces their limits, and the broker's grants
// for it.
func lending(t *testing.T) (*s3.Client, grant.Mux) {
	t.Helper()
	endpoint := servers.S3(t)
	owner := credentials.NewStaticCredentialsProvider(servers.S3AccessKey, servers.S3SecretKey, "")
	c := s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: &endpoint, UsePathStyle: true, Credentials: owner})
	return c, grant.Mux{"s3": s3grant.New(c, s3grant.Options{Loans: s3grant.Loans{
		STS:  sts.New(sts.Options{Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: owner}),
		Role: "arn:aws:iam::111122223333:role/mounts",
	}})}
}

func bucketWith(t *testing.T, c *s3.Client, bucket string, objects map[string]string) {
	t.Helper()
	if _, err := c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket}); err != nil {
		t.Fatal(err)
	}
	for key, body := range objects {
		if _, err := c.PutObject(t.Context(), &s3.PutObjectInput{
			Bucket: &bucket, Key: &key, Body: strings.NewReader(body),
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func object(t *testing.T, c *s3.Client, bucket, key string) string {
	t.Helper()
	out, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	if err != nil {
		return err.Error()
	}
	body, err := io.ReadAll(out.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}

// The file is like a SkyPilot user's. Only the paths differ, because all machines of this process share a file
// system.
const skyJob = `name: sky
resources: {cpus: 1+}
file_mounts:
  data: {source: s3://data/in, mode: COPY}
  live: {source: s3://data/live, mode: MOUNT}
  out: {name: made-and-kept, store: s3, mode: MOUNT_CACHED}
  scratch: {name: made-and-removed, store: s3, mode: MOUNT, persistent: false}
run: |
  set -e
  cat data/x live/x
  echo written > live/new
  mkdir out/deep; echo cached > out/deep/result
  echo temporary > scratch/tmp
  env
`

func TestSkyPilotMountModes(t *testing.T) {
	t.Setenv(mount.ProgramEnv, mounttest.Program(t, mounttest.Environ(t)))
	c, stores := lending(t)
	bucketWith(t, c, "data", map[string]string{"in/x": "copied", "live/x": "mounted"})
	state := t.TempDir()
	h, stop := serve(t, host.Options{State: state, TimeScale: 0.01, Stores: stores})
	spec, err := read.Job("sky.yaml", strings.NewReader(skyJob))
	if err != nil {
		t.Fatal(err)
	}
	job, err := h.Broker().Users.Submit(context.Background(), broker.Submission{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	if d := await(t, h.Broker(), job.ID); d.State != apitypes.JobSucceeded {
		t.Fatalf("%s: %s", d.State, d.Reason)
	}
	for key, want := range map[[2]string]string{
		{"data", "live/new"}: "written\n", {"made-and-kept", "deep/result"}: "cached\n",
	} {
		if got := object(t, c, key[0], key[1]); got != want {
			t.Errorf("%v is %q, want %q", key, got, want)
		}
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_, err := c.HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: aws.String("made-and-removed")})
		if err != nil && strings.Contains(err.Error(), "404") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the temporary bucket is still there: ", err)
		}
	}
	stop()
	err = filepath.WalkDir(state, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := os.ReadFile(p) //nolint:gosec // the test's own
		for _, secret := range []string{servers.S3SecretKey, "SessionToken", "secretKey"} {
			if strings.Contains(string(body), secret) {
				t.Errorf("%s holds %s", p, secret)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Errors in mounts that can be found without a machine must be reported at submission, with the line in the file.
func TestSubmitRejectsImpossibleMounts(t *testing.T) {
	c, stores := lending(t)
	t.Setenv(mount.ProgramEnv, mounttest.Program(t, mounttest.Environ(t)))
	bucketWith(t, c, "data", map[string]string{"in/x": "x"})
	h, _ := serve(t, host.Options{State: t.TempDir(), TimeScale: 0.01, Stores: stores})
	state := host.ConfigOf(h).StoreURL
	for input, words := range map[string]string{
		`{uri: "s3://none/x", path: d, mount: true}`:                  "no such bucket",
		`{uri: "s3://data/in/x", path: d, mount: cached}`:             "it is an object, but only a bucket or a folder of one can be mounted",
		`{uri: "gs://bucket/x", path: d, mount: true}`:                "no such store",
		`{uri: "` + state + `", path: d, mount: cached}`:              "it holds the data of all jobs",
		`{uri: "s3://data/in", path: d, mount: true}`:                 "",
		`{uri: "s3://not-there", path: d, mount: true, bucket: make}`: "",
	} {
		spec, err := read.Job("job.yaml", strings.NewReader("apiVersion: tradewind/v1\nname: m\ntasks:\n  a:\n    run: x\n    inputs:\n      - "+input+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.Broker().Users.Submit(context.Background(), broker.Submission{Spec: spec, Token: input})
		var bad *dag.Error
		if words == "" {
			if err != nil {
				t.Errorf("%s: %v", input, err)
			}
			continue
		}
		if !errors.As(err, &bad) || !strings.Contains(bad.Error(), words) || !strings.HasPrefix(bad.Error(), "job.yaml:7:9: tasks.a.inputs[0]: ") {
			t.Errorf("%s: %v", input, err)
		}
	}
}
