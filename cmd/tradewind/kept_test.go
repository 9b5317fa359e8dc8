package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The machine of a failed task is kept. It must be possible to inspect the task's files, and cancelling must release
// the machine.
func TestMachineOfFailedTaskIsKept(t *testing.T) {
	s := build(t).in(t)
	file := filepath.Join(t.TempDir(), "failing.yaml")
	const failing = "apiVersion: tradewind/v1\nname: failing\ntasks:\n  t: {run: echo so far >note; exit 3, time: 1m, resources: {cpus: 1}}\n"
	if err := os.WriteFile(file, []byte(failing), 0o600); err != nil {
		t.Fatal(err)
	}
	s.serves("tradewind up --time-scale 1")
	for flag, want := range map[string]string{
		"--keep-on-failure 25h": "more than 24h",
		"--keep-on-failure -1h": "--keep-on-failure",
		"--keep-on-failure now": "--keep-on-failure",
	} {
		if _, errs, code := s.run("tradewind submit " + flag + " " + file); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: %d %s", flag, code, errs)
		}
	}
	s.must("tradewind submit --keep-on-failure 1h " + file)
	s.must("sh -c 'until tradewind status last -o json | grep -q keptUntil; do sleep 0.1; done'")
	if said := s.must("tradewind exec last t -- cat note"); said != "so far\n" {
		t.Errorf("it has left %q", said)
	}
	if said := s.must("tradewind status last"); !strings.Contains(said, "failed, kept ") || !strings.Contains(said, "ending") {
		t.Errorf("its status:\n%s", said)
	}
	s.must("tradewind cancel last")
	s.must(`sh -c 'until tradewind status last -o json | grep -q "\"state\": \"failed\",$"; do sleep 0.1; done'`)
	s.must(`sh -c 'until tradewind status last | grep -q "^failing-[a-z0-9]*  failed"; do sleep 0.1; done'`)
	if _, errs, code := s.run("tradewind exec last t -- true"); code != 1 || !strings.Contains(errs, "does not run") {
		t.Errorf("a machine that is no longer kept: %d %s", code, errs)
	}
	if story := s.must("tradewind explain last"); !strings.Contains(story, "are kept for inspection") {
		t.Errorf("its story:\n%s", story)
	}

	// While the task waits for its retry, exec must reach the kept machine.
	s.must("tradewind queue set narrow --max-running 1")
	again := strings.Replace(failing, "exit 3,", "exit 3, retries: 1,", 1)
	if err := os.WriteFile(file, []byte(again), 0o600); err != nil {
		t.Fatal(err)
	}
	s.must("tradewind submit --keep-on-failure 1h --queue narrow " + file)
	s.must("sh -c 'until tradewind status last -o json | grep -q keptUntil; do sleep 0.1; done'")
	s.must(`sh -c 'until tradewind status last | grep -q "running"; do sleep 0.1; done'`)
	if said := s.must("tradewind exec last t -- cat note"); said != "so far\n" {
		t.Errorf("the first attempt has left %q", said)
	}
	s.must("tradewind cancel last")
}
