package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/skytest"
)

// TestSkyPilotFileRuns runs a file with a work directory, mounts in all modes, new buckets, a container, variables and a
// secret with the one-process broker, from a shell in the file's folder.
func TestSkyPilotFileRuns(t *testing.T) {
	s := build(t).in(t)
	world := skytest.New(t)
	s.dir = skytest.Folder(t)
	s.env = append(s.env, world.S3()...)
	s.env = append(s.env, world.Machine()...)
	s.env = append(s.env, world.RcloneVariable(), "AWS_REGION=us-east-1", "TRADEWIND_MOUNTS_ROLE="+skytest.Role,
		skytest.Secret+"="+skytest.Token)
	_, errs, code := s.run("tradewind run " + skytest.File + " --time-scale 0.01 --secret " + skytest.Secret +
		" --env " + skytest.Variable)
	if code != 0 {
		t.Fatalf("exit %d:\n%s\n%s", code, errs, s.must("tradewind logs last"))
	}
	if got := s.must("tradewind logs last"); !strings.HasSuffix(got, skytest.Log) {
		t.Errorf("the log ends otherwise:\n%s\nwant\n%s", got, skytest.Log)
	}
	world.CheckBuckets()
	world.AwaitGone()
	if left := s.left(); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}
	var job struct{ ID string }
	if err := json.Unmarshal([]byte(s.must("tradewind status last -o json")), &job); err != nil || job.ID == "" {
		t.Fatalf("%+v: %v", job, err)
	}
	own := "name=tradewind-" + job.ID
	if out, err := exec.Command("podman", "ps", "--all", "--quiet", "--filter",
		own).Output(); err != nil || len(out) > 0 { //nolint:gosec // this job's
		t.Errorf("containers are left: %s %v", out, err)
	}
	hides(t, s.state, skytest.Token)
}

// hides checks that no file of a folder contains a secret.
func hides(t *testing.T, dir, secret string) {
	t.Helper()
	seen := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		body, err := os.ReadFile(path)
		if seen++; strings.Contains(string(body), secret) {
			t.Errorf("%s holds the secret", path)
		}
		return err
	})
	if err != nil || seen == 0 {
		t.Errorf("%d files, %v", seen, err)
	}
}
