package recordcache

import (
	"testing"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

// Otherwise a decision that reads more blobs than the cache holds would lack one of them in every round.
func TestBookKeepsLoadedBlobs(t *testing.T) {
	k := New(NewKept(0))
	for _, job := range []string{"a", "b", "c"} {
		k.AddBlob(record.Blob{Name: "plan", Version: 1}.In(job), &record.Plan{})
	}
	for _, job := range []string{"a", "b", "c"} {
		if k.Blob(record.Blob{Name: "plan", Version: 1}.In(job)) == nil {
			t.Errorf("the plan of %s was dropped", job)
		}
	}
}
