package planner

import (
	"errors"
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// onService has the additional fields of a match on a managed service.
type onService struct {
	release string
	// least is the minimum number of executors. The match's price is per executor. It includes what the service holds
	// in addition: the primary node of a cluster, or the driver.
	least int
	vcpu  float64 // of all that the service holds
}

// start is the time from the request of a service to the start of the application in seconds: the usual one, and the
// slow end.
type start struct{ usual, slow float64 }

// starts has the start times of the services. The broker does not learn them.
//
// EMR: 8 to 12 minutes (datavidhya.com, "Dataproc: Running Spark on GCP"). Dataproc: 90 seconds (same page; T.
// Tereshko of Google, "Why Dataproc", hackernoon.com). Dataproc Serverless: around a minute (Google's MCP Toolbox,
// tool serverless-spark-create-pyspark-batch). AWS's documentation says only that workers of EMR Serverless have a
// cold start: its two minutes are a cautious guess, as are all slow ends.
var starts = map[catalog.Service]start{
	catalog.EMR: {600, 900}, catalog.Dataproc: {90, 240},
	catalog.EMRServerless: {120, 300}, catalog.DataprocServerless: {60, 180},
}

// serverlessType takes the place of the machine type for a service that names none.
const serverlessType = "serverless"

// services adds the offers of the services that a Spark task allows and the deployment buys. They are on demand.
func (f *finder) services(t *dag.Task) (reasons []string, err error) {
	for i := range t.Services {
		r := &t.Services[i]
		of := catalog.Service(r.Service)
		switch {
		case !f.b.p.opt.Services[r.Service]:
			reasons = append(reasons, "this broker does not buy "+r.Service+" (`tradewind cloud add "+
				dag.ServiceCloud(r.Service)+" --services "+r.Service+"`)")
			continue
		case r.Market == dag.MarketSpot:
			reasons = append(reasons, r.Service+" is bought on demand only")
			continue
		}
		release, err := dag.ChooseSparkRelease(r.Service, r.Release, t.Spark.Version)
		if err != nil {
			return nil, err
		}
		before := len(f.matches)
		if of == catalog.EMRServerless || of == catalog.DataprocServerless {
			f.serverless(t, r, release.Name)
		} else if err := f.clusters(t, r, release.Name); err != nil {
			return nil, err
		}
		if len(f.matches) == before {
			reasons = append(reasons, "no region with a known price of "+r.Service+" suits, or all are blocked")
		}
	}
	return reasons, nil
}

func leastExecutors(t *dag.Task) int { return max(int(t.Executors.Min), 1) }

// clusters adds clusters of EMR or Dataproc: the executors and a primary node. Dataproc needs at least two workers.
func (f *finder) clusters(t *dag.Task, r *dag.Resources, release string) error {
	least := leastExecutors(t)
	machines := least + 1
	if r.Service == string(catalog.Dataproc) {
		machines = max(least, 2) + 1
	}
	for _, q := range f.b.queries(t, *r) {
		q.Market, q.Keep = catalog.OnDemand, f.keep
		all, err := f.b.catalog.Find(q)
		if errors.Is(err, catalog.ErrNoOffer) {
			continue
		}
		if err != nil {
			return err
		}
		for i := range all {
			f.addService(&all[i], all[i].ID(), onService{release, least, all[i].VCPU * float64(machines)},
				all[i].USDPerHour*float64(machines))
		}
	}
	return nil
}

// serverless adds the regions of a serverless service whose price is known.
func (f *finder) serverless(t *dag.Task, r *dag.Resources, release string) {
	least := leastExecutors(t)
	vcpus, gib := t.ExecutorSize(r)
	for _, rate := range catalog.ServerlessRates(catalog.Service(r.Service)) {
		if r.Region != "" && r.Region != rate.Region || !f.b.sells(rate.Cloud, rate.Region) {
			continue
		}
		usd := rate.USDPerHour(float64(vcpus), float64(gib)*bytesPerGiB/1e9) * float64(least+1)
		m := &catalog.Match{Market: catalog.OnDemand, USDPerHour: usd, Offer: catalog.Offer{
			Cloud: rate.Cloud, Region: rate.Region, InstanceType: serverlessType, VCPU: float64(vcpus),
			MemoryGiB: float64(gib), Service: rate.Service, OnDemandUSD: usd,
			Hardware: catalog.Hardware{Speed: 1, SlowSpeed: 1, BillingMinimumSeconds: rate.BillingMinimumSeconds},
		}}
		if f.keep(m) {
			id := fmt.Sprintf("%s/%s/%s/%s/%s", rate.Cloud, rate.Region, serverlessType, rate.Service, catalog.OnDemand)
			f.addService(m, id, onService{release, least, float64(vcpus * (least + 1))}, usd)
		}
	}
}

const bytesPerGiB = 1 << 30

// addService adds a match on a service, once. usd is the price per hour of all that the service holds.
func (f *finder) addService(m *catalog.Match, id string, on onService, usd float64) {
	if f.found[id] {
		return
	}
	f.found[id] = true
	if f.maxUSD > 0 && usd > f.maxUSD {
		f.expensive = true
		return
	}
	full := &match{Match: *m, id: id, place: f.b.number[m.Place()], usd: usd / float64(on.least),
		onDemand: usd / float64(on.least), service: &on}
	at := starts[m.Service]
	full.BootSeconds, full.SlowBootSeconds = at.usual, at.slow
	full.kg = full.kilowatts() * m.CarbonGPerKWh / 1000
	f.matches = append(f.matches, full)
}

// sells reports whether plans may use a region.
func (b *builder) sells(cloud, region string) bool {
	is := func(list []string, name string) bool {
		for _, l := range list {
			if l == name {
				return true
			}
		}
		return len(list) == 0
	}
	_, known := b.number[cloud+":"+region]
	return known && is(b.p.opt.Clouds, cloud) && is(b.p.opt.Regions, cloud+":"+region)
}
