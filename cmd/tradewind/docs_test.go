package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// fence matches a block of commands on a page, and shown matches a block with a file. Each match includes the HTML
// comment before the block.
var (
	fence = regexp.MustCompile("(?s)(<!--[^>]*-->\n)?```(?:sh|bash)\n(.*?)```")
	shown = regexp.MustCompile("(?s)<!-- file: (\\S+) -->\n```\\w+\n(.*?)```")
)

// long is a job that is still running when the commands of a page use it.
const long = "apiVersion: tradewind/v1\nname: long\ntasks: {wait: {run: sleep 600, time: 1h}}\n"

// testPages runs the blocks that pages mark as run, in a folder with the files that the page shows. If the page asks
// for it, a broker with a running job runs at the same time.
func testPages(t *testing.T, s *shell) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, page := range pages {
		body, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(body), "\n<!-- run") {
			t.Run(filepath.Base(page), func(t *testing.T) { ran += testPage(t, s.in(t), string(body)) })
		}
	}
	if ran < 7 {
		t.Errorf("%d blocks were run", ran)
	}
}

func testPage(t *testing.T, s *shell, page string) (ran int) {
	s.dir = t.TempDir()
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for path, target := range map[string]string{"examples": repository + "/examples", "bin/tradewind": s.program} {
		path = filepath.Join(s.dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.Symlink(target, path)); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range append(shown.FindAllStringSubmatch(page, -1), []string{"", "long.yaml", long}) {
		if err := os.WriteFile(filepath.Join(s.dir, file[1]), []byte(file[2]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(page, "<!-- run with a broker -->\n") {
		broker := s.command("tradewind up --addr 127.0.0.1:0")
		told, err := broker.StdoutPipe()
		if err == nil {
			err = broker.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		await(t, bufio.NewScanner(told), "http://127.0.0.1:")
		go io.Copy(io.Discard, told) //nolint:errcheck // keeps the broker from blocking on its output
		id := ""
		defer func() {
			s.must("tradewind cancel " + id)
			if err := errors.Join(broker.Process.Signal(syscall.SIGINT), broker.Wait()); err != nil {
				t.Error(err)
			}
		}()
		id = strings.TrimSpace(s.must("tradewind submit long.yaml"))
	}
	for _, block := range fence.FindAllStringSubmatch(page, -1) {
		if strings.HasPrefix(block[1], "<!-- run") {
			s.must("sh -e -c '" + strings.ReplaceAll(block[2], "'", `'\''`) + "'")
			ran++
		}
	}
	return ran
}

// testDocs runs every command of the first page for users, unchanged, in a separate folder. A block that is not run
// must have a comment with the reason.
func testDocs(t *testing.T, s *shell) {
	page, err := os.ReadFile("../../docs/first-ten-minutes.md")
	if err != nil {
		t.Fatal(err)
	}
	s.dir = t.TempDir()
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(examples, filepath.Join(s.dir, "examples")); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, block := range fence.FindAllStringSubmatch(string(page), -1) {
		if strings.HasPrefix(block[1], "<!-- not run: ") {
			continue
		}
		script := filepath.Join(t.TempDir(), "block.sh")
		if err := os.WriteFile(script, []byte(block[2]), 0o600); err != nil {
			t.Fatal(err)
		}
		out := s.must("sh -e " + script)
		if strings.TrimSpace(out) == "" {
			t.Errorf("prints nothing:\n%s", block[2])
		}
		ran++
	}
	if ran < 5 {
		t.Errorf("%d blocks were run", ran)
	}
	if got := s.must("tradewind logs last shout"); !strings.HasPrefix(got, "HELLO FROM ") {
		t.Errorf("its log: %q", got)
	}
}
