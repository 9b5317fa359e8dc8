package client_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/client"
)

// The response of a submission is lost, and the client repeats the call. Both calls must create only one job, even
// without an idempotency key from the caller.
func TestRetriedSubmitIsOneJob(t *testing.T) {
	var keys []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if keys = append(keys, r.Header.Get("Idempotency-Key")); len(keys)%2 == 1 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"j"}`)
	}))
	defer s.Close()
	c := client.New(s.URL, "token")
	for name, call := range map[string]func(context.Context) error{
		"submit": func(ctx context.Context) error { _, err := c.Submit(ctx, "x.yaml", "", []byte("x"), nil); return err },
		"update": func(ctx context.Context) error {
			_, err := c.Update(ctx, "j", "x.yaml", "", []byte("x"), nil)
			return err
		},
		"rerun": func(ctx context.Context) error { _, err := c.Rerun(ctx, "j", ""); return err },
	} {
		keys = nil
		if err := call(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := call(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(keys) != 4 || keys[0] == "" || keys[0] != keys[1] || keys[2] != keys[3] || keys[0] == keys[2] {
			t.Errorf("%s twice, each answered at the second try: keys %q", name, keys)
		}
	}
	keys = nil
	_, err := c.Submit(t.Context(), "x.yaml", "mine", []byte("x"), nil)
	if err != nil || keys[0] != "mine" || keys[1] != "mine" {
		t.Errorf("with a key: %q, %v", keys, err)
	}
}
