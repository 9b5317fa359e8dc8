package clouds

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	_ "embed"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/account"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/story"
	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

//go:embed data.yaml
var dataFile string

// movedWithin is the allowed relative difference between moved and planned data: the size of a task's outputs is as
// declared, plus a manifest.
const movedWithin = 0.01

// moved: each task stores its output in the store of the cloud that it runs on, and the next one reads it there. The
// cost of that is planned, counted by the stores, and booked.
func (s *Story) moved(ctx context.Context) (said string, err error) {
	if s.data, err = s.submit(ctx, "data", dataFile); err != nil {
		return "", err
	}
	var d *apitypes.JobDetail
	if err := until(ctx, func() error {
		if d, err = s.client.Job(ctx, s.data); err != nil {
			return err
		}
		if d.State != apitypes.JobSucceeded {
			return fmt.Errorf("the job is %s: %s", d.State, d.Reason)
		}
		return nil
	}); err != nil {
		return "", err
	}
	s.place(d)
	stores := map[string]string{
		"aws": "s3://" + s.World.Bucket("work"), "gcp": "gs://" + googleBucket, "azure": "azblob://" + azureContainer,
	}
	planned := map[string]string{"gather": "aws", "refine": "gcp", "publish": "azure"}
	for _, a := range d.Attempts {
		name := []string{"gather", "refine", "publish"}[a.Task]
		if a.Outcome != apitypes.OutcomeSucceeded || a.Offer.Cloud == planned[name] {
			continue
		}
		if !s.World.Chaos { // a cloud loses a task to another cloud if its functions keep failing
			return "", fmt.Errorf("%s ran on %s", name, a.Offer.Cloud)
		}
		planned[name] = a.Offer.Cloud
	}
	for name, cloud := range planned {
		mine := stores[cloud]
		for _, bucket := range stores {
			keys, err := s.stored(ctx, bucket, s.data+"/"+name+"/", "")
			if err != nil {
				return "", err
			}
			if (len(keys) > 0) != (bucket == mine) {
				return "", fmt.Errorf("%s has %d objects in %s", name, len(keys), bucket)
			}
			if bucket == mine {
				said += fmt.Sprintf("%s has %d objects in %s\n", name, len(keys), bucket)
			}
		}
	}
	table, err := dynamo.New(s.World.Config, s.World.Stack.Name, dynamo.Options{})
	if err != nil {
		return "", err
	}
	toMove, err := story.PlannedToMove(ctx, table, s.data)
	if err != nil {
		return "", err
	}
	ways, usd, err := s.egress(s.data)
	said += ways + fmt.Sprintf("total %.6f USD, planned %.6f\n", usd, toMove)
	if err == nil && !s.World.Chaos && !(math.Abs(usd/toMove-1) <= movedWithin) { // failed reads are repeated
		err = errors.New("moved and planned data differ: " + said)
	}
	if err != nil {
		return said, err
	}
	booked, err := s.bookedEgress(ctx, usd)
	return said + booked, err
}

// bookedEgress waits until the booked cost of a job's data equals the transfers that the stores have counted. If
// transfers fail, only the senders count them.
func (s *Story) bookedEgress(ctx context.Context, counted float64) (said string, err error) {
	return said, until(ctx, func() error {
		d, err := s.client.Job(ctx, s.data)
		if err != nil {
			return err
		}
		booked, all, by := 0.0, 0.0, map[string]float64{}
		for _, a := range d.Attempts {
			booked, all = booked+a.EgressUSD, all+a.USD
			by[a.Offer.Cloud] += a.EgressUSD
		}
		said = fmt.Sprintf("booked for it %.6f USD, of %.6f for the whole job: by machines on", booked, all)
		for _, cloud := range slices.Sorted(maps.Keys(by)) {
			said += fmt.Sprintf(" %s %.6f", cloud, by[cloud])
		}
		if booked < counted*(1-movedWithin) || booked > counted*(1+movedWithin) && !s.World.Chaos {
			return fmt.Errorf("booked %.6f USD for moving data, but the stores counted %.6f", booked, counted)
		}
		if d.SpentUSD < booked {
			return fmt.Errorf("the job is booked with %.6f USD, but %.6f for moving data", d.SpentUSD, booked)
		}
		return nil
	})
}

// place records where the clusters of a job were.
func (s *Story) place(d *apitypes.JobDetail) {
	for _, a := range d.Attempts {
		place := a.Offer.Cloud + ":" + a.Offer.Region
		s.World.Moves.Placed(record.ClusterID(d.ID, a.Task, a.Number), strings.TrimPrefix(place, "aws:"))
	}
}

// egress adds up the data that a job's machines exchanged with stores elsewhere, at list prices.
func (s *Story) egress(job string) (said string, usd float64, err error) {
	prices, err := egress.Default()
	if err != nil {
		return "", 0, err
	}
	bytes, ways := map[[2]string]int64{}, [][2]string{}
	for _, m := range s.World.Moves.Between() {
		if !strings.Contains(m.Object, "/"+job+"/") {
			continue
		}
		if m.From == account.Unknown || m.To == account.Unknown {
			return said, usd, fmt.Errorf(
				"no agent was given %s, of which %d bytes went from %s to %s",
				m.Object,
				m.Bytes,
				m.From,
				m.To,
			)
		}
		way := [2]string{full(m.From), full(m.To)}
		if bytes[way] == 0 {
			ways = append(ways, way)
		}
		bytes[way] += m.Bytes
	}
	for _, way := range ways {
		perGiB, err := prices.USDPerGiB(way[0], way[1])
		if err != nil {
			return said, usd, err
		}
		cost := float64(bytes[way]) / (1 << 30) * perGiB
		usd += cost
		said += fmt.Sprintf("%d bytes from %s to %s, %.6f USD\n", bytes[way], way[0], way[1], cost)
	}
	return said, usd, nil
}

// full returns a place with its cloud.
func full(place string) string {
	if strings.Contains(place, ":") {
		return place
	}
	return "aws:" + place
}

// stored lists the objects of a bucket with a prefix, and a word in their keys, without using the product.
func (s *Story) stored(ctx context.Context, bucket, prefix, word string) (keys []string, err error) {
	prefix = bucket + "/" + strings.TrimSuffix(prefix, "/") + "/"
	for o, err := range grant.Objects(ctx, s.World.Owned, prefix) {
		if err != nil {
			return nil, err
		}
		if strings.Contains(o.URI, word) {
			keys = append(keys, o.URI)
		}
	}
	return keys, nil
}
