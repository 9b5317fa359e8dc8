package stage_test

import (
	"context"
	"maps"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/stage"
)

// A store stalls before or during its answer. The request must be retried.
func TestStalledAnswerIsRetried(t *testing.T) {
	b := newBucket(t, nil)
	want := tree{"f": "one", "g": strings.Repeat("two", 1<<18)}
	for i := range 20 {
		want["s"+strings.Repeat("x", i)] = "small" // these are in a bundle
	}
	upload(t, b, "p", newDir(t, want))
	var mu sync.Mutex
	met := map[string]bool{}
	b.meet = func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		again := met[r.URL.Path]
		met[r.URL.Path] = true
		mu.Unlock()
		if again {
			return false
		}
		if path.Base(r.URL.Path) != "g" {
			w.Header().Set("Content-Length", "3")
			_, _ = w.Write([]byte("{"))
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
		return true
	}
	// otherwise a failure would make the test wait for ever
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dst := t.TempDir()
	tr := stage.Transfer{Grants: b, Store: b.url, Tries: 20, Still: 100 * time.Millisecond}
	if _, err := tr.Download(ctx, b.at("p"), dst); err != nil || !maps.Equal(read(t, dst), want) {
		t.Errorf("%d files, %v", len(read(t, dst)), err)
	}
	if len(met) != 3 {
		t.Errorf("met %v", met)
	}
}
