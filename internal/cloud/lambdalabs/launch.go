package lambdalabs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Launch implements cloud.Cloud.
func (c *Cloud) Launch(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	found, err := c.launch(ctx, spec)
	if err != nil {
		return nil, Typed(err)
	}
	return plain(found), nil
}

func (c *Cloud) launch(ctx context.Context, spec cloud.LaunchSpec) ([]owned, error) {
	if err := c.check(spec); err != nil {
		return nil, err
	}
	release, err := c.locks.Take(ctx, spec.Cluster)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := driver.CheckNotTerminated(ctx, Name, c.graves, spec.Cluster); err != nil {
		return nil, err
	}
	found, err := c.find(ctx, spec.Cluster)
	if err != nil {
		return nil, err
	}
	for _, m := range c.unlisted(spec.Cluster, found) {
		if time.Since(m.at) < c.cfg.SeenWithin {
			found = append(found, m)
		}
	}
	have, err := c.keepOnePerRank(ctx, spec.Cluster, found)
	if err != nil {
		return nil, err
	}
	if len(have) >= spec.Nodes {
		c.bought(spec.Cluster, true, have...)
		return have, nil
	}
	if gone := c.gone(spec.Cluster, found); gone != "" {
		// Some were interrupted since: all or nothing.
		lost := fail(cloud.Capacity, driver.CodeLost, "machine %s of cluster %s has ended", gone, spec.Cluster)
		return nil, errors.Join(lost, c.undo(ctx, have))
	}
	have, err = c.buy(ctx, spec, have)
	if err != nil {
		switch cloud.KindOf(Typed(err)) {
		case cloud.Throttled, cloud.Transient: // a retry finds the machines that exist
			return nil, err
		}
		c.forget(spec.Cluster)
		return nil, errors.Join(driver.WithMade(Typed(err), len(living(have))), c.undo(ctx, have))
	}
	return c.confirm(ctx, spec, have)
}

// check returns an error for a spec that this cloud cannot launch.
func (c *Cloud) check(spec cloud.LaunchSpec) error {
	if err := driver.Check(Name, spec); err != nil {
		return err
	}
	if spec.Offer.Spot {
		return fail(cloud.Invalid, codeNoSpot, "Lambda sells no spot machines")
	}
	if len(c.cfg.Regions) > 0 && !slices.Contains(c.cfg.Regions, spec.Offer.Region) {
		return cloud.OfRegion(fail(cloud.Quota, codeNoRegion,
			"region %q is not among the regions of this deployment: %v", spec.Offer.Region, c.cfg.Regions))
	}
	return nil
}

// keepOnePerRank returns a cluster's living machines by rank, and ends duplicates that come from lost answers. This
// process keeps the machines that it has returned; otherwise the first one bought is kept.
func (c *Cloud) keepOnePerRank(ctx context.Context, cluster string, found []owned) ([]owned, error) {
	told, _ := c.members(cluster)
	slices.SortFunc(found, func(a, b owned) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), -cmp.Compare(truth(told[a.rank].ID == a.ID),
			truth(told[b.rank].ID == b.ID)),
			a.at.Compare(b.at), strings.Compare(a.ID, b.ID))
	})
	var keep []owned
	var extra []string
	for _, m := range found {
		switch {
		case !m.living():
		case len(keep) > 0 && keep[len(keep)-1].rank == m.rank:
			extra = append(extra, m.ID)
		default:
			keep = append(keep, m)
		}
	}
	if len(extra) > 0 {
		c.log.Warn("ending duplicate machines after a lost answer", "cluster", cluster, "machines", extra)
	}
	return keep, c.end(ctx, extra)
}

func truth(is bool) int {
	if is {
		return 1
	}
	return 0
}

// gone returns the ID of a machine of the cluster that has ended without a request. Such a machine is listed as
// ended, or this process has bought it and it is no longer listed. A cluster that was never complete has lost none.
func (c *Cloud) gone(cluster string, found []owned) string {
	told, whole := c.members(cluster)
	for _, m := range found {
		if m.living() {
			delete(told, m.rank)
		} else if m.Reason != "" {
			return m.ID
		}
	}
	for _, rank := range slices.Sorted(maps.Keys(told)) {
		if whole {
			return told[rank].ID
		}
	}
	return ""
}

// buy launches the machines that a cluster lacks, one by one. It returns all machines, even if it fails.
func (c *Cloud) buy(ctx context.Context, spec cloud.LaunchSpec, have []owned) ([]owned, error) {
	key, err := c.key(ctx)
	if err != nil {
		return have, err
	}
	there := map[int]bool{}
	for _, m := range have {
		there[m.rank] = true
	}
	for rank := range spec.Nodes {
		if there[rank] {
			continue
		}
		m, err := c.buyOne(ctx, spec, rank, key)
		if isCode(Typed(err), codeNotFound) && c.lostKey(ctx, key) { // the SSH key was removed
			if key, err = c.key(ctx); err == nil {
				m, err = c.buyOne(ctx, spec, rank, key)
			}
		}
		if err != nil {
			return have, err
		}
		have = append(have, m)
		c.bought(spec.Cluster, false, m)
	}
	slices.SortFunc(have, func(a, b owned) int { return cmp.Compare(a.rank, b.rank) })
	return have, nil
}

// buyOne launches the machine of a rank.
func (c *Cloud) buyOne(ctx context.Context, spec cloud.LaunchSpec, rank int, key string) (owned, error) {
	script, err := c.cfg.Agents.UserData(Name, spec, Arch(spec.Offer.InstanceType), &rank, c.cfg.Environment)
	if err != nil {
		return owned{}, err
	}
	if script, err = bootstrap.Plain(script); err != nil { // the API accepts only text, up to a megabyte
		return owned{}, err
	}
	if err := c.waitForTurn(ctx); err != nil {
		return owned{}, err
	}
	now := time.Now()
	in := launchRequest{
		Region: spec.Offer.Region, Type: spec.Offer.InstanceType, SSHKeys: []string{key}, Image: image(spec.Image),
		Name:     nameOf(c.cfg.Deployment, spec.Cluster, rank, now),
		Hostname: fmt.Sprintf("tw-%s-%d", hash(c.cfg.Deployment+"\x00"+spec.Cluster, clusterBytes), rank),
		UserData: string(script), Tags: c.tags(spec),
	}
	var out struct {
		IDs []string `json:"instance_ids"`
	}
	call, cancel := context.WithTimeout(ctx, launchWithin)
	defer cancel()
	err = c.call(call, http.MethodPost, "/instance-operations/launch", in, &out)
	switch {
	case err == nil && len(out.IDs) == 1:
		n, _ := readName(c.cfg.Deployment, in.Name)
		return owned{named: n, Machine: cloud.Machine{
			ID: out.IDs[0], Cluster: spec.Cluster, Rank: rank, State: cloud.Pending, Launched: n.at, Offer: spec.Offer,
		}}, nil
	case err == nil:
		return owned{}, fail(cloud.Transient, driver.CodeLost,
			"the API launched %d machines instead of one",
			len(out.IDs))
	case !outcomeUnknown(err) || ctx.Err() != nil:
		return owned{}, err
	}
	// The outcome is unknown.
	found, lookErr := c.await(ctx, spec.Cluster, func(all []owned) bool { return has(all, rank) })
	if lookErr != nil {
		return owned{}, errors.Join(Typed(err), lookErr)
	}
	for _, m := range found {
		if m.rank == rank && m.living() {
			return m, nil
		}
	}
	return owned{}, err
}

func has(all []owned, rank int) bool {
	return slices.ContainsFunc(all, func(m owned) bool { return m.rank == rank && m.living() })
}

// await lists a cluster's machines until wanted returns true, or until SeenWithin has passed. It fails if they cannot
// be listed.
func (c *Cloud) await(ctx context.Context, cluster string, wanted func([]owned) bool) ([]owned, error) {
	deadline := time.Now().Add(c.cfg.SeenWithin)
	for {
		found, err := c.find(ctx, cluster)
		if err != nil || wanted(found) || time.Now().After(deadline) {
			return found, err
		}
		if err := clock.Pause(ctx, c.cfg.LookEvery); err != nil {
			return nil, err
		}
	}
}

// confirm checks after the purchase whether another call has bought some of the machines, too, or has terminated the
// cluster. A list that contains the new machines contains the older ones as well.
func (c *Cloud) confirm(ctx context.Context, spec cloud.LaunchSpec, have []owned) ([]owned, error) {
	listed := func(all []owned) bool {
		for _, m := range have {
			if !slices.ContainsFunc(all, func(l owned) bool { return l.ID == m.ID }) {
				return false
			}
		}
		return true
	}
	found, lookErr := c.await(ctx, spec.Cluster, listed)
	if err := driver.CheckNotTerminated(ctx, Name, c.graves, spec.Cluster); err != nil {
		return nil, errors.Join(err, c.undo(ctx, append(have, found...)))
	}
	if lookErr != nil || !listed(found) {
		c.bought(spec.Cluster, true, have...)
		return have, nil // Machines later ends duplicates that are not listed now
	}
	kept, err := c.keepOnePerRank(ctx, spec.Cluster, found)
	if err != nil {
		return nil, err
	}
	if len(kept) < spec.Nodes {
		return nil, fail(cloud.Transient, driver.CodeLost, "cluster %s has %d machines of %d", spec.Cluster, len(kept),
			spec.Nodes)
	}
	c.bought(spec.Cluster, true, kept...)
	return kept, nil
}

// undo ends the machines of a failed launch, even if its caller's context has ended.
func (c *Cloud) undo(ctx context.Context, machines []owned) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoWithin)
	defer cancel()
	return c.end(ctx, living(machines))
}

// living returns the IDs of machines that cost money, each once.
func living(machines []owned) []string {
	var ids []string
	for _, m := range machines {
		if m.living() {
			ids = append(ids, m.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func plain(all []owned) []cloud.Machine {
	out := make([]cloud.Machine, len(all))
	for i, m := range all {
		out[i] = m.Machine
	}
	return out
}
