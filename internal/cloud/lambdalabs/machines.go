package lambdalabs

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// list returns all machines of the deployment.
func (c *Cloud) list(ctx context.Context) ([]owned, error) {
	var all []instance
	if err := c.get(ctx, "/instances", &all); err != nil {
		return nil, err
	}
	var found []owned
	for _, i := range all {
		if m, ok := c.convert(i); ok {
			found = append(found, m)
		}
	}
	return found, nil
}

// find lists a cluster's machines, in any state.
func (c *Cloud) find(ctx context.Context, cluster string) ([]owned, error) {
	all, err := c.list(ctx)
	return slices.DeleteFunc(all, func(m owned) bool { return !m.belongsTo(cluster) }), err
}

// Machines implements cloud.Cloud. Listing the whole deployment also ends duplicates from lost answers, and machines
// of clusters that this process terminated before they were listed.
func (c *Cloud) Machines(ctx context.Context, cluster string) ([]cloud.Machine, error) {
	if cluster != "" && !driver.ValidCluster(cluster) {
		return nil, ctx.Err()
	}
	found, err := c.list(ctx)
	if err != nil {
		return nil, Typed(err)
	}
	if cluster != "" {
		found = slices.DeleteFunc(found, func(m owned) bool { return !m.belongsTo(cluster) })
	} else {
		c.sweep(ctx, found)
	}
	slices.SortFunc(found, func(a, b owned) int {
		return cmp.Or(strings.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Rank, b.Rank), strings.Compare(a.ID, b.ID))
	})
	return plain(found), nil
}

// sweep ends machines that should not exist. If it fails to end one, the next list tries again.
func (c *Cloud) sweep(ctx context.Context, found []owned) {
	byCluster := map[string][]owned{}
	for _, m := range found {
		if m.living() {
			byCluster[m.Cluster] = append(byCluster[m.Cluster], m)
		}
	}
	for cluster, machines := range byCluster {
		if err := c.sweepCluster(ctx, cluster, machines); err != nil {
			c.log.Warn("surplus machines not ended", "cluster", cluster, "err", err)
		}
	}
}

func (c *Cloud) sweepCluster(ctx context.Context, cluster string, machines []owned) error {
	c.mu.Lock()
	ended := c.ended[cluster]
	c.mu.Unlock()
	ranks := map[int]bool{}
	for _, m := range machines {
		ranks[m.rank] = true
	}
	if !ended && len(ranks) == len(machines) {
		return nil
	}
	release, err := c.locks.Take(ctx, cluster) // wait for a launch in progress, which may need them
	if err != nil {
		return err
	}
	defer release()
	if ended {
		return c.end(ctx, living(machines))
	}
	machines, err = c.find(ctx, cluster)
	if err == nil {
		_, err = c.keepOnePerRank(ctx, cluster, machines)
	}
	return err
}

// Terminate implements cloud.Cloud.
func (c *Cloud) Terminate(ctx context.Context, cluster string) error {
	if !driver.ValidCluster(cluster) {
		return nil // no cluster can have this name
	}
	return Typed(c.terminate(ctx, cluster))
}

func (c *Cloud) terminate(ctx context.Context, cluster string) error {
	release, err := driver.BeginTerminate(ctx, c.graves, &c.locks, cluster)
	if err != nil {
		return err
	}
	defer release()
	found, err := c.find(ctx, cluster)
	if err != nil {
		return err
	}
	if err := c.end(ctx, living(append(found, c.unlisted(cluster, found)...))); err != nil {
		return err
	}
	c.terminated(cluster)
	return nil
}
