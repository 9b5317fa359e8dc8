package broker_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// TestPastStories runs the files of testdata/past: the remaining records and objects of jobs that have finished,
// expired or were removed.
func TestPastStories(t *testing.T) { playStories(t, "past") }

// outputStore is a store with the outputs and logs of jobs.
type outputStore struct {
	grant.Store
	objects, logs map[string]bool
}

func newOutputStore() *outputStore {
	return &outputStore{objects: map[string]bool{}, logs: map[string]bool{}}
}

func (c *outputStore) List(_ context.Context, prefix, _ string) (page grant.Page, err error) {
	for _, uri := range slices.Sorted(maps.Keys(c.objects)) {
		if strings.HasPrefix(uri, prefix) {
			page.Objects = append(page.Objects, grant.Listed{URI: uri})
		}
	}
	return page, nil
}

func (c *outputStore) Remove(_ context.Context, uri string) error {
	delete(c.objects, uri)
	return nil
}

func (c *outputStore) ExpireLogs(context.Context, string, []broker.LogOf, time.Time) error {
	return nil
}

func (c *outputStore) RemoveLogs(_ context.Context, job string, logs []broker.LogOf) error {
	for _, l := range logs {
		if strings.HasPrefix(l.Attempt, job+".") {
			delete(c.logs, l.Attempt)
		}
	}
	return nil
}

// storeOfPast is the store for the outputs of the jobs in these stories.
const storeOfPast = "s3://work"

// fill adds an output and a log for an attempt that has succeeded.
func (c *outputStore) fill(store, cluster string) {
	c.objects[store+"/"+record.ClusterJob(cluster)+"/task/out/"+cluster+"/0/data"] = true
	c.logs[cluster] = true
}

// left prints the remaining records and objects of a job.
func (s *queueBench) left(name string) {
	var records, expire int
	part := record.JobPart(s.ids[name])
	for r := range s.store.All() {
		if r.Key.Partition != part {
			continue
		}
		if records++; !r.Expires.IsZero() {
			expire++
		}
	}
	count := func(of map[string]bool, part string) (n int) {
		for key := range of {
			if strings.Contains(key, part) {
				n++
			}
		}
		return n
	}
	s.printf("%s has %d records, of which %d expire, %d logs and %d objects", name, records, expire,
		count(s.kept.logs, s.ids[name]+"."), count(s.kept.objects, "/"+s.ids[name]+"/"))
}

// usage prints for how many hours the queues held tasks and vCPUs.
func (s *queueBench) usage(last string) error {
	span, err := time.ParseDuration(last)
	if err != nil {
		return err
	}
	u, err := s.b.Views.Usage(context.Background(), span)
	for _, q := range u.Queues {
		var tasks, vcpus float64
		for i := range q.Running {
			tasks += q.Running[i] * u.StepHours
			vcpus += q.VCPUs[i] * u.StepHours
		}
		s.printf("queue %s: %.6f hours of tasks, %.6f of vCPUs", q.Name, tasks, vcpus)
	}
	return err
}
