package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
)

func TestLogSinceTimeWithTimestamps(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Wide("one", 1))
	nine := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	long := strings.Repeat("x", 50_000) // longer than one read
	node := w.Node(job, "split", 0).Start()
	node.PrintAt("alpha", nine).PrintAt("beta\nbeta", nine.Add(1500*time.Millisecond)).PrintAt(long, nine.Add(time.Minute))
	node.Print("with the line before").PrintAt("gamma", nine.Add(time.Hour))
	const a, b, c, d = "2026-11-28T09:00:00.000Z ", "2026-11-28T09:00:01.500Z ", "2026-11-28T09:01:00.000Z ", "2026-11-28T10:00:00.000Z "
	for query, want := range map[string]string{
		"timestamps=true":                            a + "alpha\n" + b + "beta\n" + b + "beta\n" + c + long + "\n" + c + "with the line before\n" + d + "gamma\n",
		"timestamps=true&lines=2":                    c + "with the line before\n" + d + "gamma\n",
		"timestamps=true&offset=8":                   "ta\n" + b + "beta\n" + c + long + "\n" + c + "with the line before\n" + d + "gamma\n",
		"timestamps=true&tail=7":                     d + "gamma\n",
		"since=2026-11-28T09:00:00Z&lines=1":         "gamma\n",
		"since=2026-11-28T09:00:01.5Z&lines=100":     "beta\nbeta\n" + long + "\nwith the line before\ngamma\n",
		"since=2026-11-28T09:00:01.6Z":               long + "\nwith the line before\ngamma\n",
		"since=2026-11-28T10:02:00%2B01:00":          "gamma\n",
		"since=2026-11-28T10:00:00Z&timestamps=true": d + "gamma\n",
		"since=2026-11-28T10:00:01Z":                 "",
		"since=2026-11-28T10:00:01Z&after=1:6":       "beta\nbeta\n" + long + "\nwith the line before\ngamma\n",
	} {
		res := w.Request("GET", "/v1/jobs/"+job+"/tasks/split/logs?"+query, "")
		if got := body(t, res); res.StatusCode != http.StatusOK || got != want {
			t.Errorf("%s: %d %.300q, want %.300q", query, res.StatusCode, got, want)
		}
	}
	trouble(t, w.Request("GET", "/v1/jobs/"+job+"/tasks/split/logs?since=yesterday", ""), http.StatusUnprocessableEntity)
}

// A line began before the requested time and ended after it. It must not be in the output since that time.
func TestSinceBeginsWithWholeLine(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Wide("one", 1))
	nine := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	node := w.Node(job, "split", 0).Start().PrintAt("progress: 1 of 2", nine)
	data, marks := "started, ", []wire.LogMark{{Offset: node.Logged, At: nine}, {Offset: node.Logged + 9, At: nine.Add(time.Minute)}}
	node.PrintMarked(data+"done\nnext", marks...)
	res := w.Request("GET", "/v1/jobs/"+job+"/tasks/split/logs?timestamps=true&since=2026-11-28T09:00:30Z", "")
	if got := body(t, res); got != "2026-11-28T09:01:00.000Z next\n" {
		t.Errorf("%q", got)
	}
}

// Logs that an earlier version has stored have no times. They must be readable.
func TestLogWithoutTimes(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Wide("one", 1))
	w.Node(job, "split", 0).Start().Print("alpha").Print("beta")
	res := w.Request("GET", "/v1/jobs/"+job+"/tasks/split/logs?timestamps=true&since=2099-01-01T00:00:00Z", "")
	if got := body(t, res); got != "- alpha\n- beta\n" {
		t.Errorf("%q", got)
	}
}

func TestAgentSendsTimesOfLog(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Wide("one", 1))
	as, attempt := bearer(w.Node(job, "split", 0).Start().Token), job+".0.1"
	at := func(offset, times string) string {
		return wire.PathLogs + "?attempt=" + attempt + "&offset=" + offset + "&times=" + url.QueryEscape(times)
	}
	empty(t, w.Do("POST", at("0", "0:1764320400000,6:1500"), "alpha\nbeta\n", as))
	for _, bad := range []string{"x", "11:1", "-1:1"} {
		trouble(t, w.Do("POST", at("11", bad), "gamma\n", as), http.StatusUnprocessableEntity)
	}
	res := w.Request("GET", "/v1/jobs/"+job+"/tasks/split/logs?timestamps=true", "")
	if got, want := body(t, res), "2025-11-28T09:00:00.000Z alpha\n2025-11-28T09:00:01.500Z beta\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
