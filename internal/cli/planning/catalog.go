package planning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Catalog is the catalog command.
func Catalog(in *command.App) *cobra.Command {
	a := app{in}
	c := &cobra.Command{
		Use: "catalog", Short: "Look up the offers of the clouds",
		Long: "Looks up machine types, accelerators and prices of all clouds in the catalogue that plans " +
			"use.",
		Example: "  tradewind catalog search --gpu V100:8 --cloud aws,gcp\n  tradewind catalog accelerators\n" +
			"  tradewind catalog refresh",
	}
	command.Group(c)
	c.AddCommand(a.searchCommand(), a.acceleratorsCommand())
	return c
}

// searchFlags are the filters of catalog search.
type searchFlags struct {
	catalog, state            string
	gpu, cpus, memory         string
	clouds, regions, zones    []string
	instanceType, family, cpu string
	arch, market, service     command.Choice
	spark                     string
	spot, burstable           bool
	maxInterruption, cheapest command.Choice
	sort                      command.Choice
	maxCarbon                 float64
	limit                     int
	output                    *command.Choice
}

func (a app) searchCommand() *cobra.Command {
	f := &searchFlags{
		arch:   command.NewChoice("", string(catalog.AMD64), string(catalog.ARM64), dag.AnyArch),
		market: command.NewChoice("any", "any", "spot", "on-demand"),
		service: command.NewChoice("", string(catalog.EMR), string(catalog.EMRServerless), string(catalog.Dataproc),
			string(catalog.DataprocServerless)),
		// The bands of AWS Spot Advisor.
		maxInterruption: command.NewChoice("", "5%", "10%", "15%", "20%"),
		cheapest:        command.NewChoice("", "region", "zone", "cloud"),
		sort:            command.NewChoice(sortPrice, sortPrice, sortValue),
	}
	c := &cobra.Command{
		Use:   "search",
		Short: "List matching machines, cheapest first",
		Long: "Lists the machines that match the flags, cheapest first. Exits with 3 and prints the closest\n" +
			"alternatives if no machine matches. Without --gpu it lists only machines without accelerators; --gpu\n" +
			"any lists both. Burstable and Arm machines are listed only if you ask for them. Reserved capacity\n" +
			"comes first, at its marginal cost, with the number of machines that it has room for.\n" +
			"\n" +
			"USD/H is the price of the machine without disk and public address, which plans add. Prices are the\n" +
			"latest from the clouds of the state folder, or the built-in ones. SPEED is the speed of a busy vCPU\n" +
			"relative to m6i.xlarge, measured or estimated from the processor. --sort value lists machines first\n" +
			"that do the most work for the money.\n" +
			"\n" +
			"--service also lists the releases of the service that have the Spark version of --spark. Serverless\n" +
			"services have no machines: their USD/H is the price of a worker with --cpus (default 4) and --memory\n" +
			"(default 16).",
		Example: "  tradewind catalog search --gpu V100:8 --cloud aws,gcp\n" +
			"  tradewind catalog search --cpus 8+ --memory 32-64 --spot --cheapest-per cloud\n" +
			"  tradewind catalog search --instance-type p3.2xlarge --max-interruption 10%\n" +
			"  tradewind catalog search --cpus 16 --sort value\n" +
			"  tradewind catalog search --service emr --spark 3.5\n" +
			"  tradewind catalog search --gpu tpu-v3-8 -o json",
		Args: command.Args(0, 0),
	}
	p := c.Flags()
	p.StringVar(&f.gpu, "gpu", "", "accelerator, optionally with a count: V100, H100:8, tpu-v3-8; any")
	p.StringVar(&f.cpus, "cpus", "", "vCPUs: 8 or 8+ at least, =8 exactly, 8-16")
	p.StringVar(&f.memory, "memory", "", "GiB of memory: 32 or 32+ at least, =32 exactly, 32-64")
	p.StringSliceVar(&f.clouds, "cloud", nil, "clouds: aws,gcp")
	p.StringSliceVar(&f.regions, "region", nil, "regions: us-east-1, gcp:us-central1")
	p.StringSliceVar(&f.zones, "zone", nil, "zones: use1-az1")
	p.StringVar(&f.instanceType, "instance-type", "", "machine type: p3.2xlarge")
	p.StringVar(&f.family, "family", "", "family of machine types: c7a, n2d, Dasv5")
	p.StringVar(&f.cpu, "cpu", "", "processor, or its generation: genoa, icelake, graviton3")
	p.Var(&f.arch, "arch", "processor architecture (default: amd64 without --gpu, --instance-type, --family and --cpu)")
	p.BoolVar(&f.burstable, "burstable", false, "also list machines whose vCPUs may be busy only for a part of the "+
		"time")
	p.BoolVar(&f.spot, "spot", false, "only spot machines, same as --market spot")
	p.Var(&f.market, "market", "market to buy on")
	p.Var(&f.service, "service", "a managed service that runs Spark: list its machines with its surcharge, or its "+
		"rates")
	p.StringVar(&f.spark, "spark", "", "with --service: only releases with this Spark: 3.5, 3.5.1 or 3.5+")
	p.Var(&f.maxInterruption, "max-interruption",
		"only spot machines of which at most this share is known to be interrupted in a month")
	p.Float64Var(&f.maxCarbon, "max-carbon", 0, "only regions whose power grid is known to emit at most this, in "+
		"gCO2eq/kWh")
	p.IntVar(&f.limit, "limit", 20, "maximum number of machines to list; 0 means all")
	p.Var(&f.cheapest, "cheapest-per",
		"only the cheapest machine of each region, zone or cloud: one on spot, one on demand")
	p.Var(&f.sort, "sort", "order by price, or by value: USD per unit of work (one vCPU-hour at speed 1)")
	command.CatalogFlag(c, &f.catalog)
	a.StateFlag(c, &f.state)
	f.output = command.OutputFlag(c)
	for name, flag := range map[string]*command.Choice{
		"arch": &f.arch, "market": &f.market, "service": &f.service, "max-interruption": &f.maxInterruption,
		"cheapest-per": &f.cheapest, "sort": &f.sort,
	} {
		command.CompleteChoice(c, name, flag)
	}
	command.CompleteCatalog(c, "gpu", command.Accelerators)
	command.CompleteCatalog(c, "region", command.Regions)
	command.CompleteCatalog(c, "instance-type", command.InstanceTypes)
	command.CompleteCatalog(c, "cloud", (*catalog.Catalog).Clouds)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if f.spot && f.market.Value == "on-demand" {
			return command.BadInput("--spot means --market spot", "--spot and --market on-demand exclude each other")
		}
		return a.search(c.Context(), f)
	}
	return c
}

// SearchResult is the output of `catalog search -o json`.
type SearchResult struct {
	Offers []FoundOffer `json:"offers"`
	// Rates are the prices of a serverless service, and Releases the releases of a service.
	Rates    []FoundRate        `json:"rates,omitempty"`
	Releases []dag.SparkRelease `json:"releases,omitempty"`
}

// FoundOffer is an offer on one market, or on capacity that the account has already. In the second case Reservation is
// the cloud's ID of the capacity, and Reserved the maximum number of machines that can run on it at once.
type FoundOffer struct {
	ID string `json:"id"` // with the market
	catalog.Match
	// USDPerWork is the price of one vCPU-hour at speed 1 if all vCPUs of the machine are busy.
	USDPerWork  float64 `json:"usdPerWork"`
	Reservation string  `json:"reservation,omitempty"`
	Reserved    int     `json:"reserved,omitempty"`
	// Has is the size of a commitment, and Takes how much of it one machine uses.
	Has   apitypes.Amount `json:"has,omitzero"`
	Takes apitypes.Amount `json:"takes,omitzero"`
}

// reservedOffers returns the matching offers on capacity that the account has already.
func reservedOffers(c *catalog.Catalog, q catalog.Query) (all []FoundOffer, err error) {
	known := c.Reserved()
	if len(known) == 0 || q.Market == catalog.Spot {
		return nil, nil
	}
	q.Market, q.CheapestPer, q.Limit = catalog.OnDemand, catalog.PerOffer, 0
	q.Keep = func(m *catalog.Match) bool {
		return slices.ContainsFunc(known, func(k catalog.Reserved) bool { return k.Covers(&m.Offer) })
	}
	err = c.Visit(q, func(m *catalog.Match) bool {
		for i := range known {
			k := &known[i]
			takes, ok := k.Takes(&m.Offer)
			n := k.Has().Holds(takes)
			if !ok || n == 0 {
				continue
			}
			on := *m
			on.USDPerHour = k.USDPerHour + m.SurchargeUSD
			one := FoundOffer{ID: planner.ReservedOffer(m, k), Match: on, Reservation: k.ID, Reserved: n}
			if k.Commitment != nil {
				one.Has, one.Takes = k.Has(), takes
			}
			all = append(all, one)
		}
		return true
	})
	if errors.Is(err, catalog.ErrNoOffer) {
		err = nil
	}
	return all, err
}

// market describes how an offer is bought, for a table column.
func (o *FoundOffer) market() string {
	if o.Reservation == "" {
		return o.Market.String()
	}
	if !o.Takes.IsZero() {
		return fmt.Sprintf("committed: %d", o.Reserved)
	}
	return fmt.Sprintf("reserved: %d", o.Reserved)
}

// open returns the catalogue for plans: from the named folder, or the latest known offers of the clouds.
func (f *searchFlags) open(ctx context.Context) (*catalog.Catalog, error) {
	if f.catalog == "" {
		if c, ok := cloudkit.CatalogStoreOf(command.Absolute(f.state)).Catalog(ctx); ok {
			return c, nil
		}
	}
	return catalog.Open(f.catalog)
}

func (a app) search(ctx context.Context, f *searchFlags) error {
	q, err := f.query()
	if err != nil {
		return err
	}
	releases, err := f.releases()
	if err != nil {
		return err
	}
	if f.serverless() {
		return a.searchServerless(f, releases)
	}
	c, err := f.open(ctx)
	if err != nil {
		return err
	}
	if err := KnownClouds(c, f.clouds); err != nil {
		return err
	}
	offers, err := reservedOffers(c, q)
	if err != nil {
		return queryError(err)
	}
	found, err := f.find(c, q)
	var none *catalog.NoOfferError
	if err != nil && !errors.As(err, &none) {
		return queryError(err)
	}
	for _, m := range found {
		offers = append(offers, FoundOffer{ID: m.ID(), Match: m})
	}
	for i := range offers {
		offers[i].USDPerWork = usdPerWork(&offers[i].Match)
	}
	if f.output.JSON() {
		if err := a.PrintJSON(SearchResult{Offers: append([]FoundOffer{}, offers...), Releases: releases}); err != nil {
			return err
		}
	}
	if none != nil {
		what, hint, _ := strings.Cut(none.Error(), "; ")
		return command.Because(none, command.ExitInfeasible, hint, "%s", what)
	}
	if f.output.JSON() {
		return nil
	}
	if err := a.PrintTable(offerTable(offers, q.Service != catalog.NoService)); err != nil {
		return err
	}
	if f.limit > 0 && len(found) == f.limit {
		a.Tell("showing the cheapest %d; --limit lists more", f.limit)
	}
	return a.printReleases(f, releases)
}

// The orders of --sort.
const (
	sortPrice = "price"
	sortValue = "value"
)

// usdPerWork is the price of one vCPU-hour at speed 1 on a machine that is busy, in USD.
func usdPerWork(m *catalog.Match) float64 {
	if work := m.Work(); work > 0 {
		return m.USDPerHour / work
	}
	return math.Inf(1)
}

// find returns the matches in the order of --sort. The best value may have any price, so that order looks at all.
func (f *searchFlags) find(c *catalog.Catalog, q catalog.Query) ([]catalog.Match, error) {
	if f.sort.Value != sortValue {
		return c.Find(q)
	}
	scope, limit := q.CheapestPer, q.Limit
	q.CheapestPer, q.Limit = catalog.PerOffer, 0
	found, err := c.Find(q)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(found, func(a, b catalog.Match) int { return cmp.Compare(usdPerWork(&a), usdPerWork(&b)) })
	seen := map[string]bool{}
	found = slices.DeleteFunc(found, func(m catalog.Match) bool {
		key := groupKey(&m, scope)
		again := key != "" && seen[key]
		seen[key] = true
		return again
	})
	if limit > 0 && len(found) > limit {
		found = found[:limit]
	}
	return found, nil
}

// groupKey names the group of which --cheapest-per keeps one match; "" keeps all.
func groupKey(m *catalog.Match, scope catalog.Scope) string {
	switch scope {
	case catalog.PerCloud:
		return m.Cloud + "/" + m.Market.String()
	case catalog.PerRegion:
		return m.Place() + "/" + m.Market.String()
	case catalog.PerZone:
		return m.Place() + "/" + m.Zone + "/" + m.Market.String()
	}
	return ""
}

// flagOf maps the fields of a query to their flags.
var flagOf = map[string]string{
	"accelerator": "gpu", "acceleratorCount": "gpu", "vcpu": "cpus", "memoryGiB": "memory", "clouds": "cloud",
	"regions": "region", "zones": "zone", "instanceType": "instance-type",
	"family": "family", "cpu": "cpu", "arch": "arch", "market": "market",
	"service": "service", "maxInterruption": "max-interruption",
	"maxCarbonGPerKWh": "max-carbon", "limit": "limit", "cheapestPer": "cheapest-per",
}

// queryError names the flag that caused a bad query.
func queryError(err error) error {
	var bad *catalog.QueryError
	if !errors.As(err, &bad) {
		return err
	}
	name := bad.Field
	for field, flag := range flagOf {
		if strings.EqualFold(field, bad.Field) {
			name = "--" + flag
		}
	}
	return command.Because(err, command.ExitBadInput, "", "%s: %s", name, bad.Reason)
}

// query builds a query from the flags.
func (f *searchFlags) query() (q catalog.Query, err error) {
	q = catalog.Query{
		Clouds: f.clouds, Regions: f.regions, Zones: f.zones, InstanceType: f.instanceType,
		Arch:   f.wantedArch(),
		Family: f.family, CPU: f.cpu,
		Service: catalog.Service(f.service.Value), MaxCarbonGPerKWh: f.maxCarbon, Limit: f.limit,
	}
	if f.cpu != "" {
		if err := dag.CheckCPU(f.cpu); err != nil {
			return q, command.BadInput("", "--cpu: %v", err)
		}
	}
	if f.limit < 0 {
		return q, command.BadInput("0 lists all", "--limit: %d is below 0", f.limit)
	}
	if f.maxCarbon < 0 || math.IsNaN(f.maxCarbon) {
		return q, command.BadInput("", "--max-carbon: %v is below 0", f.maxCarbon)
	}
	if err := f.accelerator(&q); err != nil {
		return q, err
	}
	if q.VCPU, err = parseRange("cpus", f.cpus, dag.ParseCPUsAtLeast); err != nil {
		return q, err
	}
	if q.MemoryGiB, err = parseRange("memory", f.memory, dag.ParseMemoryAtLeast); err != nil {
		return q, err
	}
	if q.Market, err = catalog.ParseMarket(strings.TrimPrefix(f.market.Value, "any")); err != nil {
		return q, err
	}
	if f.spot {
		q.Market = catalog.Spot
	}
	if !f.burstable && f.instanceType == "" && f.family == "" {
		q.Keep = func(m *catalog.Match) bool { return !m.Burstable }
	}
	q.MaxInterruption = map[string]catalog.InterruptionBand{
		"5%": catalog.InterruptionBelow5, "10%": catalog.Interruption5To10,
		"15%": catalog.Interruption10To15, "20%": catalog.Interruption15To20,
	}[f.maxInterruption.Value]
	q.CheapestPer = map[string]catalog.Scope{
		"zone": catalog.PerZone, "region": catalog.PerRegion, "cloud": catalog.PerCloud,
	}[f.cheapest.Value]
	return q, nil
}

// wantedArch returns the only architecture to list, or "" for all. The default is that of a task.
func (f *searchFlags) wantedArch() catalog.Arch {
	switch {
	case f.arch.Value == dag.AnyArch:
		return ""
	case f.arch.Value == "" && f.gpu == "" && f.instanceType == "" && f.family == "" && f.cpu == "":
		return catalog.AMD64
	}
	return catalog.Arch(f.arch.Value)
}

func (f *searchFlags) accelerator(q *catalog.Query) error {
	switch {
	case f.gpu == "":
		return nil
	case strings.EqualFold(f.gpu, "any") || f.gpu == catalog.AnyAccelerator:
		q.Accelerator = catalog.AnyAccelerator
		return nil
	}
	spec, err := accel.Parse(f.gpu)
	if err != nil {
		return command.BadInput("`tradewind catalog accelerators` lists them", "--gpu: %v", err)
	}
	q.Accelerator = spec.Name
	if strings.Contains(f.gpu, ":") {
		q.AcceleratorCount = spec.Count
	}
	return nil
}

// parseRange reads an amount as in a job file: 8 and 8+ at least, =8 exactly, 8-16.
func parseRange(flag, s string, parse func(string) (dag.Range, error)) (catalog.Range, error) {
	if s == "" {
		return catalog.Range{}, nil
	}
	r, err := parse(s)
	if err != nil {
		return catalog.Range{}, command.BadInput("use 8 or 8+ for at least, =8 for exactly, 8-16 for a range",
			"--%s: %q is not an amount", flag, s)
	}
	return catalog.Range(r), nil
}

// offerTable returns a table of offers.
func offerTable(found []FoundOffer, service bool) *text.Table {
	t := &text.Table{Columns: []text.Column{
		{Name: "CLOUD"}, {Name: "REGION", Flexible: true}, {Name: "ZONE", Flexible: true, Optional: 3},
		{Name: "TYPE", Flexible: true}, {Name: "ACCELERATOR"}, {Name: "VCPUS", Right: true}, {Name: "GIB", Right: true},
		{Name: "SPEED", Right: true, Optional: 1}, {Name: "ARCH", Optional: 5}, {Name: "MARKET"},
		{Name: "USD/H", Right: true}, {Name: "USD/WORK", Right: true, Optional: 3},
		{Name: "SURCHARGE", Right: true, Optional: 2}, {Name: "INTERRUPTED", Optional: 4},
		{Name: "GCO2/KWH", Right: true, Optional: 6},
	}}
	for i := range found {
		m := &found[i]
		gpu, surcharge, interrupted, carbon := "", "", "", ""
		if m.Accelerator != "" {
			gpu = dag.AcceleratorKey(m.Accelerator, m.AcceleratorCount)
		}
		if service {
			surcharge = text.USD(m.SurchargeUSD)
		}
		if m.Market == catalog.Spot {
			interrupted = m.Interruption.String()
		}
		if m.CarbonGPerKWh > 0 {
			carbon = fmt.Sprintf("%.0f", m.CarbonGPerKWh)
		}
		t.Row(m.Cloud, m.Region, m.Zone, m.InstanceType, gpu, text.Number(m.VCPU),
			text.Number(math.Round(m.MemoryGiB*100)/100), speed(m.Speed), string(m.Arch),
			m.market(), text.USD(m.USDPerHour), text.USD(m.USDPerWork), surcharge, interrupted, carbon)
	}
	return t
}

// speed formats a speed; "" if it is unknown.
func speed(s float64) string {
	if s == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", s)
}

func (a app) acceleratorsCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "accelerators", Short: "List the available accelerators, and where to buy them",
		Long: "Lists the accelerators of the catalogue with the names that job files use, how many a machine can\n" +
			"have, and the clouds that sell them.",
		Example: "  tradewind catalog accelerators\n  tradewind catalog accelerators -o json",
		Args:    command.Args(0, 0),
	}
	command.CatalogFlag(c, &dir)
	output := command.OutputFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		cat, err := catalog.Open(dir)
		if err != nil {
			return err
		}
		list := cat.Accelerators()
		if output.JSON() {
			return a.PrintJSON(struct {
				Accelerators []catalog.AcceleratorInfo `json:"accelerators"`
			}{list})
		}
		t := &text.Table{Columns: []text.Column{{Name: "ACCELERATOR"}, {Name: "COUNTS", Flexible: true},
			{Name: "CLOUDS", Flexible: true}}}
		for _, info := range list {
			counts := make([]string, len(info.Counts))
			for i, n := range info.Counts {
				counts[i] = text.Number(n)
			}
			t.Row(info.Name, strings.Join(counts, " "), strings.Join(info.Clouds, ", "))
		}
		return a.PrintTable(t)
	}
	return c
}
