package api_test

import (
	"bufio"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
)

func TestReadLogFromAnyPosition(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Wide("one", 1))
	node := w.Node(job, "split", 0).Start()
	for _, l := range []string{"alpha", "beta", "gamma"} {
		node.Print(l)
	}
	for query, want := range map[string]string{
		"":                    "alpha\nbeta\ngamma\n",
		"?attempt=1&rank=0":   "alpha\nbeta\ngamma\n",
		"?offset=6":           "beta\ngamma\n",
		"?offset=1000":        "",
		"?tail=6":             "gamma\n",
		"?tail=7":             "gamma\n",
		"?tail=11":            "beta\ngamma\n",
		"?tail=1000":          "alpha\nbeta\ngamma\n",
		"?tail=12&offset=100": "",
		"?lines=1":            "gamma\n",
		"?lines=2":            "beta\ngamma\n",
		"?lines=3":            "alpha\nbeta\ngamma\n",
		"?lines=1000000":      "alpha\nbeta\ngamma\n",
	} {
		res := w.Request("GET", "/v1/jobs/"+job+"/tasks/split/logs"+query, "")
		if got := body(t, res); res.StatusCode != http.StatusOK || got != want {
			t.Errorf("%s: %d %q, want %q", query, res.StatusCode, got, want)
		}
		if ct := res.Header.Get("Content-Type"); ct != "text/plain; charset=utf-8" {
			t.Errorf("content type %q", ct)
		}
	}
	for _, path := range []string{"split/logs?attempt=2", "split/logs?rank=1", "merge/logs", "none/logs", "7/logs"} {
		trouble(t, w.Request("GET", "/v1/jobs/"+job+"/tasks/"+path, ""), http.StatusNotFound)
	}
	for _, path := range []string{"split/logs?attempt=-1", "split/logs?rank=x", "split/logs?follow=perhaps"} {
		trouble(t, w.Request("GET", "/v1/jobs/"+job+"/tasks/"+path, ""), http.StatusUnprocessableEntity)
	}
	if res := w.Request("HEAD", "/v1/jobs/"+job+"/tasks/split/logs?follow=true", ""); res.StatusCode != http.StatusOK {
		t.Errorf("HEAD: %d", res.StatusCode)
	}
}

func TestLastLinesOfLongLog(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Wide("one", 1))
	node := w.Node(job, "split", 0).Start()
	long := strings.Repeat("x", 50_000) // longer than one read
	for _, l := range []string{"first", long, "second", "third"} {
		node.Print(l)
	}
	for query, want := range map[string]string{
		"?lines=2": "second\nthird\n", "?lines=3": long + "\nsecond\nthird\n",
		"?lines=4": "first\n" + long + "\nsecond\nthird\n", "?lines=5": "first\n" + long + "\nsecond\nthird\n",
	} {
		if got := body(t, w.Request("GET", "/v1/jobs/"+job+"/tasks/split/logs"+query, "")); got != want {
			t.Errorf("%s: %d bytes, want %d", query, len(got), len(want))
		}
	}
}

func TestFollowLogAcrossAttempts(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Wide("one", 1))
	first := w.Node(job, "split", 0).Start().Print("first")
	all := w.Request("GET", "/v1/jobs/"+job+"/tasks/split/logs?follow=true", "")
	one := w.Request("GET", "/v1/jobs/"+job+"/tasks/split/logs?follow=true&attempt=1", "")
	early := w.Request("GET", "/v1/jobs/"+job+"/tasks/merge/logs?follow=true", "") // a task that has not been tried yet
	lines := bufio.NewScanner(all.Body)
	if lines.Scan(); lines.Text() != "first" {
		t.Fatalf("line %q", lines.Text())
	}
	first.Print("before it was taken")
	w.Take(job, "split")
	if got := body(t, one); got != "first\nbefore it was taken\n" {
		t.Errorf("the first attempt's log = %q", got)
	}
	w.Node(job, "split", 0).Start().Print("second").Succeed()
	var rest []string
	for lines.Scan() {
		rest = append(rest, lines.Text())
	}
	if got := strings.Join(rest, "|"); got != "before it was taken||== attempt 2 on gcp/us-central1/us-central1-f/c3-standard-8/spot|second" {
		t.Errorf("the log continues with %q", got)
	}
	w.Node(job, "project-0000", 0).Start().Succeed()
	w.Node(job, "merge", 0).Start().Print("merged").Report(wire.Report{Event: wire.Succeeded})
	if got := body(t, early); got != "merged\n" {
		t.Errorf("the log of a task that was followed early = %q", got)
	}
}

// A reader of a task's log was disconnected while attempts began and ended. It must get the log of each attempt that
// has printed something.
func TestReopenedLogSkipsNoAttempt(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Wide("one", 1))
	w.Node(job, "split", 0).Start().Print("first")
	w.Take(job, "split")
	w.Node(job, "split", 0).Start().Print("Traceback: why it fails")
	w.Take(job, "split")
	w.Node(job, "split", 0).Start() // this attempt ends before it prints anything
	w.Take(job, "split")
	w.Node(job, "split", 0).Start().Print("fourth").Succeed()
	got := body(t, w.Request("GET", "/v1/jobs/"+job+"/tasks/split/logs?follow=true&after=1:6", ""))
	got = regexp.MustCompile(` on \S+`).ReplaceAllString(got, "")
	if want := "\n== attempt 2\nTraceback: why it fails\n\n== attempt 4\nfourth\n"; got != want {
		t.Errorf("after the first attempt: %q, want %q", got, want)
	}
}
