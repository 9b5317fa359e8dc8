package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// badData are mistakes in the data of a job: a function that creates each in the folder of the job file, and the
// expected messages. Each message must name file, line and field, and nothing may be submitted.
var badData = []struct {
	name string
	make func(dir string) error
	task string // additional fields of the task
	says []string
}{
	{"a path that is not there", nil, "workdir: code",
		[]string{`job.yaml:5:14: tasks.a.workdir: "code": there is no `, "hint: paths begin at "}},
	{"a file for a folder", func(d string) error { return os.WriteFile(d+"/code", nil, 0o600) }, "workdir: code",
		[]string{`job.yaml:5:14: tasks.a.workdir: "code" is a file, not a folder`, "put the file into inputs"}},
	{"a link that leads out", func(d string) error { return os.Symlink("/etc/passwd", mkdir(d)+"/pw") }, "workdir: code",
		[]string{"job.yaml:5:14: ", "code/pw cannot be packed: it is a link out of ", "to /etc/passwd", ".tradewindignore"}},
	{"a name that is no UTF-8", func(d string) error { return os.WriteFile(mkdir(d)+"/\xff", nil, 0o600) }, "workdir: code",
		[]string{"job.yaml:5:14: ", `"\xff" cannot be packed: its name is not UTF-8; rename it`}},
	{"a bucket without a name", nil, `inputs: ["s3:///x"]`,
		[]string{`job.yaml:5:14: tasks.a.inputs[0]: "s3:///x" cannot be read`, "the bucket is missing", "name a bucket"}},
	{"a bucket that nobody has logged in for", nil, `inputs: ["s3://a-bucket-nobody-may-read/x"]`,
		[]string{"job.yaml:5:14: tasks.a.inputs[0]: ", "cannot be read", "no valid credentials", "aws configure"}},
	{"code in such a bucket", nil, `workdir: "s3://a-bucket-nobody-may-read/code"`,
		[]string{"job.yaml:5:14: tasks.a.workdir: ", "cannot be read", "no valid credentials"}},
	{"two inputs of one name", nil, `inputs: ["s3://a/train.csv", "s3://b/train.csv"]`,
		[]string{"job.yaml:5:", "tasks.a.inputs[1]: has the same path as "}},
	{"a mount over the folder", nil, `inputs: [{uri: "file:///tmp", path: ., mount: true}]`,
		[]string{"job.yaml:5:14: tasks.a.inputs[0].path: ", "over the task's working folder", "its own folder"}},
	{"a mount above the folder", nil, `inputs: [{uri: "file:///tmp", path: ../.., mount: true}]`,
		[]string{"job.yaml:5:", "tasks.a.inputs[0].path: ", "leaves the task's directory"}},
	{"two mounts at one path", nil,
		`inputs: [{uri: "file:///tmp", path: m, mount: true}, {uri: "file:///opt", path: m/, mount: true}]`,
		[]string{"job.yaml:5:", "tasks.a.inputs[1]: has the same path as ", "its own path"}},
}

// mkdir creates the folder of code.
func mkdir(dir string) string {
	_ = os.Mkdir(dir+"/code", 0o755) // otherwise writing into the folder fails
	return dir + "/code"
}

// job writes a job file with one task, and returns its path.
func job(t *testing.T, dir, fields, run string) string {
	t.Helper()
	p := filepath.Join(dir, "job.yaml")
	body := fmt.Sprintf("apiVersion: tradewind/v1\nname: bad\ntasks:\n  a:\n    %s\n    run: '%s'\n    time: 1m\n", fields, run)
	if err := os.WriteFile(p, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// testBadData submits jobs with invalid data, and jobs with unusual but valid names.
func testBadData(t *testing.T, s *shell) {
	s.env = append(s.env, "AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/nonexistent", "AWS_PROFILE=",
		"AWS_SHARED_CREDENTIALS_FILE=/nonexistent", "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=")
	for _, c := range badData {
		dir := t.TempDir()
		if c.make != nil {
			if err := c.make(dir); err != nil {
				if runtime.GOOS != "linux" {
					continue // some systems do not allow such names
				}
				t.Fatal(err)
			}
		}
		_, errs, code := s.run("tradewind run " + job(t, dir, c.task, "ls"))
		for _, want := range c.says {
			if code != 2 || !strings.Contains(errs, want) {
				t.Errorf("%s: exit %d, without %q:\n%s", c.name, code, want, errs)
			}
		}
		if strings.Contains(errs, "SDK 2") {
			t.Errorf("%s: a library speaks up:\n%s", c.name, errs)
		}
		if strings.Contains(errs, "submitted") {
			t.Errorf("%s: a job was submitted:\n%s", c.name, errs)
		}
	}
	dir := t.TempDir()
	for _, name := range []string{"new\nline", "\x1b[31mred", "-rf", `a\b`, strings.Repeat("n", 255)} {
		if err := os.WriteFile(filepath.Join(mkdir(dir), name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.must("tradewind run " + job(t, dir, "workdir: code", "cat ./* | wc -c; ls | grep -c nnnn"))
	if got := strings.Fields(s.must("tradewind logs last")); strings.Join(got, " ") != "5 1" {
		t.Errorf("of odd names the task saw %q", got)
	}
}

// noise fills a file with data that cannot be compressed.
func noise(t *testing.T, file string, bytes int) {
	t.Helper()
	body := make([]byte, bytes)
	for i, r := 0, rand.New(rand.NewPCG(1, 2)); i < bytes; i++ {
		body[i] = byte(r.Uint32())
	}
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
}

// testFullDisk fills the broker's disk at four times: while code is packed, while a task's code is unpacked, while
// the task writes, and while its outputs are stored. Each time the error must be reported, the job must end, and its
// data must be removed.
func testFullDisk(t *testing.T, s *shell) {
	disk := t.TempDir()
	mounted := exec.Command("mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", disk)
	if out, err := mounted.CombinedOutput(); err != nil {
		t.Skipf("no small disk can be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", disk).Run() })
	dir := t.TempDir()
	const full, output = "no space left on device", "$TRADEWIND_OUTPUT/big"
	for i, c := range []struct {
		name string
		code int // size of the folder of code in bytes
		run  string
		says []string
		exit int
	}{
		{"packing", 20 << 20, "ls", []string{"job.yaml:5:14: tasks.a.workdir: ", "no space is left in the broker", "hint: free some"}, 2},
		{"unpacking", 7 << 20, "ls", []string{"failed for good: stage: workdir: ", "needs 7.0 MiB but only ", full}, 1},
		{"writing", 1, "head -c 17000000 /dev/urandom >" + output, []string{"failed for good: exit code 1: head: "}, 1},
		// The machine uses the same disk. If the previous machine has not ended yet, the last attempt fails while it
		// writes.
		{"keeping outputs", 1, "head -c 7000000 /dev/urandom >" + output, []string{"outputs: write big: ", "507 ", "failed for good: "}, 1},
		{"and then nothing", 1, "true", []string{"a: succeeded"}, 0},
	} {
		noise(t, mkdir(dir)+"/big", c.code)
		state := filepath.Join(disk, "state"+fmt.Sprint(max(i-1, 1)))
		_, errs, code := s.run("tradewind run --state " + state + " " + job(t, dir, "workdir: code", c.run))
		for _, want := range c.says {
			if code != c.exit || !strings.Contains(errs, want) {
				t.Errorf("%s: exit %d, without %q:\n%s", c.name, code, want, errs)
			}
		}
		if i < 2 { // the packs stay for the next attempt
			_ = os.RemoveAll(state)
		}
		var fs syscall.Statfs_t
		if err := syscall.Statfs(disk, &fs); err != nil || fs.Bfree*uint64(fs.Bsize) < 10<<20 {
			t.Errorf("%s: %d bytes are free (%v)", c.name, fs.Bfree*uint64(fs.Bsize), err)
		}
	}
}

var uploaded = regexp.MustCompile(`packed code: 1 file, 96\.0 MiB; (\S+) MiB uploaded`)

// testInterruptedUpload interrupts submit during the upload and submits the job again. No data may be sent twice, no
// partial object may remain, and there must be one job.
func testInterruptedUpload(t *testing.T, s *shell) {
	up := s.command("tradewind up")
	said, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, bufio.NewScanner(said), "stop ")
	dir := t.TempDir()
	noise(t, mkdir(dir)+"/big", 96<<20)
	file := job(t, dir, "workdir: code", "ls")
	first := s.command("tradewind submit " + file)
	var told strings.Builder
	first.Stderr = &told
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	packs := filepath.Join(s.state, "objects", "packs")
	gone := make(chan error, 1)
	go func() { gone <- first.Wait() }()
	for arrived := 0; arrived == 0; runtime.Gosched() {
		select {
		case err := <-gone:
			t.Fatalf("it ended by itself: %v", err)
		default:
		}
		found, _ := os.ReadDir(packs)
		arrived = len(found)
	}
	if err := first.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-gone
	if code := first.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit %d", code)
	}
	if !strings.Contains(told.String(), "nothing was submitted") {
		t.Errorf("it says %q", told.String())
	}
	if jobs := s.must("tradewind status -o json"); strings.Contains(jobs, `"id"`) {
		t.Errorf("there is a job: %s", jobs)
	}
	_, errs, code := s.run("tradewind submit " + file)
	if m := uploaded.FindStringSubmatch(errs); code != 0 || m == nil || m[1] == "96.0" {
		t.Errorf("exit %d:\n%s", code, errs)
	}
	if left, _ := filepath.Glob(filepath.Join(s.state, "objects", ".uploads", "tmp", "*")); len(left) > 0 {
		t.Errorf("half objects are left: %q", left)
	}
	if err := up.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = up.Wait()
}
