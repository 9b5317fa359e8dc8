package planning

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// The size of a worker of a serverless service, for comparison, unless --cpus and --memory say another. It is the
// default of both services.
const (
	workerVCPUs = 4
	workerGB    = 16
)

// FoundRate is the price of a serverless service in a region, with that of a worker.
type FoundRate struct {
	catalog.ServerlessRate
	VCPU       float64 `json:"vcpu"`
	MemoryGB   float64 `json:"memoryGB"`
	USDPerHour float64 `json:"usdPerHour"`
}

// releases returns the releases of the service that --spark asks for.
func (f *searchFlags) releases() ([]dag.SparkRelease, error) {
	if f.service.Value == "" {
		if f.spark != "" {
			return nil, command.BadInput("add --service emr", "--spark is about the releases of a service")
		}
		return nil, nil
	}
	of, err := dag.SparkReleasesOf(f.service.Value, f.spark)
	if err != nil {
		return nil, command.BadInput("write 3.5, 3.5.1 or 3.5+", "--spark: %q is not a version of Spark", f.spark)
	}
	if len(of) == 0 {
		all, _ := dag.SparkReleasesOf(f.service.Value, "") // of a known service
		var has []string
		for _, r := range all {
			if !slices.Contains(has, r.Spark) {
				has = append(has, r.Spark)
			}
		}
		return nil, command.Because(nil, command.ExitInfeasible, "they have Spark "+strings.Join(has, ", "),
			"no release of %s has Spark %s", f.service.Value, f.spark)
	}
	return of, nil
}

// serverless reports whether --service is a service without machines.
func (f *searchFlags) serverless() bool { return strings.HasSuffix(f.service.Value, "-serverless") }

// rates returns the prices of a serverless service in the regions that the flags allow.
func (f *searchFlags) rates() (found []FoundRate, err error) {
	for flag, set := range map[string]bool{
		"gpu": f.gpu != "", "zone": len(f.zones) > 0, "instance-type": f.instanceType != "", "spot": f.spot,
		"burstable": f.burstable,
	} {
		if set {
			return nil, command.BadInput("leave it out", "--%s: %s has no machines to choose", flag, f.service.Value)
		}
	}
	cpus, err := parseRange("cpus", f.cpus, dag.ParseCPUsAtLeast)
	if err != nil {
		return nil, err
	}
	memory, err := parseRange("memory", f.memory, dag.ParseMemoryAtLeast)
	if err != nil {
		return nil, err
	}
	vcpu, gb := max(cpus.Min, 0), max(memory.Min, 0)
	if vcpu == 0 {
		vcpu = workerVCPUs
	}
	if gb == 0 {
		gb = workerGB
	}
	for _, r := range catalog.ServerlessRates(catalog.Service(f.service.Value)) {
		if len(f.clouds) > 0 && !slices.Contains(f.clouds, r.Cloud) || len(f.regions) > 0 &&
			!slices.Contains(f.regions, r.Region) && !slices.Contains(f.regions, r.Cloud+":"+r.Region) {
			continue
		}
		usd := r.USDPerHour(vcpu, gb)
		found = append(found, FoundRate{ServerlessRate: r, VCPU: vcpu, MemoryGB: gb, USDPerHour: usd})
	}
	if len(found) == 0 {
		return nil, command.Because(nil, command.ExitInfeasible, "leave --cloud and --region out to see the known ones",
			"the price of %s there is not known", f.service.Value)
	}
	return found, nil
}

// searchServerless lists the prices of a serverless service.
func (a app) searchServerless(f *searchFlags, releases []dag.SparkRelease) error {
	rates, err := f.rates()
	if err != nil {
		return err
	}
	if f.output.JSON() {
		return a.PrintJSON(SearchResult{Offers: []FoundOffer{}, Rates: rates, Releases: releases})
	}
	t := &text.Table{Columns: []text.Column{
		{Name: "CLOUD"}, {Name: "REGION"}, {Name: "SERVICE"}, {Name: "VCPUS", Right: true}, {Name: "GB", Right: true},
		{Name: "USD/H", Right: true}, {Name: "USD/VCPU-H", Right: true}, {Name: "USD/GB-H", Right: true},
		{Name: "USD/DCU-H", Right: true}, {Name: "MINIMUM", Right: true},
	}}
	price := func(usd float64) string {
		if usd == 0 {
			return ""
		}
		return fmt.Sprint(usd)
	}
	for i := range rates {
		r := &rates[i]
		t.Row(r.Cloud, r.Region, string(r.Service), text.Number(r.VCPU), text.Number(r.MemoryGB),
			text.USD(r.USDPerHour), price(r.USDPerVCPUHour), price(r.USDPerGBHour), price(r.USDPerDCUHour),
			fmt.Sprintf("%.0fs", r.BillingMinimumSeconds))
	}
	if err := a.PrintTable(t); err != nil {
		return err
	}
	return a.printReleases(f, releases)
}

// printReleases lists the releases that --spark asks for.
func (a app) printReleases(f *searchFlags, releases []dag.SparkRelease) error {
	if f.spark == "" {
		if f.service.Value != "" {
			a.Tell("--spark 3.5 also lists the releases with this version of Spark")
		}
		return nil
	}
	if err := a.Printf("\n"); err != nil {
		return err
	}
	t := &text.Table{Columns: []text.Column{
		{Name: "SERVICE"}, {Name: "RELEASE", Right: true}, {Name: "SPARK", Right: true},
	}}
	for _, r := range releases {
		t.Row(r.Service, r.Name, r.Spark)
	}
	return a.PrintTable(t)
}

// checkServices returns an error for the first alternative that cannot be bought: its service's cloud has no such
// region, or the price of the service there is not known. It accepts every region of a cloud that the catalogue lacks.
//
// Both clouds sell their services in all of their regions, AWS by the endpoints in its SDK (emr v1.66, emrserverless
// v1.41) and Google by "Dataproc regional endpoints", so that no other region has to be refused.
func checkServices(c *catalog.Catalog, spec *dag.Job) error {
	for task := range spec.Tasks {
		for i, r := range spec.Tasks[task].Services {
			cloud := dag.ServiceCloud(r.Service)
			regions := c.Regions(cloud)
			if r.Region == "" || len(regions) == 0 {
				continue
			}
			sold, err := soldIn(c, cloud, r.Service)
			if err != nil {
				return err
			}
			if slices.Contains(sold, r.Region) {
				continue
			}
			what := fmt.Sprintf("the price of %s in %s is not known", r.Service, r.Region)
			if !slices.Contains(regions, r.Region) {
				what = fmt.Sprintf("the catalogue has no region %q of %s, which has %s", r.Region, cloud, r.Service)
			}
			return command.BadInput(regionHint(r.Service, sold), "%v",
				spec.ErrorAt(task, dag.ServiceAlternative+i, "region", what, ""))
		}
	}
	return nil
}

// soldIn returns the regions in which the price of a service is known, sorted.
func soldIn(c *catalog.Catalog, cloud, service string) (regions []string, err error) {
	for _, rate := range catalog.ServerlessRates(catalog.Service(service)) {
		regions = append(regions, rate.Region)
	}
	if !strings.HasSuffix(service, "-serverless") {
		err = c.Visit(catalog.Query{Clouds: []string{cloud}, Service: catalog.Service(service),
			Market: catalog.OnDemand, CheapestPer: catalog.PerRegion}, func(m *catalog.Match) bool {
			regions = append(regions, m.Region)
			return true
		})
	}
	slices.Sort(regions)
	return regions, err
}

// regionHint says which regions of a service to write.
func regionHint(service string, sold []string) string {
	hint := "remove the alternative"
	if len(sold) > 0 {
		hint = "write one of: " + strings.Join(sold, ", ")
	}
	if service == string(catalog.EMR) {
		hint += "; `tradewind catalog refresh` reads EMR's prices of other regions"
	}
	return hint
}

// plannedServices returns the services that a plan may use: those of the clouds that were added; without any, all, as
// all clouds are used.
func plannedServices(on clouds.Enabled) map[string]bool {
	if on.Services != nil {
		return on.Services
	}
	all := map[string]bool{}
	for _, s := range dag.SparkServices() {
		all[s] = true
	}
	return all
}

// leftOut names the services of a job that no added cloud buys.
func leftOut(on clouds.Enabled, spec *dag.Job) (notes []string) {
	named := map[string]bool{}
	for i := range spec.Tasks {
		for _, r := range spec.Tasks[i].Services {
			named[r.Service] = true
		}
	}
	for _, s := range slices.Sorted(maps.Keys(named)) {
		add := "`tradewind cloud add " + dag.ServiceCloud(s) + " --services " + s + "` adds it"
		switch {
		case on.Services == nil:
			notes = append(notes, "no cloud that buys "+s+" was added: "+add)
		case !on.Services[s]:
			notes = append(notes, s+" is left out, because no cloud here buys it: "+add)
		}
	}
	return notes
}

// serviceLines describes the tasks that are planned on a managed service.
func serviceLines(spec *dag.Job, p *record.Plan) (lines []string) {
	for i := range spec.Work() {
		c := p.Of(i)
		if c == nil || c.Offer.Service == "" {
			continue
		}
		boot := time.Duration(c.Offer.BootSeconds * float64(time.Second))
		lines = append(lines, fmt.Sprintf(
			"%s: %s %s with executors %s usually starts in %s; USD/H is for the least of them",
			spec.Tasks[i].Name, c.Offer.Service, c.Offer.Release, executorsOf(&spec.Tasks[i]), text.Span(boot)))
	}
	return lines
}

func executorsOf(t *dag.Task) string {
	if t.Executors.IsZero() {
		return "1"
	}
	return dag.FormatExecutors(t.Executors)
}
