package book

import (
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// A decision that looks at more blobs than a process keeps would else lack one of them each time that it is made again.
func TestBookKeepsLoadedBlobs(t *testing.T) {
	k := New(NewKept(0))
	for _, job := range []string{"a", "b", "c"} {
		k.AddBlob(record.Blob{Name: "plan", Version: 1}.In(job), &record.Plan{})
	}
	for _, job := range []string{"a", "b", "c"} {
		if k.Blob(record.Blob{Name: "plan", Version: 1}.In(job)) == nil {
			t.Errorf("the plan of %s is not known any more", job)
		}
	}
}
