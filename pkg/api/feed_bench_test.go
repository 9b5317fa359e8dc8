package api

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/view"
)

// large is a job of 10,000 tasks in the middle of its life.
func large() *view.JobDetail {
	d := &view.JobDetail{JobView: view.JobView{ID: "large-abcdef", State: record.JobRunning, Tasks: 10_000}}
	for i := range 10_000 {
		d.TaskList = append(d.TaskList, view.TaskView{
			Index: i, Name: fmt.Sprint("task-", i), State: "running", After: []int{i / 2}, Offer: "aws/us-east-2/use2-az3/c7i.2xlarge/spot", Nodes: 1,
		})
		d.Attempts = append(d.Attempts, record.Attempt{Job: d.ID, Task: i, Number: 1, OfferID: "aws/us-east-2/use2-az3/c7i.2xlarge/spot", Nodes: 1})
	}
	return d
}

// BenchmarkUpdateOfALargeJob is what one look at a job of 10,000 tasks costs its feed, and what each follower is sent, when ten tasks have changed.
func BenchmarkUpdateOfALargeJob(b *testing.B) {
	was, is := large(), large()
	for i := range 10 {
		is.TaskList[997*i].State = "succeeded"
	}
	size := 0
	for b.Loop() {
		if !worthTelling(was, is, time.Second) {
			b.Fatal("nothing is told")
		}
		body, err := json.Marshal(updateOf(was, is, time.Time{}))
		if err != nil {
			b.Fatal(err)
		}
		size = len(body)
	}
	b.ReportMetric(float64(size), "bytes/update")
}

// BenchmarkFirstUpdateOfALargeJob is what a follower of a job of 10,000 tasks is sent first.
func BenchmarkFirstUpdateOfALargeJob(b *testing.B) {
	is := large()
	size := 0
	for b.Loop() {
		body, err := json.Marshal(updateOf(nil, is, time.Time{}))
		if err != nil {
			b.Fatal(err)
		}
		size = len(body)
	}
	b.ReportMetric(float64(size), "bytes/update")
}
