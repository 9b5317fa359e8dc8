// Package skytest has one SkyPilot file that uses every way SkyPilot has to upload or mount files, and an S3 server
// with the data that the file reads, for tests that run the file unchanged.
//
// Real parts: podman and runc with an image of busybox, FUSE, rclone, and MinIO, which checks signatures and the
// session policies of the credentials that it issues.
package skytest

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/tradewind-broker/tradewind/internal/agent/container/containertest"
	"github.com/tradewind-broker/tradewind/internal/agent/mount"
	"github.com/tradewind-broker/tradewind/internal/agent/mount/mounttest"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
)

//go:embed all:job
var job embed.FS

// The name of the file, and the secret and variable that its user sets.
const (
	File     = "sky.yaml"
	Secret   = "HF_TOKEN"
	Token    = "hf-a-token-of-nobody" //nolint:gosec // not a real token
	Variable = "NAMED=world"
)

// Role is a role that MinIO accepts. MinIO checks only the policy of the session, not the role.
const Role = "arn:aws:iam::111122223333:role/mounts"

// Log is the end of the task's log.
const Log = `busybox
installed
set up, hello world, rank 0 of 1
the token is ***
code runs in work
live
copied
settings
settings
main.sh
other.sh
x
done
`

// Folder makes a folder with the file and all that it names, and returns its path.
func Folder(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	files, err := fs.Sub(job, "job")
	if err == nil {
		err = os.CopyFS(dir, files)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}

// World is the environment in which the file's job runs.
type World struct {
	tb       testing.TB
	endpoint string
	rclone   string
	environ  []string
	s3       *s3.Client
}

// New starts S3 and uploads the data that the file reads. It skips the test if a part is missing.
func New(tb testing.TB) *World {
	tb.Helper()
	w := &World{tb: tb, environ: containertest.Environ(tb), rclone: mounttest.Program(tb, mounttest.Environ(tb))}
	w.endpoint = servers.S3(tb)
	w.s3 = s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: &w.endpoint, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(servers.S3AccessKey, servers.S3SecretKey, ""),
	})
	if _, err := w.s3.CreateBucket(tb.Context(), &s3.CreateBucketInput{Bucket: aws.String("sky-lake")}); err != nil {
		tb.Fatal(err)
	}
	for key, body := range map[string]string{"live/a.txt": "live\n", "in/b.txt": "copied\n"} {
		if _, err := w.s3.PutObject(tb.Context(), &s3.PutObjectInput{
			Bucket: aws.String("sky-lake"), Key: &key, Body: strings.NewReader(body),
		}); err != nil {
			tb.Fatal(err)
		}
	}
	return w
}

// Machine returns the environment variables of a machine that has podman, as it works on this computer.
func (w *World) Machine() (environ []string) {
	for _, entry := range w.environ {
		if strings.HasPrefix(entry, "CONTAINERS_CONF=") || strings.HasPrefix(entry, "TRADEWIND_CONTAINER_ENGINE=") {
			environ = append(environ, entry)
		}
	}
	return environ
}

// S3 returns the environment variables with which a broker finds this S3, including its keys.
func (w *World) S3() []string {
	return []string{
		"AWS_ENDPOINT_URL_S3=" + w.endpoint, "AWS_ENDPOINT_URL_STS=" + w.endpoint,
		"AWS_ACCESS_KEY_ID=" + servers.S3AccessKey, "AWS_SECRET_ACCESS_KEY=" + servers.S3SecretKey,
	}
}

// Rclone returns the path of the rclone program that mounts buckets.
func (w *World) Rclone() string { return w.rclone }

// RcloneVariable is the environment variable that gives this path to an agent.
func (w *World) RcloneVariable() string { return mount.ProgramEnv + "=" + w.rclone }

// CheckBuckets checks that the buckets contain everything the job wrote, and nothing else.
func (w *World) CheckBuckets() {
	w.tb.Helper()
	ctx := w.tb.Context()
	want := map[string]string{"live/a.txt": "live\n", "live/new.txt": "written where it lies\n", "in/b.txt": "copied\n"}
	w.compare(ctx, "sky-lake", want)
	want = map[string]string{"large.bin": string(make([]byte, 9_000_000))}
	for i := range 20 {
		want[fmt.Sprintf("deep/%d.txt", i)] = fmt.Sprintf("result %d\n", i)
	}
	w.compare(ctx, "sky-results", want)
	want = map[string]string{}
	for _, name := range []string{".skyignore", "main.sh", "other.sh"} {
		body, err := job.ReadFile(filepath.Join("job", "code", name))
		if err != nil {
			w.tb.Fatal(err)
		}
		want[name] = string(body)
	}
	w.compare(ctx, "sky-seed", want)
}

// Gone reports whether the bucket that was made for this job alone has been deleted.
func (w *World) Gone(ctx context.Context) bool {
	_, err := w.s3.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: aws.String("sky-scratch")})
	var none *types.NotFound
	return errors.As(err, &none)
}

// AwaitGone waits until that bucket has been deleted.
func (w *World) AwaitGone() {
	w.tb.Helper()
	for deadline := time.Now().Add(time.Minute); !w.Gone(w.tb.Context()); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.tb.Fatal("the temporary bucket still exists")
		}
	}
}

// compare compares the objects of a bucket with want.
func (w *World) compare(ctx context.Context, bucket string, want map[string]string) {
	w.tb.Helper()
	pages := s3.NewListObjectsV2Paginator(w.s3, &s3.ListObjectsV2Input{Bucket: &bucket})
	got := map[string]string{}
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			w.tb.Fatalf("%s: %v", bucket, err)
		}
		for _, o := range page.Contents {
			out, err := w.s3.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: o.Key})
			if err != nil {
				w.tb.Fatalf("%s/%s: %v", bucket, *o.Key, err)
			}
			body, err := io.ReadAll(out.Body)
			if err != nil {
				w.tb.Fatalf("%s/%s: %v", bucket, *o.Key, err)
			}
			got[*o.Key] = string(body)
		}
	}
	for key, body := range want {
		if found, ok := got[key]; !ok || found != body {
			w.tb.Errorf("s3://%s/%s: found %v, %.40q (%d bytes), want %.40q", bucket, key, ok, found, len(found), body)
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			w.tb.Errorf("s3://%s/%s should not exist", bucket, key)
		}
	}
}
