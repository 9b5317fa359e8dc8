package agent

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// TestRenewedTokenIsUsed: after a renewal, polls and reports must use the new token.
func TestRenewedTokenIsUsed(t *testing.T) {
	var shown []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown = append(shown, r.Header.Get("Authorization"))
		work := wire.Work{Command: wire.None}
		if len(shown) == 1 {
			work.Token = "second"
		}
		_ = json.NewEncoder(w).Encode(work)
	}))
	defer s.Close()
	c := newClient(Config{Endpoint: s.URL, Token: "first", Patience: time.Second})
	for range 2 {
		if _, err := c.work(t.Context(), 0, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.report(t.Context(), wire.Report{ID: "1", Event: wire.Alive}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"Bearer first", "Bearer second", "Bearer second"}; !slices.Equal(shown, want) {
		t.Errorf("it shows %v, want %v", shown, want)
	}
}
