package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/pkg/agent/bucket/remote"
	"github.com/tradewind-broker/tradewind/pkg/agent/stage"
)

// newBucket makes an S3 bucket on the emulator, in an environment like that of a machine, and returns its URL.
func newBucket(t *testing.T) (rawURL, name string, client *s3.Client) {
	t.Helper()
	endpoint := emulator.Moto(t)
	for _, v := range emulator.Env(endpoint) {
		key, value, _ := strings.Cut(v, "=")
		t.Setenv(key, value)
	}
	name = fmt.Sprintf("data-%d", time.Now().UnixNano())
	client = s3.NewFromConfig(emulator.Config(endpoint), func(o *s3.Options) { o.UsePathStyle = true })
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatal(err)
	}
	return "s3://" + name + "?region=us-east-1", name, client
}

// big is above the size from which S3 takes a file in parts.
var big = func() []byte {
	b := make([]byte, 7<<20+3)
	rng := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // not a secret
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}()

func write(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, content := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestInputsComeFromS3AndOutputsGoThere(t *testing.T) {
	root, _, _ := newBucket(t)
	at := func(key string) string { return strings.Replace(root, "?", "/"+key+"?", 1) }
	from, to := t.TempDir(), t.TempDir()
	write(t, from, map[string][]byte{"out/big.bin": big, "out/deep/ä b+c.txt": []byte("x"), "out/empty": nil})
	var tr stage.Transfer
	if err := tr.Put(t.Context(), remote.Openers(), from, "out", at("results")); err != nil {
		t.Fatal(err)
	}
	if err := tr.Fetch(t.Context(), remote.Openers(), at("results"), to, "in", nil); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{"in/big.bin": big, "in/deep/ä b+c.txt": []byte("x"), "in/empty": {}} {
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want %d, %v", name, len(got), len(want), err)
		}
	}
	if err := tr.Fetch(t.Context(), remote.Openers(), at("results/deep/ä b+c.txt"), to, "one.txt", nil); err != nil {
		t.Errorf("a single object: %v", err)
	}
	if err := tr.Fetch(t.Context(), remote.Openers(), at("none"), to, "none", nil); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("what is not there: %v", err)
	}
	if err := tr.Fetch(t.Context(), remote.Openers(), "s3://no-such-bucket-here/x?region=us-east-1", to, "none", nil); err == nil {
		t.Error("a bucket that is not there")
	}
}

func TestACheckpointComesBackFromS3AndDamageIsNoticed(t *testing.T) {
	root, name, client := newBucket(t)
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "restored")
	write(t, from, map[string][]byte{"model.pt": big, "step": []byte("17")})
	b, err := remote.Openers().Open(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var tr stage.Transfer
	const prefix = "jobs/j/t/ckpt/000001-a1"
	if _, err := tr.Upload(t.Context(), b, prefix, from, stage.Scan{}, stage.Manifest{}); err != nil {
		t.Fatal(err)
	}
	m, err := tr.Download(t.Context(), b, prefix, to)
	if err != nil || len(m.Files) != 2 {
		t.Fatalf("%+v, %v", m, err)
	}
	if got, err := os.ReadFile(filepath.Join(to, "model.pt")); err != nil || !bytes.Equal(got, big) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	damaged := bytes.Clone(big)
	damaged[5<<20]++
	key := find(t.Context(), t, client, name, "model.pt")
	if _, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &name, Key: &key, Body: bytes.NewReader(damaged)}); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Download(t.Context(), b, prefix, t.TempDir()); !errors.Is(err, stage.ErrCorrupt) {
		t.Errorf("of the right size, with another digest: %v", err)
	}
	if _, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &name, Key: &key, Body: bytes.NewReader(big[:100])}); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Download(t.Context(), b, prefix, t.TempDir()); !errors.Is(err, stage.ErrCorrupt) {
		t.Errorf("cut short: %v", err)
	}
	if _, err := client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &name, Key: &key}); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Download(t.Context(), b, prefix, t.TempDir()); err == nil {
		t.Error("a file is missing, and nobody noticed")
	}
	if err := stage.Prune(t.Context(), b, "jobs/j/t/ckpt", func(string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if out, err := client.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &name}); err != nil || len(out.Contents) != 0 {
		t.Errorf("left: %v, %v", out.Contents, err)
	}
}

func find(ctx context.Context, t *testing.T, client *s3.Client, name, suffix string) string {
	t.Helper()
	out, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &name})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range out.Contents {
		if strings.HasSuffix(awssdk.ToString(o.Key), suffix) {
			return awssdk.ToString(o.Key)
		}
	}
	t.Fatalf("no object %s", suffix)
	return ""
}
