package main

import (
	"bytes"
	"crypto/rand"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const visited = `apiVersion: tradewind/v1
name: visited
tasks:
  t: {run: "touch here; while [ ! -e done ]; do sleep 0.05; done", time: 10m, env: {COLOUR: blue}, secrets: [WORD]}
  later: {run: "true", after: [t], time: 1m}
`

// A user can run a command next to a task, in its folder and with its variables, and gets the exit code. The job's
// history must record the command without the job's secrets. A command on a finished task must be refused.
func TestExecRunsNextToTask(t *testing.T) {
	s := build(t).in(t)
	file := filepath.Join(t.TempDir(), "visited.yaml")
	if err := os.WriteFile(file, []byte(visited), 0o600); err != nil {
		t.Fatal(err)
	}
	s.serves("tradewind up --time-scale 1")
	s.env = append(s.env, "WORD=sesame-opens-1234")
	s.must("tradewind submit --secret WORD " + file)
	s.must("sh -c 'until tradewind exec last t -- test -e here 2>/dev/null; do sleep 0.1; done'")

	said, errs, code := s.run(`sh -c 'echo hello | tradewind exec last t -- sh -c "cat; ls; echo \$COLOUR; echo wrong >&2; exit 7"'`)
	if said != "hello\nhere\nblue\n" || errs != "wrong\n" || code != 7 {
		t.Errorf("it says %q and %q and ends with %d", said, errs, code)
	}
	large := make([]byte, 1<<20)
	_, _ = rand.Read(large)
	cmd := s.command("tradewind exec last t -- cat")
	cmd.Stdin = bytes.NewReader(large)
	if back, err := cmd.Output(); err != nil || !bytes.Equal(back, large) {
		t.Errorf("of %d bytes %d come back: %v", len(large), len(back), err)
	}
	_, err := exec.LookPath("ssh")
	ssh := err == nil // scripts/packages.sh installs it if it can
	if ssh {
		testSSH(t, s, large)
	} else {
		t.Log("without ssh, which is not installed")
	}
	s.must("tradewind exec last t -- echo sesame-opens-1234")
	if _, errs, code := s.run("tradewind exec last t --rank 3 -- true"); code != 1 || !strings.Contains(errs, "no rank 3") {
		t.Errorf("a rank that is not there: %d %s", code, errs)
	}
	if _, errs, code := s.run("tradewind exec last nope -- true"); code != 2 || !strings.Contains(errs, `no task "nope"`) {
		t.Errorf("a task that is not there: %d %s", code, errs)
	}
	if _, errs, code := s.run("tradewind exec last later -- true"); code != 1 || !strings.Contains(errs, "has not been tried yet: it waits for other tasks") {
		t.Errorf("a task that waits: %d %s", code, errs)
	}
	s.must("tradewind exec last t -- touch done")
	s.must("sh -c 'until tradewind status last -o json | grep -q succeeded; do sleep 0.1; done'")
	// An agent may accept a visit until it learns that the attempt has ended.
	refused := func(why string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			_, errs, code := s.run("tradewind exec last t -- true")
			if code == 1 && strings.Contains(errs, why) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("not refused with %q: %d %s", why, code, errs)
			}
		}
	}
	refused("does not run")
	if ssh {
		entry := filepath.Join(t.TempDir(), "config")
		s.must("tradewind ssh-config last t --host box >" + entry)
		if _, errs, code := s.run("ssh -F " + entry + " box true"); code != 255 || !strings.Contains(errs, "does not run") {
			t.Errorf("a task that is over, by ssh: %d %s", code, errs)
		}
	}
	story := s.must("tradewind explain last -o json")
	for _, want := range []string{`"kind": "visited"`, "exec of `cat` on attempt 1; ended after", "exit code 7"} {
		if !strings.Contains(story, want) {
			t.Errorf("the story lacks %q:\n%s", want, story)
		}
	}
	if strings.Contains(story, "sesame-opens-1234") {
		t.Error("the story has a secret")
	}
	endless := "apiVersion: tradewind/v1\nname: c\ntasks: {t: {run: sleep 600, time: 5m}}\n"
	if err := os.WriteFile(file, []byte(endless), 0o600); err != nil {
		t.Fatal(err)
	}
	s.must("tradewind submit " + file)
	s.must("sh -c 'until tradewind exec last t -- true 2>/dev/null; do sleep 0.1; done'")
	s.must("tradewind cancel last")
	refused("it is cancelled")
}

// testSSH reaches the task with OpenSSH's own programs and the entry that ssh-config prints.
func testSSH(t *testing.T, s *shell, large []byte) {
	dir := t.TempDir()
	config := filepath.Join(dir, "config")
	s.must("tradewind ssh-config last t --host box >" + config)
	ssh := "ssh -F " + config + " "

	said, errs, code := s.run(ssh + `box 'ls; echo $COLOUR; echo wrong >&2; exit 7'`)
	if said != "here\nblue\n" || errs != "wrong\n" || code != 7 {
		t.Errorf("it says %q and %q and ends with %d", said, errs, code)
	}
	cmd := s.command(ssh + "box cat")
	cmd.Stdin = bytes.NewReader(large)
	if back, err := cmd.Output(); err != nil || !bytes.Equal(back, large) {
		t.Errorf("of %d bytes %d come back: %v", len(large), len(back), err)
	}
	if said, _, _ := s.run(ssh + "-tt box 'tty; stty size; exit 3' </dev/null"); !strings.Contains(said, "/dev/pts/") {
		t.Errorf("on a terminal it says %q", said)
	}
	if said := s.must("echo 'echo so it goes' | " + ssh + "box"); said != "so it goes\n" {
		t.Errorf("a script says %q", said)
	}
	// scp by SFTP, if the machine has it, and with scp's own protocol.
	here := filepath.Join(dir, "large")
	if err := os.WriteFile(here, large, 0o600); err != nil {
		t.Fatal(err)
	}
	hows := []string{"-O", ""}
	if _, err := os.Stat("/usr/lib/openssh/sftp-server"); err != nil {
		hows = hows[:1]
	}
	for _, how := range hows {
		s.must("scp " + how + " -q -F " + config + " " + here + " box:copied")
		s.must("scp " + how + " -q -F " + config + " box:copied " + here + ".back")
		if back, err := os.ReadFile(here + ".back"); err != nil || !bytes.Equal(back, large) {
			t.Errorf("scp %s: of %d bytes %d come back: %v", how, len(large), len(back), err)
		}
		s.must(ssh + "box rm copied")
	}
	// A port of the machine can be forwarded, but not one of another host.
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a notebook\n")) }))
	defer web.Close()
	_, port, _ := net.SplitHostPort(web.Listener.Addr().String())
	get := "'GET / HTTP/1.0\\r\\n\\r\\n'"
	if said := s.must("sh -c \"printf " + get + " | " + ssh + "-W localhost:" + port + " box\""); !strings.Contains(said, "a notebook") {
		t.Errorf("port %s says %q", port, said)
	}
	if _, errs, code := s.run(ssh + "-W example.org:80 box </dev/null"); code == 0 {
		t.Errorf("a port beyond: %d %s", code, errs)
	}
	if _, errs, code := s.run("tradewind ssh-config last nope"); code != 2 || !strings.Contains(errs, `no task "nope"`) {
		t.Errorf("a task that is not there: %d %s", code, errs)
	}
}
