package traces

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// A collector accepts a large job but never answers. It may delay the end of a broker by at most five seconds, like a
// missing collector, and not by the time that the export of a job may take.
func TestCloseDoesNotWaitForSilentCollector(t *testing.T) {
	came := make(chan struct{}, 100)
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		came <- struct{}{}
		<-t.Context().Done()
	}))
	t.Cleanup(collector.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	traces, err := Open(t.Context(), Config{
		Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Jobs: func(context.Context, string) (*apitypes.JobDetail, error) { return large(2 * flushEvery), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	traces.exportLater("large")
	<-came
	began := time.Now()
	if err := traces.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took >= exportTimeout {
		t.Errorf("Close took %v", took)
	}
}

// large returns a finished job with a number of tasks.
func large(tasks int) *apitypes.JobDetail {
	at := time.Date(2026, 5, 20, 9, 0, 0, 0, time.UTC)
	d := &apitypes.JobDetail{JobView: apitypes.JobView{ID: "large", Name: "large", State: apitypes.JobSucceeded, Tasks: tasks,
		Submitted: at, Finished: at.Add(time.Hour)}}
	for i := range tasks {
		d.TaskList = append(d.TaskList, apitypes.TaskView{Index: i, Name: fmt.Sprint("t", i), Ended: d.Finished})
		d.Attempts = append(d.Attempts, apitypes.Attempt{Task: i, Number: 1, Admitted: at, Ended: d.Finished,
			Outcome: apitypes.OutcomeSucceeded})
	}
	return d
}
