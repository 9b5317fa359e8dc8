package drawn

import (
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/session"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// Bounds gives a queue quotas besides vCPUs: of memory, and of the cost per hour.
func Bounds(r timeline.Random, s *record.QueueSettings) {
	s.Max = apitypes.Amounts{}
	if r.Chance(0.6) {
		s.Max[apitypes.MemoryGiB] = float64(32 * (1 + r.IntN(6)))
	}
	if r.Chance(0.6) {
		s.Max[apitypes.USDPerHour] = r.Uniform(0.2, 3)
	}
	if s.Parent == "" || !r.Chance(0.3) {
		return
	}
	s.Deserved = apitypes.Amounts{apitypes.MemoryGiB: 16}
	if r.Chance(0.5) {
		s.Guaranteed = apitypes.Amounts{apitypes.MemoryGiB: 16}
	}
	if most := s.Max[apitypes.MemoryGiB]; most > 0 {
		s.Max[apitypes.MemoryGiB] = max(most, 16)
	}
}

// BoundsFast gives a queue a quota of accelerators. The queue may also deserve one, and may have one guaranteed.
func BoundsFast(r timeline.Random, s *record.QueueSettings) {
	most := float64(1 + r.IntN(4))
	s.Max = s.Max.Plus(apitypes.Amounts{weather.Fast: most})
	if s.Parent != "" && r.Chance(0.3) {
		s.Deserved = s.Deserved.Plus(apitypes.Amounts{weather.Fast: 1})
		if r.Chance(0.5) {
			s.Guaranteed = s.Guaranteed.Plus(apitypes.Amounts{weather.Fast: 1})
		}
	}
}

// Policy draws a scheduling policy. With nightly, some machines are available only at some hours.
func Policy(r timeline.Random, nightly bool) *scheduler.Policy {
	policy := session.OwnPolicy()
	if r.Chance(0.5) {
		policy.Actions = append([]string{"enqueue"}, policy.Actions...)
	}
	if r.Chance(0.4) {
		policy.Actions = append(policy.Actions, "reserve", "backfill")
	}
	add := func(name string, chance float64, args scheduler.Args) {
		if r.Chance(chance) {
			policy.Tiers[1] = append(policy.Tiers[1], scheduler.PluginConfig{Name: name, Args: args})
		}
	}
	add("namespace", 0.5, nil)
	add("usage", 0.5, nil)
	add("nodeorder", 0.3, nil)
	add("binpack", 0.3, nil)
	add("topology", 0.4, nil)
	from := time.Duration(r.IntN(24)) * time.Hour
	to := (from + time.Duration(1+r.IntN(20))*time.Hour) % (24 * time.Hour)
	chance := 0.5
	if nightly {
		chance = 1
	}
	add("tdm", chance, scheduler.Args{"windows": map[string]scheduler.Window{
		"some": {From: from, To: to, Zone: time.UTC}}})
	return policy
}
