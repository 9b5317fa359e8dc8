package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Tests of the built program, run from a shell on the examples.

// shell runs command lines with the built program in PATH.
type shell struct {
	t       *testing.T
	program string
	env     []string
	dir     string // working directory of commands
	state   string // its state folder, if it has its own
}

// build builds the program once for a test.
func build(t *testing.T) *shell {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and runs the program")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "tradewind")
	out, err := exec.Command("go", "build", "-ldflags", "-X main.version=v9.9.9", "-o", program, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return &shell{
		t: t, program: program, env: append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "NO_COLOR=1"), dir: "../..",
	}
}

// in returns the shell with its own state folder.
func (s *shell) in(t *testing.T) *shell {
	state := filepath.Join(t.TempDir(), "state")
	return &shell{
		t: t, program: s.program, env: append(slices.Clone(s.env), "TRADEWIND_STATE="+state), dir: s.dir, state: state,
	}
}

func (s *shell) command(line string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", "exec "+line)
	cmd.Env, cmd.Dir = s.env, s.dir
	return cmd
}

// run runs a command line to its end.
func (s *shell) run(line string) (stdout, stderr string, code int) {
	s.t.Helper()
	cmd := s.command(line)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatalf("%s: %v", line, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// must runs a command line that must exit with 0.
func (s *shell) must(line string) string {
	s.t.Helper()
	out, errs, code := s.run(line)
	if code != 0 {
		s.t.Fatalf("%s: exit %d\n%s%s", line, code, out, errs)
	}
	return out
}

// serves starts a broker that ends with the test, and returns once it has printed its address.
func (s *shell) serves(line string) {
	s.t.Helper()
	up := s.command(line)
	out, err := up.StdoutPipe()
	if err == nil {
		err = up.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = up.Process.Signal(os.Interrupt); _ = up.Wait() })
	if _, err := out.Read(make([]byte, 1)); err != nil {
		s.t.Fatal(err)
	}
}

// left returns the running processes of the program.
func (s *shell) left() (pids []string) {
	if runtime.GOOS != "linux" {
		return nil // without /proc
	}
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == s.program {
			pids = append(pids, link)
		}
	}
	return pids
}

func TestShell(t *testing.T) {
	built := build(t)
	t.Run("pool", func(t *testing.T) {
		t.Parallel() // it mostly waits for a machine to be reported missing
		apart := built.copy(t)
		testPool(t, apart.in(t))
		apart.mustBeGone(t)
	})
	t.Run("lambda", func(t *testing.T) {
		t.Parallel() // it waits for the API's polling
		apart := built.copy(t)
		testLambdaCloud(t, apart.in(t))
		apart.mustBeGone(t)
	})
	t.Run("aws", func(t *testing.T) {
		t.Parallel() // it waits for an interruption
		apart := built.copy(t)
		testAWS(t, apart.in(t))
		apart.mustBeGone(t)
	})
	t.Run("tpu", func(t *testing.T) {
		t.Parallel() // it waits for a machine to be reported missing
		apart := built.copy(t)
		testTPU(t, apart.in(t))
		apart.mustBeGone(t)
	})
	t.Run("dags of a bucket", func(t *testing.T) {
		t.Parallel() // it waits for a machine to boot
		apart := built.copy(t)
		testDAGBucket(t, apart.in(t))
		apart.mustBeGone(t)
	})
	t.Run("one process", func(t *testing.T) {
		t.Parallel()
		t.Run("run", func(t *testing.T) { testRun(t, built.in(t)) })
		t.Run("code", func(t *testing.T) { testCode(t, built.in(t)) })
		t.Run("full disk", func(t *testing.T) { testFullDisk(t, built.in(t)) })
		t.Run("interrupted upload", func(t *testing.T) { testInterruptedUpload(t, built.in(t)) })
		t.Run("secrets", func(t *testing.T) { testSecrets(t, built.in(t)) })
		t.Run("env", func(t *testing.T) { testEnv(t, built.in(t)) })
		t.Run("bad data", func(t *testing.T) { testBadData(t, built.in(t)) })
		t.Run("docs", func(t *testing.T) { testDocs(t, built.in(t)) })
		t.Run("pages", func(t *testing.T) { testPages(t, built.in(t)) })
		t.Run("interrupt", func(t *testing.T) { testInterrupt(t, built.in(t)) })
		t.Run("up", func(t *testing.T) { testUp(t, built.in(t)) })
		built.mustBeGone(t)
	})
}

// copy copies the program to its own name, so that its processes can be told apart from others.
func (s *shell) copy(t *testing.T) *shell {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "tradewind")
	if err := os.Link(s.program, program); err != nil {
		t.Fatal(err)
	}
	return &shell{t: t, program: program, env: append(slices.Clone(s.env), "PATH="+dir+":"+os.Getenv("PATH")), dir: s.dir}
}

func (s *shell) mustBeGone(t *testing.T) {
	t.Helper()
	if left := s.left(); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}
}

func testRun(t *testing.T, s *shell) {
	if got := s.must("tradewind --version"); got != "tradewind v9.9.9\n" {
		t.Errorf("version: %q", got)
	}
	var result struct {
		ID, State, Outputs string
		SpentUSD           float64
		TaskList           []struct{ State, Offer string }
	}
	out := s.must("tradewind run examples/fan-out.yaml --time-scale 0.01 -o json")
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if result.State != "succeeded" || result.SpentUSD <= 0 || len(result.TaskList) != 5 || result.TaskList[0].Offer == "" {
		t.Errorf("got %+v", result)
	}
	totals, _ := filepath.Glob(filepath.Join(result.Outputs, "total", "out", "*", "*", "files", "total.txt"))
	if len(totals) != 1 {
		t.Fatalf("outputs of total: %q", totals)
	}
	if body, err := os.ReadFile(totals[0]); err != nil || string(body) != "22 words in all\n" {
		t.Errorf("%v: %q", err, body)
	}
	if got := s.must("tradewind logs last total"); got != "22 words in all\n" {
		t.Errorf("log: %q", got)
	}
	for _, want := range []string{"submitted", "planned", "launched", "count-north: attempt 1 succeeded", "finished"} {
		if got := s.must("tradewind explain " + result.ID[:9]); !strings.Contains(got, want) {
			t.Errorf("explain has no %q:\n%s", want, got)
		}
	}
	if got := s.must("tradewind status"); !strings.Contains(got, result.ID+"  succeeded    5/5") {
		t.Errorf("status:\n%s", got)
	}
}

func testInterrupt(t *testing.T, s *shell) {
	file := filepath.Join(t.TempDir(), "long.yaml")
	body := "apiVersion: tradewind/v1\nname: long\ntasks: {wait: {run: echo begun; sleep 600, time: 1h}}\n"
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := s.command("tradewind run " + file)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	await(t, lines, "wait: running")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	await(t, lines, "cancelling long-")
	_, _ = io.Copy(io.Discard, stderr)
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(out.String(), "cancelled: 0 of 1 task") {
		t.Errorf("%v: %s", err, out.String())
	}
	if left := s.left(); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}
}

// await reads lines until one contains a text.
func await(t *testing.T, lines *bufio.Scanner, text string) {
	t.Helper()
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return
		}
	}
	t.Fatalf("ended without %q", text)
}

func testUp(t *testing.T, s *shell) {
	dags := t.TempDir()
	up := s.command("tradewind up --time-scale 0.01 --dags " + dags + " -o json")
	stdout, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	await(t, lines, `"dashboard"`)
	if _, errs, code := s.run("tradewind up"); code != 1 || !strings.Contains(errs, "a broker is already running for ") {
		t.Errorf("a second one: exit %d\n%s", code, errs)
	}
	if _, errs, code := s.run("tradewind run examples/fan-out.yaml --time-scale 1"); code != 2 || !strings.Contains(errs, "runs with time scale 0.01, not 1") {
		t.Errorf("another time scale: exit %d\n%s", code, errs)
	}
	id := strings.TrimSpace(s.must("tradewind submit examples/fan-out.yaml"))
	if got := s.must("tradewind logs -f " + id + " total"); !strings.Contains(got, "22 words in all") {
		t.Errorf("log: %q", got)
	}
	if _, errs, code := s.run("tradewind status -w " + id); code != 0 || !strings.Contains(errs, "total: succeeded") {
		t.Errorf("watch: exit %d\n%s", code, errs)
	}
	if err := up.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, stdout)
	if err := up.Wait(); err != nil {
		t.Errorf("up: %v", err)
	}
}
