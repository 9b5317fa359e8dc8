package attempt

import (
	"errors"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// The outcome of a failed launch: another try or a refusal, depending on the earlier tries and on the machines that
// the launch may have made.
func TestFailedLaunch(t *testing.T) {
	cfg := config.Default()
	capacity := cloud.Errorf("gcp", cloud.Capacity, "STOCKOUT", "none left")
	late := cloud.Errorf("gcp", cloud.Capacity, "STOCKOUT", "none left after two")
	late.Late = 2
	invalid := cloud.Errorf("gcp", cloud.Invalid, "TERMINATED", "the name is taken")
	slow := cloud.Errorf("gcp", cloud.Throttled, "SLOW", "slow down")
	intended := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		tries          int
		outcome        apitypes.Outcome
		failure        error
		again, refused bool
		kind           cloud.Kind // of the refusal
		wantTries      int        // in the written record; -1: no record is written
		made           int
	}{
		"refused at once":              {failure: capacity, refused: true, kind: cloud.Capacity, wantTries: -1},
		"refused late":                 {failure: late, refused: true, kind: cloud.Capacity, wantTries: cfg.LaunchTries, made: 2},
		"for a passing reason":         {failure: slow, again: true, refused: true, kind: cloud.Throttled, wantTries: 1},
		"for the last time":            {tries: cfg.LaunchTries - 1, failure: slow, refused: true, kind: cloud.Throttled, wantTries: cfg.LaunchTries},
		"given up before":              {tries: cfg.LaunchTries, failure: capacity, refused: true, kind: cloud.Quota, wantTries: -1},
		"its name is taken":            {failure: invalid, refused: true, kind: cloud.Invalid, wantTries: -1},
		"its name is taken since":      {tries: 1, failure: invalid, refused: true, kind: cloud.Quota, wantTries: -1},
		"ended meanwhile":              {outcome: apitypes.OutcomeLost, failure: slow, wantTries: -1},
		"ended meanwhile, with a bill": {outcome: apitypes.OutcomeLost, failure: late, wantTries: 0, made: 2},
	} {
		t.Run(name, func(t *testing.T) {
			st := Buying{Cluster: record.Cluster{
				ID: "j.0.1", Job: "j", Tries: c.tries, Outcome: c.outcome, Reason: "as before", Refused: cloud.Quota,
				Intended: intended, Nodes: make([]record.Node, 3), Offer: apitypes.Offer{USDPerHour: 2},
			}}
			d, again, refusal := DecideFailed(st, cfg, c.failure)
			if again != c.again || (refusal != nil) != c.refused {
				t.Errorf("again %v, refusal %v", again, refusal)
			}
			if refusal != nil && cloud.KindOf(refusal) != c.kind {
				t.Errorf("a refusal of kind %s, want %s", cloud.KindOf(refusal), c.kind)
			}
			if (len(d.Writes) == 0) != (c.wantTries < 0) {
				t.Fatalf("writes %v", d.Writes)
			}
			if len(d.Writes) == 0 {
				return
			}
			cl, ok := d.Writes[0].Value.(record.Cluster)
			if !ok || cl.Tries != c.wantTries || cl.Made != c.made || (c.made > 0) != cl.Launched.Equal(intended) {
				t.Errorf("%+v", cl)
			}
			if c.outcome != "" && cl.Reason != "as before" {
				t.Errorf("the reason is now %q", cl.Reason)
			}
			if c.made > 0 && cl.Charged(intended.Add(time.Hour)) != 4 {
				t.Errorf("charged %v for %d machines", cl.Charged(intended.Add(time.Hour)), c.made)
			}
		})
	}
	if err := Refusal(record.Cluster{Reason: "no more", Refused: cloud.Quota}); err.Error() != "no more" ||
		cloud.KindOf(err) != cloud.Quota || cloud.KindOf(errors.Unwrap(err)) != cloud.Quota {
		t.Errorf("%v of kind %s", err, cloud.KindOf(err))
	}
}
