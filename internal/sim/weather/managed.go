package weather

import (
	"strings"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Managed is a managed service in a region. Its prices are those of one executor, or of the node with the driver.
type Managed struct {
	Listing
	Service, Release string
	// Ready is the time until a place is ready, and Start the time for which its application waits for executors.
	Ready, Start [2]time.Duration
}

// Serverless reports whether a service bills only the time in which an application has executors.
func Serverless(service string) bool { return strings.HasSuffix(service, "-serverless") }

// OfferTo returns the offer of the whole place of a task, and how many vCPUs the place has.
func (m *Managed) OfferTo(t *dag.Task) (o apitypes.Offer, vcpus float64) {
	units := max(t.Executors.Min, 1) + 1
	o = m.Offer(false, m.OnDemandUSD*units)
	o.Service, o.Release = m.Service, m.Release
	return o, m.VCPU * units
}

// Services returns the managed services of a world. The list is shared and must not be changed. They cost about the
// same as spot machines, so that plans use both.
var Services = sync.OnceValue(func() (list []Managed) {
	const second, minute = time.Second, time.Minute
	for _, s := range []struct {
		name, cloud, kind, release string
		usd                        float64
		ready, start               [2]time.Duration
	}{
		{"emr", "aws", "m5.xlarge", "7.5.0", 0.03,
			[2]time.Duration{8 * minute, 12 * minute}, [2]time.Duration{5 * second, minute}},
		{"emr-serverless", "aws", "serverless", "7.5.0", 0.035,
			[2]time.Duration{5 * second, 30 * second}, [2]time.Duration{minute, 5 * minute}},
		{"dataproc", "gcp", "n1-standard-4", "2.2", 0.03,
			[2]time.Duration{80 * second, 4 * minute}, [2]time.Duration{2 * second, 20 * second}},
		{"dataproc-serverless", "gcp", "serverless", "2.2", 0.035,
			[2]time.Duration{}, [2]time.Duration{40 * second, 3 * minute}},
	} {
		for i, region := range map[string][]string{
			"aws": {"us-east-1", "eu-west-1"}, "gcp": {"us-central1", "europe-west4"}}[s.cloud] {
			m := Managed{Service: s.name, Release: s.release, Ready: s.ready, Start: s.start}
			m.Listing = Listing{Cloud: s.cloud, Region: region, InstanceType: s.kind, VCPU: 4,
				OnDemandUSD: s.usd * (1 + 0.1*float64(i))}
			m.id = s.cloud + "/" + region + "/" + s.kind + "/" + s.name
			list = append(list, m)
		}
	}
	return list
})

// ManagedOf returns the managed service of an offer.
func ManagedOf(service, region string) (m Managed, ok bool) {
	for _, m := range Services() {
		if m.Service == service && m.Region == region {
			return m, true
		}
	}
	return Managed{}, false
}
