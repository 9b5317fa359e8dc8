package stage_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/internal/agent/stage"
	"github.com/tradewind-broker/tradewind/internal/grant/s3grant"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Transfers work with a server that checks every signature, length and checksum.
func TestTransfersWithCheckedSignatures(t *testing.T) {
	client := s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(servers.S3(t)), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(servers.S3AccessKey, servers.S3SecretKey, ""),
	})
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("work")}); err != nil {
		t.Fatal(err)
	}
	tr := stage.Transfer{Grants: s3grant.New(client, s3grant.Options{}), Part: grant.MinPart}
	want := tree{"large": random(manyParts), "d/ä b+c%.txt": "x", "empty": "", "l": "-> d"}
	dir := newDir(t, want)
	if _, err := tr.Upload(t.Context(), "s3://work/jobs/j/out/a1/", dir, stage.Scan{}, stage.Manifest{}); err != nil {
		t.Fatal(err)
	}
	check := func(what, dir string, err error) {
		t.Helper()
		got := read(t, dir)
		if err != nil || got["large"] != want["large"] || got["d/ä b+c%.txt"] != "x" || len(got) < 3 {
			t.Errorf("%s: %v, %d files", what, err, len(got))
		}
	}
	back := t.TempDir()
	_, err := tr.Download(t.Context(), "s3://work/jobs/j/out/a1/", back)
	check("what a manifest lists", back, err)
	if err := tr.Put(t.Context(), dir, ".", "s3://work/plain"); err == nil {
		t.Error("a link to a directory was copied")
	}
	delete(want, "l")
	if err := tr.Put(t.Context(), newDir(t, want), ".", "s3://work/plain"); err != nil {
		t.Fatal(err)
	}
	in := t.TempDir()
	check("a prefix", in, tr.Fetch(t.Context(), "s3://work/plain", in, ".", nil))
	if err := tr.Fetch(t.Context(), "s3://work/plain/empty", in, "none", nil); err != nil {
		t.Errorf("an empty object: %v", err)
	}
	if err := tr.Fetch(t.Context(), "s3://none/plain/", in, "none", nil); err == nil {
		t.Error("no error for a missing bucket")
	}
	if left, err := client.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: aws.String("work")}); err != nil || len(left.Uploads) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
