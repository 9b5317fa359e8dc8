package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func TestReadEvents(t *testing.T) {
	for name, c := range map[string]struct {
		stream string
		want   []string
	}{
		"one":                        {"event: job\ndata: {}\n\n", []string{"job={}"}},
		"comments and unknown lines": {": alive\n\nid: 7\nevent: job\nretry: 3\ndata: 1\n\n", []string{"job=1"}},
		"carriage returns":           {"event: a\r\ndata: 1\r\n\r\n", []string{"a=1"}},
		"no space":                   {"event:a\ndata:1\n\n", []string{"a=1"}},
		"several data lines":         {"data: 1\ndata: 2\n\n", []string{"=1\n2"}},
		"no data is no event":        {"event: a\n\ndata: 1\n\n", []string{"=1"}},
		"cut short":                  {"event: a\ndata: 1\n\nevent: b\ndata: 2\n", []string{"a=1"}},
		"longer than the buffer":     {"data: " + strings.Repeat("x", 1<<20) + "\n\n", []string{"=" + strings.Repeat("x", 1<<20)}},
		"nothing":                    {"", nil},
	} {
		var got []string
		for ev, err := range readEvents(strings.NewReader(c.stream)) {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			got = append(got, ev.Name+"="+string(ev.Data))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %.80q, want %.80q", name, got, c.want)
		}
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("event: job\ndata: {}\n\n: alive\n\n")
	f.Add("data\ndata:\r\n\r\n")
	f.Fuzz(func(t *testing.T, stream string) {
		for ev, err := range readEvents(strings.NewReader(stream)) {
			if err != nil {
				t.Fatalf("a stream in memory failed: %v", err)
			}
			if len(ev.Data) > len(stream) || strings.ContainsAny(ev.Name, "\n") {
				t.Fatalf("an event that was not there: %q %q", ev.Name, ev.Data)
			}
		}
	})
}

// follow returns the amounts in the updates that Follow yields, and its error.
func follow(ctx context.Context, c *Client) (spent []float64, err error) {
	for u, uerr := range c.Follow(ctx, "j") {
		if uerr != nil {
			return spent, uerr
		}
		spent = append(spent, u.Job.SpentUSD)
	}
	return spent, nil
}

func send(w io.Writer, name string, spent int) {
	_, _ = fmt.Fprintf(w, "event: %s\ndata: {\"job\":{\"id\":\"j\",\"spentUSD\":%d}}\n\n", name, spent)
}

func TestFollowJobToEnd(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		send(w, apitypes.EventJob, 1)
		send(w, "news", 9) // an event that only a newer broker sends
		send(w, apitypes.EventJob, 2)
		send(w, apitypes.EventEnd, 3)
	})
	if got, err := follow(context.Background(), c); err != nil || !slices.Equal(got, []float64{1, 2}) {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestFollowReopensBrokenStream(t *testing.T) {
	var calls atomic.Int32
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		switch calls.Add(1) {
		case 1:
			send(w, apitypes.EventJob, 1)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"title":"busy","status":503}`)
		default:
			send(w, apitypes.EventJob, 2)
			send(w, apitypes.EventEnd, 2)
		}
	})
	c.retry = time.Millisecond
	if got, err := follow(context.Background(), c); err != nil || !slices.Equal(got, []float64{1, 2}) {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestFollowUnknownJobIsNotRetried(t *testing.T) {
	var calls atomic.Int32
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"title":"Not Found","status":404}`)
	})
	if _, err := follow(context.Background(), c); Status(err) != http.StatusNotFound || calls.Load() != 1 {
		t.Fatalf("got %v after %d calls", err, calls.Load())
	}
}

func TestFollowEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		send(w, apitypes.EventJob, 1)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	var err error
	for _, err = range c.Follow(ctx, "j") {
		cancel()
	}
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

func TestBrokenLogIsClientError(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "some of it\n")
	})
	r, err := c.Log(context.Background(), "j", "t", LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	if string(got) != "some of it\n" || !errors.Is(err, ErrUnreachable) {
		t.Fatalf("got %q, %v", got, err)
	}
}
