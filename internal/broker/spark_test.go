package broker_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// A broker that does not know Spark tasks would run nothing and report success, so it has to refuse their jobs. Other
// jobs it can read.
func TestOlderBrokerCannotReadSparkJobs(t *testing.T) {
	for task, newer := range map[string]bool{"run: x": false, "spark: {main: 's3://code/etl.py'}": true} {
		records := mem.New()
		b := broker.New(config.Default(), broker.Ports{Store: records, Now: time.Now})
		spec, err := read.Job("job.yaml", strings.NewReader("apiVersion: tradewind/v1\nname: j\ntasks:\n  a: {"+task+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		job, err := b.Users.Submit(t.Context(), broker.Submission{Spec: spec})
		if err != nil {
			t.Fatal(err)
		}
		found, err := records.Get(t.Context(), store.Key(record.JobKey(job.ID)))
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		if got := bytes.Contains(found[0].Body, []byte(`"format":2`)); got != newer {
			t.Errorf("%s: a newer format: %v\n%s", task, got, found[0].Body)
		}
	}
}
