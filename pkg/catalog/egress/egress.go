// Package egress has the costs and times of moving data between places: between the regions of a cloud, and between
// clouds. It is separate from the offers so that a program that only moves data does not contain them.
package egress

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Prices has the price per GiB and the time per GiB of moving data between regions of any clouds. The cloud that the
// data leaves charges for it; data that comes in is free. Places are written CLOUD:REGION.
//
// USD per GiB are first-tier list prices:
//
//   - within a region: nothing;
//   - between two AWS regions: the table in data/aws_transfer_costs.csv; for a pair
//     that it lacks, the most expensive price out of the source region, and for a
//     source that it lacks, 0.09;
//   - between two regions of Google Cloud or of Azure: by continent, see
//     [googleContinentUSD] and [azureContinentUSD];
//   - from AWS, Google Cloud or Azure to another cloud: the internet egress price,
//     which on AWS is in the same table by region (0.09 in North America and Europe, and
//     for regions that the table lacks), on Google Cloud 0.12, and on Azure 0.0875 in
//     North America and Europe, 0.12 elsewhere and 0.181 in South America;
//   - from Lambda: nothing, it does not charge for egress;
//   - from an unknown cloud: 0.12, the most expensive of the list prices.
//
// Hours per GiB: 0 within a region, because the duration of a task is stated for data in its own region; otherwise
// 8.59 Gbit ÷ 10 Gbit/s, the measured speed of a broker that moved data between S3 and Cloud Storage, reading files
// of 128 MB in parallel.
//
// Prices are immutable and safe for concurrent use.
type Prices struct {
	// aws is USD per GiB by source and destination; the destination is a region or "internet".
	aws map[[2]string]float64
	// awsMaxUSD is the most expensive price from a source to another region.
	awsMaxUSD map[string]float64
}

// List prices of internet egress, USD per GiB, first tier.
const (
	awsInternetUSD     = 0.09
	googleInternetUSD  = 0.12
	azureInternetUSD   = 0.0875
	unknownInternetUSD = 0.12
)

// gbitPerSecond is the bandwidth between regions and clouds.
const gbitPerSecond = 10

// interRegionHoursPerGiB is the time a GiB takes at gbitPerSecond.
const interRegionHoursPerGiB = (1 << 30) * 8 / (gbitPerSecond * 1e9) / 3600

// awsTransferCSV has the columns src, dst and cost. See ../data/README.md.
//
//go:embed data/aws_transfer_costs.csv
var awsTransferCSV string

var defaultPrices = sync.OnceValues(func() (*Prices, error) { return parse(awsTransferCSV) })

// Default returns the prices embedded in the binary.
func Default() (*Prices, error) { return defaultPrices() }

func parse(awsTransfer string) (*Prices, error) {
	records, err := csv.NewReader(strings.NewReader(awsTransfer)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("AWS transfer prices: %w", err)
	}
	e := &Prices{aws: make(map[[2]string]float64, len(records)), awsMaxUSD: make(map[string]float64)}
	for i, r := range records {
		if i == 0 {
			continue // header
		}
		if len(r) != 3 {
			return nil, fmt.Errorf("AWS transfer prices: line %d: want src,dst,cost", i+1)
		}
		usd, err := strconv.ParseFloat(r[2], 64)
		if err != nil || !(usd >= 0) || math.IsInf(usd, 0) {
			return nil, fmt.Errorf("AWS transfer prices: line %d: %q is not a price", i+1, r[2])
		}
		e.aws[[2]string{r[0], r[1]}] = usd
		if r[1] != internet {
			e.awsMaxUSD[r[0]] = max(e.awsMaxUSD[r[0]], usd)
		}
	}
	return e, nil
}

// AWSRegions returns the regions in AWS's table, sorted. They include regions that an account must enable first.
func (e *Prices) AWSRegions() []string { return slices.Sorted(maps.Keys(e.awsMaxUSD)) }

// ErrUnknownPlace is wrapped by the errors of [Prices] for a place that is not CLOUD:REGION.
var ErrUnknownPlace = errors.New("unknown place")

// The clouds whose prices depend on the continent.
const (
	google = "gcp"
	azure  = "azure"
)

// internet is the destination, in AWS's table, of data that leaves AWS.
const internet = "internet"

// USDPerGiB returns the price of moving a GiB between two places. The error wraps [ErrUnknownPlace] if one of them is
// not CLOUD:REGION.
func (e *Prices) USDPerGiB(from, to string) (float64, error) {
	a, b, err := parsePlaces(from, to)
	if err != nil {
		return 0, err
	}
	return e.usdPerGiB(a, b), nil
}

// HoursPerGiB returns the time that a GiB takes between two places. Its error is that of USDPerGiB.
func (e *Prices) HoursPerGiB(from, to string) (float64, error) {
	a, b, err := parsePlaces(from, to)
	if err != nil {
		return 0, err
	}
	return hoursPerGiB(a, b), nil
}

// Move returns the price and the time of a GiB; ok is false if a place is not CLOUD:REGION.
func (e *Prices) Move(from, to string) (usdPerGiB, hoursPerGiB float64, ok bool) {
	usd, err := e.USDPerGiB(from, to)
	hours, _ := e.HoursPerGiB(from, to)
	return usd, hours, err == nil
}

// PlaceOf returns the place of a bucket: the region parameter of its URL, or else the region in which its cloud
// creates buckets by default. It returns "" for local files and unknown schemes.
func (*Prices) PlaceOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return ""
	}
	region := u.Query().Get("region")
	clouds := map[string][2]string{
		"s3": {"aws", "us-east-1"}, "gs": {"gcp", "us-central1"}, "azblob": {azure, "eastus"},
		"az": {azure, "eastus"},
	}
	c, ok := clouds[u.Scheme]
	if !ok {
		return ""
	}
	if region == "" {
		region = c[1]
	}
	return c[0] + ":" + region
}

// Matrix returns the prices and times for every pair of places: [i][j] is from places[i] to places[j], the form of
// the optimizer's model.
func (e *Prices) Matrix(places []string) (usd, hours [][]float64, err error) {
	parsed := make([]cloudRegion, len(places))
	for i, s := range places {
		if parsed[i], err = parsePlace(s); err != nil {
			return nil, nil, err
		}
	}
	usd, hours = make([][]float64, len(places)), make([][]float64, len(places))
	for i, from := range parsed {
		usd[i], hours[i] = make([]float64, len(places)), make([]float64, len(places))
		for j, to := range parsed {
			usd[i][j], hours[i][j] = e.usdPerGiB(from, to), hoursPerGiB(from, to)
		}
	}
	return usd, hours, nil
}

// cloudRegion is a place. It has a continent if the cloud's prices depend on it.
type cloudRegion struct {
	cloud, region string
	continent     continent
}

func parsePlace(s string) (cloudRegion, error) {
	cloud, region, ok := strings.Cut(s, ":")
	if !ok || cloud == "" || region == "" || strings.Contains(region, ":") {
		return cloudRegion{}, fmt.Errorf("%w: %q: want CLOUD:REGION", ErrUnknownPlace, s)
	}
	p := cloudRegion{cloud: cloud, region: region}
	if cloud == google || cloud == azure {
		p.continent = continentOf(cloud, region)
	}
	return p, nil
}

func parsePlaces(from, to string) (a, b cloudRegion, err error) {
	if a, err = parsePlace(from); err != nil {
		return a, b, err
	}
	b, err = parsePlace(to)
	return a, b, err
}

func hoursPerGiB(from, to cloudRegion) float64 {
	if from == to {
		return 0
	}
	return interRegionHoursPerGiB
}

func (e *Prices) usdPerGiB(from, to cloudRegion) float64 {
	if from == to {
		return 0
	}
	within := from.cloud == to.cloud
	switch from.cloud {
	case "aws":
		if !within {
			to.region = internet
		}
		return e.awsUSD(from.region, to.region)
	case google:
		if within {
			return googleContinentUSD(from.continent, to.continent)
		}
		return googleInternetUSD
	case azure:
		if within {
			return azureContinentUSD(from.continent, to.continent)
		}
		return azureInternetFrom(from.continent)
	case "lambda":
		return 0
	default:
		return unknownInternetUSD
	}
}

func (e *Prices) awsUSD(from, to string) float64 {
	if usd, ok := e.aws[[2]string{from, to}]; ok {
		return usd
	}
	if usd, ok := e.awsMaxUSD[from]; ok && to != internet {
		return usd
	}
	return awsInternetUSD
}
