package api_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// follower reads a job's stream and keeps the received state, like a client.
type follower struct {
	t     *testing.T
	lines *bufio.Scanner
	tasks map[int]apitypes.TaskView
	full  int // number of updates that contained the full state
	id    string
}

func follow(t *testing.T, w *apitest.World, job string) *follower {
	t.Helper()
	return followFrom(t, w, job, "")
}

func followFrom(t *testing.T, w *apitest.World, job, last string) *follower {
	t.Helper()
	res := w.Do("GET", "/v1/jobs/"+job+"/events", "", http.Header{"Authorization": {"Bearer " + apitest.Token}, "Last-Event-Id": {last}})
	if ct := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || ct != "text/event-stream" {
		t.Fatalf("%d %s", res.StatusCode, ct)
	}
	s := bufio.NewScanner(res.Body)
	s.Buffer(nil, 1<<20)
	return &follower{t: t, lines: s, tasks: map[int]apitypes.TaskView{}}
}

// next returns the next event. The event is empty at the end of the stream.
func (f *follower) next() (name, data string) {
	f.t.Helper()
	for f.lines.Scan() {
		line := f.lines.Text()
		switch {
		case strings.HasPrefix(line, "event: "):
			name = strings.TrimPrefix(line, "event: ")
		case strings.HasPrefix(line, "id: "):
			f.id = strings.TrimPrefix(line, "id: ")
		case strings.HasPrefix(line, "data: "):
			data = strings.TrimPrefix(line, "data: ")
		case line == "" && name != "":
			return name, data
		}
	}
	return "", ""
}

// until reads updates until want accepts the job, and returns the last update.
func (f *follower) until(want func(apitypes.JobUpdate) bool) apitypes.JobUpdate {
	f.t.Helper()
	for {
		name, data := f.next()
		if name != apitypes.EventJob {
			f.t.Fatalf("event %q %s", name, data)
		}
		var u apitypes.JobUpdate
		if err := json.Unmarshal([]byte(data), &u); err != nil {
			f.t.Fatal(err)
		}
		if u.Full {
			f.full++
		}
		for _, task := range u.Tasks {
			f.tasks[task.Index] = task
		}
		if want(u) {
			return u
		}
	}
}

func (f *follower) state(task int, state string) func(apitypes.JobUpdate) bool {
	return func(apitypes.JobUpdate) bool { return f.tasks[task].State == state }
}

func TestFollowJobToEnd(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Wide("small", 2))
	f := follow(t, w, job)
	first := f.until(func(apitypes.JobUpdate) bool { return true })
	if !first.Full || len(first.Tasks) != 4 || len(first.Plans) != 1 || len(first.Attempts) != 1 || !first.Now.Equal(w.Clock.Now()) {
		t.Errorf("the first update is not the full state: %+v", first)
	}
	split := w.Node(job, "split", 0).Start()
	u := f.until(f.state(0, "running"))
	if u.Full || len(u.Tasks) != 1 {
		t.Errorf("the change of one task was sent as %d tasks", len(u.Tasks))
	}
	w.Clock.Advance(10 * time.Minute)
	split.Succeed()
	f.until(f.state(1, "launching"))
	for _, name := range []string{"project-0000", "project-0001", "merge"} {
		w.Node(job, name, 0).Start().Succeed()
	}
	f.until(func(u apitypes.JobUpdate) bool { return u.Job.State == apitypes.JobSucceeded })
	name, data := f.next()
	var end apitypes.JobView
	if err := json.Unmarshal([]byte(data), &end); err != nil || name != apitypes.EventEnd {
		t.Fatalf("the last event is %q, %v", name, err)
	}
	if end.State != apitypes.JobSucceeded || end.Succeeded != 4 {
		t.Errorf("end = %+v", end)
	}
	if name, _ := f.next(); name != "" {
		t.Errorf("the stream continues with %q", name)
	}
	if f.full != 1 {
		t.Errorf("the full state was sent %d times", f.full)
	}
}

func TestBrokenStreamCanBeReopened(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Wide("small", 2))
	follow(t, w, job).until(func(apitypes.JobUpdate) bool { return true })
	w.Node(job, "split", 0).Start()
	again := follow(t, w, job)
	again.until(again.state(0, "running"))
	if again.full != 1 || len(again.tasks) != 4 {
		t.Errorf("a reopened stream begins with %d tasks", len(again.tasks))
	}
}

func TestStreamContinuesAfterLastEvent(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Wide("small", 2))
	f := follow(t, w, job)
	f.until(func(apitypes.JobUpdate) bool { return true })
	w.Node(job, "split", 0).Start()
	again := followFrom(t, w, job, f.id)
	if u := again.until(again.state(0, "running")); again.full != 0 || len(again.tasks) != 1 || len(u.Plans) != 0 || len(u.Attempts) != 1 {
		t.Errorf("a resumed stream begins with %+v", u)
	}
	for _, unknown := range []string{"x.1.4", f.id[:strings.Index(f.id, ".")] + ".99.4", "nonsense"} {
		if fresh := followFrom(t, w, job, unknown); !fresh.until(fresh.state(0, "running")).Full {
			t.Errorf("a stream after the unknown event %q does not begin with the full state", unknown)
		}
	}
}

func TestFollowFinishedJobEndsAtOnce(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Wide("small", 2))
	w.Request("DELETE", "/v1/jobs/"+job, "")
	w.Drain()
	f := follow(t, w, job)
	f.until(func(u apitypes.JobUpdate) bool { return u.Job.State == apitypes.JobCancelled })
	if name, _ := f.next(); name != apitypes.EventEnd {
		t.Errorf("then came %q", name)
	}
}

func TestStreamsEndWhenHostStops(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Training())
	w.Node(job, "prepare-a", 0).Start()
	f := follow(t, w, job)
	log := w.Request("GET", "/v1/jobs/"+job+"/tasks/prepare-a/logs?follow=true", "")
	told := w.Do("GET", "/v1/jobs/"+job+"/tasks/prepare-a/logs?follow=true", "",
		http.Header{"Authorization": {"Bearer " + apitest.Token}, "Te": {"trailers"}})
	w.API.Close()
	for name := "x"; name != ""; {
		name, _ = f.next()
	}
	if _, err := io.ReadAll(log.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a truncated log looks complete to a client that reads no trailers: %v", err)
	}
	if _, err := io.ReadAll(told.Body); err != nil || told.Trailer.Get(apitypes.NextHeader) != "1:0" {
		t.Errorf("%v; continue at %q", err, told.Trailer.Get(apitypes.NextHeader))
	}
}
