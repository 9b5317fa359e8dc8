package api

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/view"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

const (
	largeTasks = 10_000
	largeOffer = "aws/us-east-2/use2-az3/c7i.2xlarge/spot"
)

var largeNow = time.Date(2026, 11, 21, 9, 0, 0, 123456789, time.UTC)

// large returns a job of 10,000 running tasks. Each is in its first attempt on a bought machine.
func large() *apitypes.JobDetail {
	d := &apitypes.JobDetail{JobView: apitypes.JobView{ID: "large-abcdef", State: apitypes.JobRunning, Tasks: largeTasks}}
	at := func(minutes int) time.Time { return largeNow.Add(time.Duration(minutes) * time.Minute) }
	for i := range largeTasks {
		d.TaskList = append(d.TaskList, apitypes.TaskView{
			Index: i, Name: fmt.Sprint("task-", i), State: "running", After: []int{i / 2},
			Offer: largeOffer, USDPerHour: 0.1437, Nodes: 1, Attempts: 1,
		})
		d.Attempts = append(d.Attempts, apitypes.Attempt{
			Job: d.ID, Task: i, Number: 1, Plan: 1, OfferID: largeOffer, Nodes: 1, VCPU: 8,
			MaxUSD: 0.3729, SurchargeUSD: 0.008287671, ReservedUSD: 0.3316,
			Offer: apitypes.Offer{
				Cloud: "aws", Region: "us-east-2", Zone: "use2-az3", InstanceType: "c7i.2xlarge", Spot: true, USDPerHour: 0.1437,
			},
			Admitted: at(-30), Launched: at(-29), Up: at(-27), Started: at(-26),
		})
	}
	return d
}

// sent returns the size of updates as JSON, in bytes.
func sent(b *testing.B, updates []apitypes.JobUpdate) (size int) {
	for _, u := range updates {
		body, err := json.Marshal(u)
		if err != nil {
			b.Fatal(err)
		}
		size += len(body)
	}
	return size
}

// BenchmarkUpdateOfALargeJob measures the update of a job of 10,000 tasks after ten tasks have succeeded: the time to
// build the update, and its size for each follower.
func BenchmarkUpdateOfALargeJob(b *testing.B) {
	was, is := large(), large()
	for i := range 10 {
		is.TaskList[997*i].State = "succeeded"
		a := &is.Attempts[997*i]
		a.Outcome, a.Ended, a.USD = apitypes.OutcomeSucceeded, largeNow, 0.0719
	}
	f := &Feed{name: "bench", changed: make(chan struct{})}
	f.publish(&view.Look{JobDetail: *was}, nil)
	size := 0
	for b.Loop() {
		if !needsUpdate(was, is, time.Second) {
			b.Fatal("nothing is told")
		}
		place := f.place(f.now.N, largeTasks)
		f.publish(&view.Look{JobDetail: *is}, nil)
		updates, _ := f.Since(f.now, place, largeNow)
		size = max(size, sent(b, updates)) // every second update reverts the one before
		was, is = is, was
	}
	b.ReportMetric(float64(size), "bytes/update")
}

// BenchmarkFirstUpdateOfALargeJob measures the first update of a follower, which has the full state of a job of
// 10,000 tasks in several parts.
func BenchmarkFirstUpdateOfALargeJob(b *testing.B) {
	f := &Feed{name: "bench", changed: make(chan struct{})}
	f.publish(&view.Look{JobDetail: *large()}, nil)
	size := 0
	for b.Loop() {
		updates, _ := f.Since(f.now, "", largeNow)
		size = sent(b, updates)
	}
	b.ReportMetric(float64(size), "bytes/update")
}
