package planning

import (
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// setServices marks the tasks that are replicas of services, and sets the cost of an hour of all of them.
func (r *PlanResult) setServices(spec *dag.Job, p *record.Plan) {
	for i := range spec.Tasks {
		s, c := spec.Tasks[i].Service, p.Of(i)
		if s == nil || c == nil {
			continue
		}
		r.Tasks[i].Service, r.Tasks[i].Time = s.Of, nil
		r.ServicesUSDPerHour += c.Offer.USDPerHour * float64(r.Tasks[i].Nodes)
	}
}

// servicesTotal prints the cost of services per hour.
func (a app) servicesTotal(r *PlanResult) error {
	if r.ServicesUSDPerHour <= 0 {
		return nil
	}
	return a.Printf("services: %s USD an hour while they run; the plan counts one hour of each replica\n",
		text.USD(r.ServicesUSDPerHour))
}
