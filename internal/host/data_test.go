package host_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/grant/s3grant"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

const s3Job = `apiVersion: tradewind/v1
name: data
tasks:
  copy:
    run: |
      cp in/big.bin $TRADEWIND_OUTPUT/copy.bin
      sha256sum <in/big.bin | cut -d ' ' -f 1
      env
      cat /proc/$PPID/environ /proc/$PPID/cmdline | tr '\0' '\n'
    inputs: [{uri: "s3://data/in", path: in}]
    outputs: [{name: all, uri: "s3://results/run"}]
    resources: {cpus: 1+}
    time: 1m
  next:
    after: [copy]
    run: sha256sum <$TRADEWIND_INPUTS/copy/copy.bin | cut -d ' ' -f 1
    resources: {cpus: 1+}
    time: 1m
`

// A task's data are copied from and to S3 in parts. Neither the task nor its agent has a key, and no file may contain
// a key or a signature.
func TestTasksMoveS3DataWithoutCredentials(t *testing.T) {
	client := s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(servers.S3(t)), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(servers.S3AccessKey, servers.S3SecretKey, ""),
	})
	big := make([]byte, 40<<20+1)
	_, _ = rand.NewChaCha8([32]byte{}).Read(big) // never fails
	for _, bucket := range []string{"data", "results"} {
		if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: aws.String("data"), Key: aws.String("in/big.bin"), Body: bytes.NewReader(big),
	}); err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	h, stop := serve(t, host.Options{
		State: state, TimeScale: 0.01, Stores: grant.Mux{"s3": s3grant.New(client, s3grant.Options{})},
	})
	spec, err := read.Job("data.yaml", strings.NewReader(s3Job))
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
	stop()
	out, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("results"), Key: aws.String("run/copy.bin")})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(out.Body); err != nil || !bytes.Equal(got, big) {
		t.Errorf("%d bytes came back of %d, %v", len(got), len(big), err)
	}
	sum, seen := sha256.Sum256(big), 0
	err = filepath.WalkDir(state, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(p) == "copy.bin" {
			return err
		}
		body, err := os.ReadFile(p)
		for _, secret := range []string{servers.S3SecretKey, servers.S3AccessKey, "X-Amz-Signature", "signature="} {
			if bytes.Contains(body, []byte(secret)) {
				t.Errorf("%s holds %s", p, secret)
			}
		}
		if strings.Contains(p, "logs") {
			seen += bytes.Count(body, []byte(hex.EncodeToString(sum[:])))
			if bytes.Contains(body, []byte("TRADEWIND_TOKEN")) && !bytes.Contains(body, []byte("TRADEWIND_TOKEN_FILE=-")) {
				t.Errorf("a task sees a token: %s", body)
			}
		}
		return err
	})
	if err != nil || seen != 2 {
		t.Errorf("the tasks read what was to be read %d times of two, %v", seen, err)
	}
}
