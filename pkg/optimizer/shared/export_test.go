package shared

import "github.com/tradewind-broker/tradewind/pkg/optimizer"

// Bound returns the lower bound on the objective, before it is compared with a plan. If there is no plan, it returns
// the reason.
func Bound(m *Model) (float64, string, error) {
	l, err := linkTasks(m)
	if err != nil {
		return 0, "", err
	}
	b, message := compile(m, l, nil).bound()
	if m.Objective == optimizer.Makespan {
		return b.hours, message, nil
	}
	return b.usd, message, nil
}
