package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// laptop is a job whose tasks pass data on, write logs, read a local file, and share machines.
const laptop = `apiVersion: tradewind/v1
name: laptop
tasks:
  make:
    run: 'cat words.txt; seq 1 10 >"$TRADEWIND_OUTPUT/numbers.txt"'
    inputs: [{uri: words.txt, path: words.txt}]
    resources: {cpus: 1+, memory: 1+, arch: amd64}
    time: 5m
  read:
    after: [make]
    array: 3
    run: 'echo "$TRADEWIND_ARRAY_INDEX reads $(wc -l <"$TRADEWIND_INPUTS/make/numbers.txt")"'
    resources: {cpus: 1+, memory: 1+, arch: amd64}
    time: 5m
`

// waiting is a job whose task waits for a file, and notes each of its starts.
const waiting = `apiVersion: tradewind/v1
name: waiting
tasks:
  wait:
    run: 'echo started >>MARKS/starts; while [ ! -e MARKS/go ]; do sleep 0.1; done; echo done'
    resources: {cpus: 1+, memory: 1+, arch: amd64}
    time: 10m
`

// writeJob writes a job file and a local input next to it.
func writeJob(t *testing.T, body string) (file string) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "job.yaml")
	for name, text := range map[string]string{"job.yaml": body, "words.txt": "words of the laptop\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// runLaptop runs the jobs on a cloud that the shell has credentials for.
func runLaptop(t *testing.T, s *shell, cloud string) {
	agents := " --yes --on " + cloud + " --agents " + buildAgent(t)
	file := writeJob(t, laptop)
	out, errs, code := s.run("tradewind run " + file + agents)
	if code != 0 {
		t.Fatalf("exit %d\n%s%s\n%s", code, out, errs, s.must("tradewind explain last"))
	}
	if strings.Contains(out, "SIMULATED") || !strings.Contains(out, "succeeded:") {
		t.Errorf("run printed\n%s", out)
	}
	if log := s.must("tradewind logs last make"); !strings.Contains(log, "words of the laptop") {
		t.Errorf("log of make: %q", log)
	}
	if log := s.must("tradewind logs last 'read[2]'"); !strings.Contains(log, "2 reads 10") {
		t.Errorf("log of read[2]: %q", log)
	}

	marks := t.TempDir()
	file = writeJob(t, strings.ReplaceAll(waiting, "MARKS", marks))
	broker := s.command("tradewind run " + file + agents + " --away 5m")
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, s, filepath.Join(marks, "starts"))
	if _, errs, code := s.run("tradewind exec last wait -- true"); code == 0 || !strings.Contains(errs, "deploy") {
		t.Errorf("exec: exit %d\n%s", code, errs)
	}
	_ = broker.Process.Signal(syscall.SIGKILL)
	_ = broker.Wait()
	if err := os.WriteFile(filepath.Join(marks, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Second) // the task ends while no broker runs
	stop := s.up("--clouds " + cloud + strings.TrimPrefix(strings.TrimPrefix(agents, " --yes"), " --on "+cloud))
	if _, errs, code := s.run("tradewind status -w last"); code != 0 {
		t.Fatalf("exit %d\n%s\n%s", code, errs, s.must("tradewind explain last"))
	}
	if log := s.must("tradewind logs last wait"); !strings.Contains(log, "done") {
		t.Errorf("log of wait: %q", log)
	}
	starts, err := os.ReadFile(filepath.Join(marks, "starts"))
	if err != nil || string(starts) != "started\n" {
		t.Errorf("the task was started again: %q, %v", starts, err)
	}
	stop()
}

// waitFor waits for a file that a task writes.
func waitFor(t *testing.T, s *shell, file string) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			return
		}
		if t.Context().Err() != nil || time.Now().After(deadline) {
			t.Fatalf("it does not run\n%s", s.must("tradewind explain last"))
		}
	}
}

// TestLaptopOnAWS runs jobs on an emulated AWS without an address of the broker, which is also killed.
func TestLaptopOnAWS(t *testing.T) {
	s := build(t).in(t)
	endpoint := emulator.OwnMoto(t)
	h, certificates := emulateAWS(t, s, endpoint)
	if _, errs, code := s.run("tradewind up --clouds aws --agents " + t.TempDir()); code != 2 ||
		!strings.Contains(errs, "make agent") {
		t.Errorf("without an agent: exit %d\n%s", code, errs)
	}
	added := s.must("tradewind cloud add aws --certificates " + certificates + " 2>&1")
	if strings.Contains(added, "store") {
		t.Errorf("cloud add created a bucket:\n%s", added)
	}
	t.Logf("state %s", s.state); runLaptop(t, s, "aws")
	h.noneLeft(t.Context())

	buckets := s3.NewFromConfig(emulator.Config(endpoint), func(o *s3.Options) { o.UsePathStyle = true })
	list, err := buckets.ListBuckets(t.Context(), &s3.ListBucketsInput{})
	if err != nil || len(list.Buckets) != 1 {
		t.Fatalf("%d buckets, %v", len(list.Buckets), err)
	}
	all, err := buckets.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: list.Buckets[0].Name})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all.Contents {
		if strings.HasPrefix(aws.ToString(o.Key), "mail/") {
			t.Errorf("a message is left: %s", aws.ToString(o.Key))
		}
	}
	if out := s.must("tradewind cloud remove aws 2>&1"); !strings.Contains(out, "kept, because it has outputs of jobs") {
		t.Errorf("cloud remove printed\n%s", out)
	}
}
