package main

import (
	"strings"
	"testing"
)

// TestSmallSituationsStayBelowLimits runs every situation to its end; nothing may be above its limit.
func TestSmallSituationsStayBelowLimits(t *testing.T) {
	z := sizes{parents: 40, budgeted: 80, small: 40, queues: 12, tasks: 60, running: 5}
	for _, lambda := range []bool{false, true} {
		rows, err := runSituations(t.Context(), z, "", environment{name: "test", lambda: lambda, open: inFile(t.TempDir()), tell: t.Logf})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if err := r.check(); err != nil {
				t.Error(err)
			}
			if r.requests == 0 || r.plain+r.invocations == 0 {
				t.Errorf("nothing was counted: %+v", r)
			}
		}
		if len(rows) != 11 {
			t.Errorf("%d rows", len(rows))
		}
	}
}

func TestCheckRejectsRowsAboveLimit(t *testing.T) {
	for _, c := range []struct {
		row  row
		want string
	}{
		{row{maxRequests: 10, requests: 11}, "11 requests"},
		{row{maxRequests: 10, requests: 10}, ""},
		{row{maxRequests: 10, requests: 30, invocations: 3, hardest: 10}, ""},
		{row{maxRequests: 10, requests: 30, invocations: 2, hardest: 20}, "20 requests"},
		{row{lambda: true, answers: answers{widest: 4<<20 + 1}}, "an answer of"},
		{row{lambda: true, took: within + 1}, "at most 29s"},
		{row{took: within + 1}, ""}, // an open stream has no time limit
	} {
		err := c.row.check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.row, err)
		}
	}
}
