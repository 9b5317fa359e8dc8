package reproduce

import (
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// A place without room is blocked and the next one is tried. If all places are blocked, the broker waits until the
// first of them may be tried again.
func TestFindTriesOtherPlacesAndWaits(t *testing.T) {
	for _, c := range []struct {
		name     string
		room     func(zone string, waited time.Duration) bool
		attempts int
		took     time.Duration
	}{
		{"at once", func(string, time.Duration) bool { return true }, 1, 0},
		{"in one zone only", func(zone string, _ time.Duration) bool { return zone == "usw2-az3" }, 3, 0},
		{"everywhere, later", func(_ string, waited time.Duration) bool { return waited > 0 }, 4, 20 * time.Minute},
	} {
		b, err := newBroker(jobWith(8, recordedZones))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		attempts, took, err := b.find(t.Context(), beginning(), func(o *record.Planned, now time.Time) bool {
			seen[o.Offer.Zone] = true
			return c.room(o.Offer.Zone, now.Sub(beginning()))
		})
		if err != nil || attempts != c.attempts || took != c.took || len(seen) != min(attempts, 3) {
			t.Errorf("room %s: %d attempts in %v zones and %v (%v), want %d in %v", c.name, attempts, len(seen), took,
				err, c.attempts, c.took)
		}
	}
}

// Machines that are taken are replaced in other zones, and the broker does not ask a zone that has just taken some.
func TestHoldReplacesMachinesInOtherZones(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates 8 days")
	}
	several := several(t)
	blocked, up, err := hold(t.Context(), several, true)
	if err != nil {
		t.Fatal(err)
	}
	free, most, err := hold(t.Context(), several, false)
	if err != nil {
		t.Fatal(err)
	}
	lost := func(i int) (float64, float64) { return blocked[i].Y, free[i].Y }
	if a, b := lost(len(blocked) - 1); a == 0 || a >= b/2 || up >= most {
		t.Errorf("with blocks %v interruptions and %v of the machines, without %v and %v", a, up, b, most)
	}
	for zone, trace := range several {
		if zone == "us-east-2b" { // has more machines than the others together
			continue
		}
		points, alone := inOneZone(trace, false)
		if last := len(points) - 1; points[last].Y <= blocked[last].Y || alone >= up {
			t.Errorf("%s alone has %v interruptions and %v of the machines", zone, points[last].Y, alone)
		}
	}
}

// The applications have a plan on at least two clouds, and no single cloud beats the plan on all in what it minimises.
func TestApplicationsArePlannedOnEachCloud(t *testing.T) {
	item, err := applications(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	planned := map[string]int{}
	for _, row := range item.Rows {
		key := map[any]string{"cost": "usdToAll", "makespan": "hoursToAll"}[row["objective"]]
		ratio, ok := row[key].(float64)
		if !ok {
			continue
		}
		planned[row["application"].(string)]++
		cloud, places := row["clouds"].(string), row["places"].(string)
		if cloud != "all" && strings.Count(places, " in ") != strings.Count(places, " in "+cloud+":") {
			t.Errorf("%v is not on %s alone", row, cloud)
		}
		if ratio < 1-1e-6 {
			t.Errorf("%v costs or takes %.4f of the plan on all clouds", row, ratio)
		}
	}
	for _, name := range []string{"vision", "genomics", "analytics"} {
		if planned[name] < 6 {
			t.Errorf("%s has %d plans", name, planned[name])
		}
	}
}

func several(t *testing.T) map[string]*market.Trace {
	t.Helper()
	s := newSource("../../../../shared/data")
	if _, err := s.folder("spot-availability"); err != nil {
		t.Skip(err)
	}
	_, several, err := s.traces()
	if err != nil {
		t.Fatal(err)
	}
	return several
}
