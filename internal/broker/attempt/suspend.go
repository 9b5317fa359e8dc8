package attempt

import (
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// DecideYield makes a task release its machines and wait: at once if it has not started, and otherwise when it has
// saved its work. It does nothing for a cluster that is already being released.
func DecideYield(l Losing, why record.Leaving, reason string, cfg config.Config,
	now time.Time) (d record.Decision) {
	switch {
	case !Holds(l.Cluster):
		return d
	case l.Cluster.Command != "":
		return DecideLeave(l.Cluster, why, reason, cfg.Overhead, now)
	default:
		l.Cluster.Leaving = why
		return DecideLost(l, apitypes.OutcomeMoved, reason, now)
	}
}

// Holds reports whether a cluster holds its machines: it is not being released.
func Holds(cl record.Cluster) bool {
	return cl.Outcome == "" && cl.State != record.ClusterDoomed && cl.State != record.ClusterReleasing
}

// SuspensionText returns a suspension as text: "suspended by ann: the data is wrong".
func SuspensionText(s apitypes.Suspension) string {
	text := "suspended"
	if s.By != "" {
		text = fmt.Sprintf("%s by %s", text, s.By)
	}
	if s.Reason != "" {
		text = fmt.Sprintf("%s: %s", text, s.Reason)
	}
	return text
}

// decideHeldUp ends an attempt of a suspended job before anything is bought. Its task waits until the job is resumed.
func decideHeldUp(st *Buying, s apitypes.Suspension, now time.Time) record.Decision {
	d := decideUnbought(st, apitypes.OutcomeMoved, SuspensionText(s), now)
	rejoin(&d, st.Job, st.task, SuspensionText(s))
	return d
}
