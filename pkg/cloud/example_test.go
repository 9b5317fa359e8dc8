package cloud_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// shelf is a cloud that sells a few machines of one type. It keeps its state only in memory.
type shelf struct {
	mu       sync.Mutex
	left     int
	clusters map[string][]cloud.Machine
}

func (*shelf) Name() string { return "shelf" }

func (s *shelf) Launch(_ context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if machines, again := s.clusters[spec.Cluster]; again {
		return machines, nil
	}
	if spec.Nodes > s.left {
		return nil, cloud.Errorf("shelf", cloud.Capacity, "Empty", "%d machines are left, not %d", s.left, spec.Nodes)
	}
	s.left -= spec.Nodes
	for rank := range spec.Nodes {
		id := fmt.Sprintf("%s-%d", spec.Cluster, rank)
		s.clusters[spec.Cluster] = append(s.clusters[spec.Cluster], cloud.Machine{
			ID: id, Cluster: spec.Cluster, Rank: rank, State: cloud.Running, Offer: spec.Offer,
		})
	}
	return s.clusters[spec.Cluster], nil
}

func (s *shelf) Terminate(_ context.Context, cluster string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left += len(s.clusters[cluster])
	s.clusters[cluster] = nil // marks the name as used, so that a late launch buys nothing
	return nil
}

func (s *shelf) Machines(_ context.Context, cluster string) ([]cloud.Machine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clusters[cluster], nil
}

// This is the smallest driver. It launches a whole cluster or nothing. However often a launch is called, it buys
// once. Its errors have a kind.
func ExampleCloud() {
	var c cloud.Cloud = &shelf{left: 3, clusters: map[string][]cloud.Machine{}}
	ctx := context.Background()
	launch := func(cluster string, nodes int) {
		machines, err := c.Launch(ctx, cloud.LaunchSpec{Cluster: cluster, Nodes: nodes})
		fmt.Println(cluster, len(machines), err)
	}
	launch("job-1", 2)
	launch("job-1", 2) // a retry after a lost answer buys nothing more
	launch("job-2", 2)
	fmt.Println(c.Terminate(ctx, "job-1"), c.Terminate(ctx, "job-1"))
	launch("job-2", 2)
	// Output:
	// job-1 2 <nil>
	// job-1 2 <nil>
	// job-2 0 shelf: capacity (Empty): 1 machines are left, not 2
	// <nil> <nil>
	// job-2 2 <nil>
}

// An error without a kind counts as transient, so callers retry.
func ExampleKindOf() {
	quota := cloud.Errorf("aws", cloud.Quota, "VcpuLimitExceeded", "64 vCPUs are the limit")
	fmt.Println(cloud.KindOf(fmt.Errorf("launch job-1: %w", quota)))
	fmt.Println(cloud.KindOf(context.DeadlineExceeded))
	// Output:
	// quota
	// transient
}
