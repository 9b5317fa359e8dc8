package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/proc"
)

// resident is a machine of a pool: the process of `tradewind pool join`.
type resident struct {
	cmd  *exec.Cmd
	errs bytes.Buffer
	dir  string
}

// join joins a machine to the pool lab, and returns when it has joined.
func (s *shell) join(name string) *resident {
	s.t.Helper()
	r := &resident{cmd: s.command("tradewind pool join lab --name " + name + " --cpus 2 --memory 8 --gpu none -o json")}
	r.cmd.Stderr = &r.errs
	stdout, err := r.cmd.StdoutPipe()
	if err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { // if the test fails early
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		_, _ = r.killAgents()
	})
	var joined struct{ Machine, Dir string }
	if err := json.NewDecoder(stdout).Decode(&joined); err != nil || joined.Machine != name {
		_, _ = io.Copy(io.Discard, stdout)
		_ = r.cmd.Wait()
		s.t.Fatalf("%s did not join: %v\n%s", name, err, r.errs.String())
	}
	r.dir = joined.Dir
	return r
}

// leave interrupts the machine, which must leave cleanly.
func (r *resident) leave(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("it left with %v\n%s", err, r.errs.String())
	}
}

// die ends the machine suddenly, with its agents and their tasks.
func (r *resident) die(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = r.cmd.Wait()
	if n, err := r.killAgents(); n == 0 || err != nil {
		t.Fatalf("%d agents were at work in %s: %v", n, r.dir, err)
	}
}

// killAgents kills the machine's agents and returns their number. Their supervisors kill the tasks.
func (r *resident) killAgents() (n int, err error) {
	if r.dir == "" {
		return 0, nil
	}
	files, err := filepath.Glob(filepath.Join(r.dir, "agents", "clusters", "*", "*", "identity"))
	for _, file := range files {
		var id proc.Identity
		body, e := os.ReadFile(file)
		if e == nil {
			e = json.Unmarshal(body, &id)
		}
		if e == nil {
			e = id.Signal(syscall.SIGKILL)
		}
		err = errors.Join(err, e)
		n++
	}
	return n, err
}

// poolState is the part of `pool list -o json` that this test needs.
type poolState struct {
	Pools []struct {
		Name     string
		Machines []struct {
			ID, State string
			Tasks     []struct{ Task string }
		}
	}
}

// machine returns the state of a machine of the first pool, and its tasks.
func (p poolState) machine(id string) (state, tasks string) {
	for _, pool := range p.Pools {
		for _, m := range pool.Machines {
			if m.ID != id {
				continue
			}
			for _, x := range m.Tasks {
				tasks += x.Task
			}
			return m.State, tasks
		}
	}
	return "", ""
}

func (s *shell) pools() (p poolState) {
	s.t.Helper()
	out := s.must("tradewind pool list -o json")
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	return p
}

// until polls until ok, for at most a minute.
func (s *shell) until(what string, ok func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("not in time: %s\n%s", what, s.must("tradewind pool list")+s.must("tradewind explain last"))
		}
	}
}

// jobState is the part of `status JOB -o json` that this test needs.
type jobState struct {
	State    string
	SpentUSD float64
	Attempts []struct {
		Outcome, OfferID, ResumedFrom string
		Hosts                         []string
	}
}

func (s *shell) job(id string) (j jobState) {
	s.t.Helper()
	out := s.must("tradewind status -o json " + id)
	if err := json.Unmarshal([]byte(out), &j); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	return j
}

func testPool(t *testing.T, s *shell) {
	up := s.command("tradewind up --time-scale 0.001 -o json")
	stdout, err := up.StdoutPipe()
	if err == nil {
		err = up.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // if the test fails early: it stops what it started
		if up.Process.Signal(syscall.SIGINT) == nil {
			_ = up.Wait()
		}
	})
	var ready struct{ URL string }
	if err := json.NewDecoder(stdout).Decode(&ready); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := s.run("tradewind pool join lab"); code != 1 && code != 2 || !strings.Contains(errs, "there is no pool lab") {
		t.Errorf("joining a pool that is not there: exit %d\n%s", code, errs)
	}
	var added struct {
		Join struct{ Command, TokenFile string }
	}
	if err := json.Unmarshal([]byte(s.must("tradewind pool add lab --place aws:us-east-1 -o json")), &added); err != nil || !strings.HasPrefix(added.Join.Command, "tradewind pool join lab") {
		t.Fatalf("%v: %+v", err, added)
	}
	if info, err := os.Stat(added.Join.TokenFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token: %v, %v", info, err)
	}
	machines := map[string]*resident{"m1": s.join("m1"), "m2": s.join("m2")}
	id := strings.TrimSpace(s.must("tradewind submit examples/pool.yaml"))
	first, second := "", ""
	s.until("a checkpoint of the task on a machine", func() bool {
		for name := range machines {
			if _, tasks := s.pools().machine(name); tasks == "count" {
				first = name
			}
		}
		saved, _ := filepath.Glob(filepath.Join(strings.TrimPrefix(s.env[len(s.env)-1], "TRADEWIND_STATE="), "objects", id, "count", "ckpt", "000003-*"))
		return first != "" && len(saved) > 0
	})
	machines[first].die(t)
	for name := range machines {
		if name != first {
			second = name
		}
	}
	s.until("the job's end", func() bool { return s.job(id).State == "succeeded" })
	j := s.job(id)
	if len(j.Attempts) != 2 || j.Attempts[0].Outcome != "lost" || j.Attempts[1].ResumedFrom == "" || j.SpentUSD != 0 {
		t.Errorf("%+v", j)
	}
	if at := j.Attempts[len(j.Attempts)-1]; len(at.Hosts) != 1 || at.Hosts[0] != second {
		t.Errorf("it was resumed on %v, not on %s, for %v USD", at.Hosts, second, j.SpentUSD)
	}
	if log := s.must("tradewind logs last"); !strings.Contains(log, "counted to 40") || strings.Contains(log, "from 0\ncounted") {
		t.Errorf("log: %s", log)
	}
	s.must("tradewind pool drain lab " + second)
	if state, _ := s.pools().machine(second); state != "drained" {
		t.Errorf("%s is %q", second, state)
	}
	if state, _ := s.pools().machine(first); state != "lost" {
		t.Errorf("%s is %q", first, state)
	}
	machines[second].leave(t)
	s.until("its machine has left", func() bool { state, _ := s.pools().machine(second); return state == "" })
	s.must("tradewind pool remove lab")
	if err := up.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, stdout)
	if err := up.Wait(); err != nil {
		t.Errorf("up: %v", err)
	}
}
