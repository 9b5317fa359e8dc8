package agent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/container/containertest"
	"github.com/tradewind-broker/tradewind/internal/agent/mount/mounttest"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/grant/s3grant"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
)

// shared creates a folder of the machine with a file. It returns the folder's path, and a job's input that mounts it.
func shared(t *testing.T, path, mode string) (dir string, in wire.Input) {
	t.Helper()
	dir = t.TempDir()
	writeFile(t, filepath.Join(dir, "there"), "was there")
	return dir, wire.Input{URI: "file://" + dir, Path: path, Mount: mode}
}

func content(t *testing.T, path string) string {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}

// nothingMounted fails the test if an agent's directory contains mounts or files of them.
func nothingMounted(t *testing.T, dir string) {
	t.Helper()
	if left := mounttest.Mounted(t, dir); len(left) > 0 {
		t.Errorf("still mounted: %v", left)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "mounts", "*", "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A task mounts folders and a bucket in all modes. When it has succeeded, all of its writes must be in the stores.
func TestTaskSucceedsAfterUploadsComplete(t *testing.T) {
	environ := mounttest.Environ(t)
	endpoint := servers.S3(t)
	owner := credentials.NewStaticCredentialsProvider(servers.S3AccessKey, servers.S3SecretKey, "")
	c := s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: &endpoint, UsePathStyle: true, Credentials: owner})
	if _, err := c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("bucket")}); err != nil {
		t.Fatal(err)
	}
	b := agenttest.New(t)
	b.Mounts("s3", s3grant.New(c, s3grant.Options{Loans: s3grant.Loans{
		STS: sts.New(sts.Options{Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: owner}), Role: "arn:aws:iam::111122223333:role/x",
	}}))
	dir := t.TempDir()
	start(t, b, node, agent.Config{Dir: dir, Environ: environ})
	w := task(t, "a1", `set -e
cat read/there write/there
! touch read/new 2>/dev/null
echo now > write/new
echo cached > cached/new
mkdir bucket/out; for i in 1 2 3 4 5 6 7 8; do head -c 300000 /dev/zero > bucket/out/$i; done
env; ls -la $TRADEWIND_INPUTS`)
	_, read := shared(t, "read", "read")
	wdir, write := shared(t, "write", "write")
	cdir, cached := shared(t, "deep/../cached", "cached")
	w.Inputs = []wire.Input{read, write, cached, {URI: "s3://bucket/run", Path: "bucket", Mount: "cached"}}
	b.Run(node, w)
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded {
		t.Fatalf("%+v\n%s", r, b.Log(node, "a1"))
	}
	out, err := c.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String("bucket"), Prefix: aws.String("run/out/")})
	if err != nil || len(out.Contents) != 8 {
		t.Errorf("%d objects arrived, %v", len(out.Contents), err)
	}
	if got := content(t, filepath.Join(wdir, "new")) + content(t, filepath.Join(cdir, "new")); got != "now\ncached\n" {
		t.Errorf("arrived %q", got)
	}
	if log := b.Log(node, "a1"); !strings.Contains(log, "was therewas there") || strings.Contains(log, "AWS_") || strings.Contains(log, "rclone") {
		t.Errorf("log %s", log)
	}
	nothingMounted(t, dir)
}

// A machine is being taken. The task must end, then its writes are uploaded, and only then is its checkpoint
// reported.
func TestNoticeFlushesMountsBeforeCheckpoint(t *testing.T) {
	environ := mounttest.Environ(t)
	b, dir := agenttest.New(t), t.TempDir()
	start(t, b, node, agent.Config{Dir: dir, Environ: environ})
	w := task(t, "a1", `trap 'echo last > out/last; echo 7 > $TRADEWIND_CHECKPOINT/step; exit 0' TERM
echo first > out/first; echo ready; while :; do sleep 0.05; done`)
	kept, in := shared(t, "out", "cached")
	w.Inputs, w.Checkpoint = []wire.Input{in}, &wire.Checkpoint{Path: "ckpt", Next: 1}
	b.Run(node, w)
	b.AwaitLog(node, "a1", "ready")
	b.SendCommand(node, wire.Work{Command: wire.SaveAndStop, Notice: time.Minute})
	b.Report(node, "a1", wire.Checkpointed)
	if got := content(t, filepath.Join(kept, "first")) + content(t, filepath.Join(kept, "last")); got != "first\nlast\n" {
		t.Errorf("when the checkpoint was reported, the folder had %q", got)
	}
	if r := b.Result(node, "a1"); r.Event != wire.Stopped {
		t.Errorf("%+v", r)
	}
	nothingMounted(t, dir)
}

// A write cannot be uploaded, because the folder is gone. The task must not succeed, and no checkpoint may be saved.
func TestMissingUploadFailsTask(t *testing.T) {
	environ := mounttest.Environ(t)
	b, dir := agenttest.New(t), t.TempDir()
	start(t, b, node, agent.Config{Dir: dir, Environ: environ, Patience: 3 * time.Second})
	kept, in := shared(t, "out", "cached")
	w := task(t, "a1", "echo lost > out/result; rm -r "+kept+"; echo x > "+kept+"; exit 0")
	w.Inputs = []wire.Input{in}
	b.Run(node, w)
	r := b.Result(node, "a1")
	if r.Event != wire.Failed || r.Phase != wire.PhaseOutputs || !strings.Contains(r.Message, "not uploaded: result") {
		t.Errorf("%+v", r)
	}
	nothingMounted(t, dir)
}

func TestTaskFailsWhenMountIsKilled(t *testing.T) {
	environ := mounttest.Environ(t)
	b, dir := agenttest.New(t), t.TempDir()
	start(t, b, node, agent.Config{Dir: dir, Environ: environ})
	w := task(t, "a1", "echo x > out/unsent; echo ready; exec sleep 600")
	_, in := shared(t, "out", "cached")
	w.Inputs = []wire.Input{in}
	b.Run(node, w)
	b.AwaitLog(node, "a1", "ready")
	if err := mounttest.Rclone(t, dir).Kill(); err != nil {
		t.Fatal(err)
	}
	r := b.Result(node, "a1")
	if r.Event != wire.Failed || r.Phase != wire.PhaseRun || !strings.Contains(r.Message, "lost the mount of "+in.URI) ||
		!strings.Contains(r.Message, "signal 9") || !strings.Contains(r.Message, "unsent") {
		t.Errorf("%+v", r)
	}
	nothingMounted(t, dir)
}

// An attempt ends by a stop command or by the death of the agent. In each case its mounts must end.
func TestNothingStaysMounted(t *testing.T) {
	environ := mounttest.Environ(t)
	b, dir := agenttest.New(t), t.TempDir()
	start(t, b, node, agent.Config{Dir: dir, Environ: environ})
	w := task(t, "a1", "echo saved > out/new; echo ready; exec sleep 600")
	kept, in := shared(t, "out", "cached")
	w.Inputs = []wire.Input{in}
	b.Run(node, w)
	b.AwaitLog(node, "a1", "ready")
	b.SendCommand(node, wire.Work{Command: wire.Stop})
	if r := b.Result(node, "a1"); r.Event != wire.Stopped {
		t.Errorf("%+v", r)
	}
	if got := content(t, filepath.Join(kept, "new")); got != "saved\n" {
		t.Errorf("a stopped task has uploaded %q", got)
	}

	other := agenttest.Node{Cluster: "killed"}
	dir = t.TempDir()
	cmd := exec.Command(os.Args[0]) //nolint:gosec // this test's own program
	cmd.Env = append(environ, agent.EnvEndpoint+"="+b.URL(), agent.EnvTokenFile+"=-", agent.EnvDir+"="+dir)
	cmd.Stdin = strings.NewReader(b.Token(other))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.Run(other, w)
	b.AwaitLog(other, "a1", "ready")
	if len(mounttest.Mounted(t, dir)) != 1 {
		t.Fatal("nothing is mounted")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for deadline := time.Now().Add(proc.AfterTimeout + 10*time.Second); len(mounttest.Mounted(t, dir)) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("still mounted: ", mounttest.Mounted(t, dir))
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
	if got := content(t, filepath.Join(kept, "there")); got != "was there" {
		t.Errorf("the mounted folder now has %q", got)
	}
}

// In a container, a mount must have the same path as without one, even if the image has files at that path.
func TestContainerSeesMounts(t *testing.T) {
	environ := containertest.Environ(t)
	own := mounttest.Environ(t)
	environ = append(environ, own[len(os.Environ()):]...)
	b, dir := agenttest.New(t), t.TempDir()
	start(t, b, node, agent.Config{Dir: dir, Environ: environ})
	w := task(t, "a1", `cat /data/there below/there; echo one > /data/new; echo two > below/new; ls `+dir+`/mounts 2>&1; exit 0`)
	one, abs := shared(t, "/data", "write")
	two, below := shared(t, "below", "cached")
	w.Image, w.Inputs = containertest.Image, []wire.Input{abs, below}
	b.Run(node, w)
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded {
		t.Fatalf("%+v\n%s", r, b.Log(node, "a1"))
	}
	if got := content(t, filepath.Join(one, "new")) + content(t, filepath.Join(two, "new")); got != "one\ntwo\n" {
		t.Errorf("arrived %q", got)
	}
	if log := b.Log(node, "a1"); !strings.Contains(log, "was therewas there") || !strings.Contains(log, "No such file") {
		t.Errorf("log %s", log)
	}
	nothingMounted(t, dir)
}

func TestInvalidMountFailsStaging(t *testing.T) {
	environ := mounttest.Environ(t)
	b, dir := agenttest.New(t), t.TempDir()
	start(t, b, node, agent.Config{Dir: dir, Environ: environ})
	kept, in := shared(t, "out", "cached")
	w := task(t, "a0", "")
	for i, c := range []struct {
		in    wire.Input
		words string
	}{
		{wire.Input{URI: in.URI, Path: ".", Mount: "read"}, "cannot be a mount point"},
		{wire.Input{URI: in.URI, Path: "/data", Mount: "read"}, "on a shared machine it must be relative"},
		{wire.Input{URI: w.Store + "/packs", Path: "d", Mount: "cached"}, "it overlaps the broker's own store"},
		{wire.Input{URI: "file://" + kept + "/there", Path: "d", Mount: "read"}, "this machine has no folder"},
		{wire.Input{URI: "s3://bucket/x", Path: "d", Mount: "read"}, "unsupported"},
	} {
		name := "a" + string(rune('1'+i))
		w := *w
		w.Attempt, w.Run, w.Inputs = name, "true", []wire.Input{c.in}
		b.Run(node, &w)
		if r := b.Result(node, name); r.Event != wire.Failed || r.Phase != wire.PhaseStage || !strings.Contains(r.Message, c.words) {
			t.Errorf("%+v: %+v", c.in, r)
		}
	}
	old := filepath.Join(t.TempDir(), "rclone")
	if err := os.WriteFile(old, []byte("#!/bin/sh\necho rclone v1.2.3\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	other := agenttest.Node{Cluster: "old"}
	start(t, b, other, agent.Config{Environ: append(slices.Clone(environ), "TRADEWIND_RCLONE="+old)})
	w = task(t, "b1", "true")
	w.Inputs = []wire.Input{in}
	b.Run(other, w)
	if r := b.Result(other, "b1"); r.Event != wire.Failed || !strings.Contains(r.Message, "is v1.2.3, and mounts need") {
		t.Errorf("%+v", r)
	}
	nothingMounted(t, dir)
}

// A task has mounted a file system. The files in it must not be deleted when the next task begins.
func TestTaskMountsAreUnmountedNotDeleted(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	precious := t.TempDir()
	writeFile(t, filepath.Join(precious, "there"), "is there")
	b.Run(node, task(t, "a1", "mkdir x; mount --bind "+precious+" x && echo mounted"))
	b.Result(node, "a1")
	if !strings.Contains(b.Log(node, "a1"), "mounted\n") {
		t.Skip("this user cannot mount: ", b.Log(node, "a1"))
	}
	b.Run(node, task(t, "a2", "true"))
	if r := b.Result(node, "a2"); r.Event != wire.Succeeded {
		t.Errorf("%+v", r)
	}
	if got := content(t, filepath.Join(precious, "there")); got != "is there" {
		t.Errorf("it has %q", got)
	}
}
