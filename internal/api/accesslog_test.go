package api_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
)

// Requests must be logged only at the debug level, which --verbose enables.
func TestRequestsAreLoggedForDebugging(t *testing.T) {
	for level, want := range map[slog.Level]int{slog.LevelInfo: 0, slog.LevelDebug: 2} {
		var out bytes.Buffer
		w := apitest.New(t, func(c *api.Config) {
			c.Log = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))
		})
		if res := w.Request("POST", "/v1/queues/none/suspend", ""); res.StatusCode >= http.StatusInternalServerError {
			t.Fatal(res.Status)
		}
		w.Request("GET", "/v1/jobs", "")
		if got := strings.Count(out.String(), "msg=api"); got != want {
			t.Errorf("at level %v: %d requests, want %d:\n%s", level, got, want, &out)
		}
	}
}
