package lambdahost_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// TestReconcileCountsLostClusters: the alarm on lost machines reads the metric. Machines whose end an event announced do
// not count.
func TestReconcileCountsLostClusters(t *testing.T) {
	for fn, want := range map[string]bool{events.FnReconcile: true, events.FnInterrupt: false} {
		var out bytes.Buffer
		s, err := lambdahost.NewForTest(fn, lambdahost.Env{Deployment: "tw"}, &out, time.Now, lambdahost.Fakes{Store: mem.New()})
		if err != nil {
			t.Fatal(err)
		}
		done := s.Begin(t.Context())
		body, err := events.New("1", "test", time.Now(), events.ClusterLost{Cluster: "j.0.1", Job: "j"}).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Store.Commit(t.Context(), store.Tx{Events: []store.Event{{ID: "1", Body: body}}}); err != nil {
			t.Fatal(err)
		}
		done()
		if got := strings.Contains(out.String(), `"Lost":1`); got != want {
			t.Errorf("%s: %s", fn, out.String())
		}
	}
}
