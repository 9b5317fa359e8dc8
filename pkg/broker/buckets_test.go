package broker_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/broker"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// pails makes and removes buckets. removing, if it is not nil, is called while one is removed.
type pails struct {
	signs
	there    []string
	removing func() error
}

func (p *pails) List(_ context.Context, uri, _ string) (grant.Page, error) {
	if bucket, err := grant.BucketOf(uri); err != nil || !slices.Contains(p.there, bucket) {
		return grant.Page{}, fmt.Errorf("%s: %w", uri, grant.ErrNoBucket)
	}
	return grant.Page{}, nil
}

func (p *pails) MakeBucket(_ context.Context, bucket string) error {
	p.there = append(p.there, bucket)
	return nil
}

func (p *pails) RemoveBucket(_ context.Context, bucket string) error {
	if p.removing != nil {
		if err := p.removing(); err != nil {
			return err
		}
	}
	p.there = slices.DeleteFunc(p.there, func(b string) bool { return b == bucket })
	return nil
}

// TestABucketIsNotRemovedUnderANewJob: one that asks for it while it is removed waits until it is gone, however long that
// takes, and has it made anew.
func TestABucketIsNotRemovedUnderANewJob(t *testing.T) {
	p := &porch{bench: newBench(t)}
	data := &pails{}
	ports := p.b.Ports
	ports.Data = data
	p.b = broker.New(record.DefaultConfig(), ports)
	const tasks = `{t: {run: x, resources: {cpus: 4}, inputs: [{uri: "s3://pail/a/", path: a, mount: write, bucket: temporary}]}}`
	note := func() record.Bucket {
		t.Helper()
		b, _, err := book.Get[record.Bucket](p.b.NewUnit(t.Context(), "test"), record.BucketKey("s3://pail/"))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	launches := func() (n int) {
		for _, c := range p.cloud {
			n += len(c.launched)
		}
		return n
	}
	p.submit(tasks, "1")
	p.settle()
	if !slices.Equal(data.there, []string{"s3://pail/"}) || launches() != 1 {
		t.Fatalf("%v is there, %d launches", data.there, launches())
	}
	p.work()
	p.settle()

	// The broker ends while it removes the bucket, and another job asks for it meanwhile.
	data.removing = func() error {
		p.submit(tasks, "2")
		p.settle(events.TypeBrokerReconcile) // which is at work
		return context.Canceled
	}
	p.reconcile()
	if b := note(); len(b.Jobs) != 1 || !b.Removing || launches() != 1 {
		t.Fatalf("while it is removed: %+v, %d launches", b, launches())
	}
	// Another one goes on with it.
	data.removing = nil
	p.reconcile()
	if b := note(); b.URI != "" || len(data.there) != 0 {
		t.Fatalf("afterwards: %+v, %v is there", b, data.there)
	}
	p.now = p.now.Add(p.b.Config.StuckFor + time.Minute)
	p.reconcile()
	if b := note(); !slices.Equal(b.Jobs, []string{p.job}) || b.Removing || len(data.there) != 1 || launches() != 2 {
		t.Errorf("in the end: %+v, %v is there, %d launches", b, data.there, launches())
	}
}
