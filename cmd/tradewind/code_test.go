package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// testCode runs jobs with a folder of code twice, and jobs with a repository.
func testCode(t *testing.T, s *shell) {
	dir := t.TempDir()
	put := func(name, content string) {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put("job.yaml", `apiVersion: tradewind/v1
name: bring
tasks:
  both:
    nodes: 2
    workdir: code
    inputs: [{uri: data.csv}, {uri: data.csv, path: tables/}]
    run: 'find . | sort | tr "\n" " "; ./main.sh $TRADEWIND_INPUTS/data.csv tables/data.csv; echo changed >main.sh'
    time: 1m
`)
	put("code/main.sh", "#!/bin/sh\ncat $*\n")
	put("code/.gitignore", "*.pyc\n")
	put("code/cache.pyc", "x")
	put("data.csv", "1,2\n")
	for _, link := range []struct{ name, to string }{{"absolute", filepath.Join(dir, "code", "main.sh")}, {"link", "main.sh"}} {
		if err := os.Symlink(link.to, filepath.Join(dir, "code", link.name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "code", "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	const want = ". ./.gitignore ./absolute ./empty ./link ./main.sh ./tables ./tables/data.csv 1,2\n1,2\n"
	run := func(packed string) {
		t.Helper()
		_, errs, code := s.run("tradewind run " + filepath.Join(dir, "job.yaml"))
		if code != 0 || !strings.Contains(errs, packed) {
			t.Fatalf("exit %d, without %q:\n%s", code, packed, errs)
		}
		for _, rank := range []string{"0", "1"} {
			if got := s.must("tradewind logs last both --rank " + rank); got != want {
				t.Errorf("rank %s printed %q", rank, got)
			}
		}
	}
	run("packed code: 4 files, 23 B; ")
	run("packed code: 4 files, 23 B; nothing to upload\n")

	// The submitted job contains packs. An error in it must still have the line of the file.
	put("mount.yaml", `# A remark that the broker
# does not see.
name: bring
workdir: `+dir+`/code
run: ls
file_mounts:
  data: {source: "file:///tmp", mode: MOUNT}
`)
	s.env = append(s.env, "TRADEWIND_RCLONE=/none")
	mount := filepath.Join(dir, "mount.yaml")
	_, refused, code := s.run("tradewind run " + mount)
	if want := mount + ":7:9: file_mounts.data: \"file:///tmp\" cannot be mounted on this computer: "; code != 2 ||
		!strings.Contains(refused, want) {
		t.Errorf("exit %d without %q:\n%s", code, want, refused)
	}

	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	put("repository/hello.sh", "echo hello from a repository\n")
	git := "git -C " + filepath.Join(dir, "repository") + " -c user.name=a -c user.email=a@b "
	s.must(git + "init -q")
	s.must(git + "add .")
	s.must(git + "commit -q -m first")
	put("git.yaml", "workdir: {url: "+filepath.Join(dir, "repository")+"}\nrun: ls -A; sh hello.sh\n")
	s.must("tradewind run " + filepath.Join(dir, "git.yaml"))
	if got := s.must("tradewind logs last"); got != "hello.sh\nhello from a repository\n" {
		t.Errorf("the repository's task printed %q", got)
	}
	put("git.yaml", "workdir: {url: "+filepath.Join(dir, "repository")+", ref: nope}\nrun: ls\n")
	_, errs, code := s.run("tradewind run " + filepath.Join(dir, "git.yaml"))
	if code != 2 || !strings.Contains(errs, "git.yaml:1:10: workdir: ") ||
		!strings.Contains(errs, "couldn't find remote ref nope") {
		t.Errorf("exit %d:\n%s", code, errs)
	}
}
