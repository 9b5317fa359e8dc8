package push_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloud/push"
	"github.com/tradewind-broker/tradewind/internal/identity"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

func TestHandlerAnswersPushes(t *testing.T) {
	var told []push.News
	p := push.Handler{
		Next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }),
		Deliver: func(_ context.Context, n push.News) error {
			if n.Notice.Cluster == "full" {
				return errors.New("the table is full")
			}
			told = append(told, n)
			return nil
		}, Log: slog.New(slog.DiscardHandler),
		Clouds: map[string]push.Read{"gcp": func(_ context.Context, bearer string, body []byte) (push.News, error) {
			switch bearer {
			case "bad":
				return push.News{}, fmt.Errorf("%w: no", identity.ErrInvalid)
			case "down":
				return push.News{}, errors.New("no keys")
			case "odd":
				return push.News{}, push.ErrNotice
			case "foreign":
				return push.News{}, nil
			}
			return push.News{Notice: &cloud.Notice{Cluster: string(body)}}, nil
		}},
	}
	for _, c := range []struct {
		method, path, auth string
		want, told         int
	}{
		{"POST", "/v1/push/gcp", "Bearer good", 204, 1},
		{"POST", "/v1/push/gcp", "Bearer bad", 401, 0},
		{"POST", "/v1/push/gcp", "Basic good", 401, 0},
		{"POST", "/v1/push/gcp", "", 401, 0},
		{"POST", "/v1/push/gcp", "Bearer down", 503, 0},
		{"POST", "/v1/push/gcp", "Bearer odd", 204, 0},
		{"POST", "/v1/push/gcp", "Bearer foreign", 204, 0},
		{"POST", "/v1/push/azure", "Bearer good", 418, 0},
		{"GET", "/v1/push/gcp", "Bearer good", 418, 0},
		{"POST", "/v1/jobs", "Bearer good", 418, 0},
	} {
		told = nil
		r := httptest.NewRequest(c.method, c.path, strings.NewReader("job.0.1"))
		r.Header.Set("Authorization", c.auth)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		if w.Code != c.want || len(told) != c.told {
			t.Errorf("%+v: %d, passed on %v", c, w.Code, told)
		}
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/v1/push/gcp", strings.NewReader("full"))
	r.Header.Set("Authorization", "Bearer good")
	if p.ServeHTTP(w, r); w.Code != http.StatusServiceUnavailable {
		t.Errorf("a push that could not be passed on: %d", w.Code)
	}
	w = httptest.NewRecorder()
	r = httptest.NewRequest("POST", "/v1/push/gcp", io.LimitReader(zeros{}, 256<<10+1))
	r.Header.Set("Authorization", "Bearer good")
	if p.ServeHTTP(w, r); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("an oversized push: %d", w.Code)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
