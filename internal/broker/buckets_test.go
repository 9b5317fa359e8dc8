package broker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// bucketStore is a cloud's service for buckets. It calls making while it makes a bucket and removing while it removes
// one, unless they are nil.
type bucketStore struct {
	signs
	there            []string
	making, removing func() error
}

func (p *bucketStore) List(_ context.Context, uri, _ string) (grant.Page, error) {
	if bucket, err := grant.BucketOf(uri); err != nil || !slices.Contains(p.there, bucket) {
		return grant.Page{}, fmt.Errorf("%s: %w", uri, grant.ErrNoBucket)
	}
	return grant.Page{}, nil
}

func (p *bucketStore) MakeBucket(_ context.Context, bucket string) error {
	if p.making != nil {
		if err := p.making(); err != nil {
			return err
		}
	}
	p.there = append(p.there, bucket)
	return nil
}

func (p *bucketStore) RemoveBucket(_ context.Context, bucket string) error {
	if p.removing != nil {
		if err := p.removing(); err != nil {
			return err
		}
	}
	p.there = slices.DeleteFunc(p.there, func(b string) bool { return b == bucket })
	return nil
}

// TestNewJobWaitsForBucketRemoval: a job asks for a bucket that is being removed. The job must wait until the bucket
// is gone, however long that takes, and then get a new one.
func TestNewJobWaitsForBucketRemoval(t *testing.T) {
	p := &agentBench{bench: newBench(t)}
	data := &bucketStore{}
	ports := p.b.Ports()
	ports.Data = data
	p.b = broker.New(config.Default(), ports)
	const tasks = `{t: {run: x, resources: {cpus: 4}, inputs: [{uri: "s3://pail/a/", path: a, mount: write, bucket: temporary}]}}`
	note := func() record.Bucket {
		t.Helper()
		b, _, err := recordcache.Get[record.Bucket](p.b.Transactor().NewUnit(t.Context(), "test"), record.BucketKey("s3://pail/"))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	p.submit(tasks, "1")
	p.deliverAll()
	if !slices.Equal(data.there, []string{"s3://pail/"}) || p.launches() != 1 {
		t.Fatalf("buckets %v, %d launches", data.there, p.launches())
	}
	p.work()
	p.deliverAll()

	// The broker's process ends during the removal, and another job asks for the bucket.
	data.removing = func() error {
		p.submit(tasks, "2")
		p.deliverAll(events.TypeBrokerReconcile) // reconcile is already running
		return context.Canceled
	}
	p.reconcile()
	if b := note(); len(b.Jobs) != 1 || !b.Removing || p.launches() != 1 {
		t.Fatalf("during the removal: %+v, %d launches", b, p.launches())
	}
	// Another broker continues the removal.
	data.removing = nil
	p.reconcile()
	if b := note(); b.URI != "" || len(data.there) != 0 {
		t.Fatalf("afterwards: %+v, buckets %v", b, data.there)
	}
	p.now = p.now.Add(p.b.Config().StuckFor + time.Minute)
	p.reconcile()
	if b := note(); !slices.Equal(b.Jobs, []string{p.job}) || b.Removing || len(data.there) != 1 || p.launches() != 2 {
		t.Errorf("in the end: %+v, buckets %v, %d launches", b, data.there, p.launches())
	}
}

// TestBucketFailureDoesNotBlockLocation: making a bucket fails for a while. The planned location must not be blocked:
// once the bucket is made, the machine is bought there. (Azure refuses for half a minute to make a bucket that is
// being deleted, and any store may throttle calls.)
func TestBucketFailureDoesNotBlockLocation(t *testing.T) {
	p := &agentBench{bench: newBench(t)}
	asked := 0
	data := &bucketStore{making: func() error { asked++; return errors.New("409 ContainerBeingDeleted") }}
	ports := p.b.Ports()
	ports.Data = data
	p.b = broker.New(config.Default(), ports)
	const pail = `{uri: "azblob://pail/", path: a, mount: write, bucket: make}`
	p.submit("{t: {run: x, resources: {cpus: 4}, inputs: ["+pail+"]}}", "1")
	admitted := p.until(events.TypeTaskAdmitted)
	handle := func() error {
		return p.b.Functions.Handle(t.Context(), events.FnProvision, []events.Event{admitted})[0]
	}
	for range 2 * p.b.Config().LaunchTries {
		if err := handle(); err == nil || !strings.Contains(err.Error(), "ContainerBeingDeleted") {
			t.Errorf("got %v, want an error that is tried again", err)
		}
	}
	blocks, err := recordcache.List[apitypes.Block](p.b.Transactor().NewUnit(t.Context(), "test"), record.PartBlocks, "", 0)
	if err != nil || len(blocks) > 0 || asked != 2*p.b.Config().LaunchTries {
		t.Errorf("after %d calls: %v, blocked are %+v", asked, err, blocks)
	}
	data.making = nil
	if err := handle(); err != nil || p.launches() != 1 {
		t.Errorf("when it can be made: %v, %d launches", err, p.launches())
	}
}

// launches returns the number of launches in all clouds.
func (p *agentBench) launches() (n int) {
	for _, c := range p.cloud {
		n += len(c.launched)
	}
	return n
}
