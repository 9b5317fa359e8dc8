package broker_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

// TestJobStories runs the files of testdata/jobs. Each story follows one job: it is submitted, refused, interrupted,
// replanned, short of money, or on a blocked market.
func TestJobStories(t *testing.T) { playStories(t, "jobs") }

// interrupt emits the event that the machine of a task will be taken at a time, or has been taken.
func (s *queueBench) interrupt(task string, at time.Time, kind string) {
	for _, id := range s.clusters() {
		if s.taskOf(id) != task {
			continue
		}
		if kind == "taken" {
			for _, c := range s.cloud {
				delete(c.clusters, id)
			}
		}
		s.tell(events.SpotInterrupted{Cluster: id, Job: s.claims(id).Job, Kind: kind, At: at})
	}
}

// tell emits an event, and delivers it and all events that follow from it.
func (s *queueBench) tell(data events.Data) {
	s.serial++
	if err := s.b.Functions.Emit(context.Background(), "test", "story-"+strconv.Itoa(s.serial), data); err != nil {
		s.printf("error: %v", err)
	}
	s.deliverAll()
}

// prices multiplies the planned price of each spot market in use by a factor.
func (s *queueBench) prices(factor float64) error {
	var ticks []events.PriceTick
	seen := map[string]bool{}
	for _, id := range s.clusters() {
		for _, c := range s.cloud {
			spec, ok := c.clusters[id]
			o := spec.Offer
			offer := record.Where(o) + "/" + o.InstanceType
			if ok && spec.Offer.Spot && !seen[offer] {
				seen[offer] = true
				ticks = append(ticks, events.PriceTick{Offer: offer, USD: spec.Offer.USDPerHour * factor})
			}
		}
	}
	s.tell(events.MarketTicked{Prices: ticks})
	return nil
}

func (s *queueBench) where(job string) error {
	d, err := s.b.Views.JobDetail(context.Background(), s.ids[job])
	if err != nil {
		return err
	}
	for _, id := range s.clusters() {
		if name, task, _ := strings.Cut(s.taskOf(id), "/"); name == job {
			s.printf("%s: %s", task, s.market(id))
		}
	}
	s.printf("%.2f USD of %.2f planned", d.SpentUSD, d.PlannedUSD)
	return nil
}

// market returns the market that a cluster was bought on.
func (s *queueBench) market(cluster string) string {
	for _, c := range s.cloud {
		if spec, ok := c.clusters[cluster]; ok {
			return strconv.Itoa(spec.Nodes) + " " + map[bool]string{true: "spot", false: "on-demand"}[spec.Offer.Spot]
		}
	}
	return ""
}

func (s *queueBench) explain(job string) error {
	story, err := s.b.Views.Explain(context.Background(), s.ids[job])
	if err != nil {
		return err
	}
	for _, e := range story.Entries {
		s.printf("%s %s %s %s", e.At.Format("15:04"), e.Kind, e.Task, e.Text)
	}
	return nil
}
