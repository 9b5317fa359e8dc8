package refresh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/azure"
)

// PricesURL is where Azure publishes what it costs, to everybody.
const PricesURL = "https://prices.azure.com/api/retail/prices"

// Bounds of what is believed of the price list.
const (
	maxUSD     = 1e5      // for an hour
	maxPage    = 16 << 20 // bytes
	maxPages   = 500      // a region has some 40 of 1,000 lines
	pageWithin = 30 * time.Second
)

// Price is one of a machine type, in USD per hour.
type Price struct {
	InstanceType string
	Spot         bool
	USD          float64
	From         string // since when, RFC 3339: of two the later holds
	// OneYear and ThreeYears are what it takes of a savings plan of so long; 0 where none covers it, or nobody tells.
	OneYear, ThreeYears float64
}

// item is what is read of a line of the price list ("Azure Retail Prices REST API").
type item struct {
	Currency string  `json:"currencyCode"`
	Tier     float64 `json:"tierMinimumUnits"`
	Retail   float64 `json:"retailPrice"`
	From     string  `json:"effectiveStartDate"`
	End      string  `json:"effectiveEndDate"`
	Meter    string  `json:"meterName"`
	Product  string  `json:"productName"`
	SKU      string  `json:"skuName"`
	Measure  string  `json:"unitOfMeasure"`
	Type     string  `json:"type"`
	ARM      string  `json:"armSkuName"`
	Plans    []struct {
		Term   string  `json:"term"`
		Retail float64 `json:"retailPrice"`
	} `json:"savingsPlan"`
}

// price is what a line says of a machine with Linux; ok is false where it says nothing of one: of Windows, of
// reservations, of low priority, which is what spot was called before.
func (i item) price() (p Price, ok bool) {
	named := strings.HasPrefix(i.ARM, "Standard_") || strings.HasPrefix(i.ARM, "Basic_")
	for _, other := range []string{"Windows", "Cloud Services", "CloudServices", "Dedicated Host"} {
		if strings.Contains(i.Product, other) {
			return p, false
		}
	}
	low := strings.Contains(i.SKU, "Low Priority") || strings.Contains(i.Meter, "Low Priority")
	if !named || low || i.Currency != "USD" || i.Measure != "1 Hour" || i.Type != "Consumption" || i.Tier != 0 ||
		i.End != "" ||
		!(i.Retail > 0 && i.Retail < maxUSD) {
		return p, false
	}
	spot := strings.HasSuffix(i.SKU, " Spot") || strings.HasSuffix(i.Meter, " Spot")
	p = Price{InstanceType: i.ARM, Spot: spot, USD: i.Retail, From: i.From}
	if !spot {
		i.plans(&p)
	}
	return p, true
}

// plans reads what a line says of a price with savings plans.
func (i item) plans(p *Price) {
	for _, plan := range i.Plans {
		switch known := plan.Retail > 0 && plan.Retail < maxUSD; {
		case known && plan.Term == "1 Year":
			p.OneYear = plan.Retail
		case known && plan.Term == "3 Years":
			p.ThreeYears = plan.Retail
		}
	}
}

// DecodePrices reads the prices of machines from a page of the price list, and where the next page is, if there is one.
func DecodePrices(page []byte) (prices []Price, next string, err error) {
	var in struct {
		Items *[]item `json:"Items"`
		Next  string  `json:"NextPageLink"`
	}
	if err := json.Unmarshal(page, &in); err != nil {
		return nil, "", fmt.Errorf("price list: %w", err)
	}
	if in.Items == nil {
		return nil, "", errors.New("price list: a page without items")
	}
	for _, i := range *in.Items {
		if p, ok := i.price(); ok {
			prices = append(prices, p)
		}
	}
	return prices, in.Next, nil
}

// list is the prices of a region, on demand and on the spot, by machine type, and with plans of so many years.
type list struct {
	onDemand, spot map[string]float64
	plans          map[int]map[string]float64
}

// priceList reads all pages of a region's prices, in a version of the list; without one plans have no prices. It fails
// if any of them is not there: half a list says that the rest is not sold.
func (r *Refresher) priceList(ctx context.Context, region, version string) (list, error) {
	l := list{onDemand: map[string]float64{}, spot: map[string]float64{},
		plans: map[int]map[string]float64{1: {}, 3: {}}}
	since := map[Price]string{}
	base := r.Prices
	if base == "" {
		base = PricesURL
	}
	first, err := url.Parse(base)
	if err != nil {
		return l, err
	}
	filter := "serviceName eq 'Virtual Machines' and priceType eq 'Consumption' and armRegionName eq '" + region + "'"
	query := url.Values{"$filter": {filter}}
	if version != "" {
		query.Set("api-version", version)
	}
	first.RawQuery = query.Encode()
	at := first.String()
	for n := 0; at != ""; n++ {
		if n == maxPages {
			return l, fmt.Errorf("price list: more than %d pages", maxPages)
		}
		page, err := r.page(ctx, at)
		if err != nil {
			return l, err
		}
		prices, next, err := DecodePrices(page)
		if err != nil {
			return l, err
		}
		for _, p := range prices {
			which := Price{InstanceType: p.InstanceType, Spot: p.Spot}
			if p.From < since[which] {
				continue
			}
			since[which] = p.From
			if p.Spot {
				l.spot[p.InstanceType] = p.USD
			} else {
				l.onDemand[p.InstanceType] = p.USD
				l.plans[1][p.InstanceType], l.plans[3][p.InstanceType] = p.OneYear, p.ThreeYears
			}
		}
		if at, err = follow(first, next); err != nil {
			return l, err
		}
	}
	if len(l.onDemand) == 0 {
		return l, fmt.Errorf("price list: no prices of machines in %s", region)
	}
	return l, nil
}

// follow is the next page's address, which has to be where the first one was.
func follow(first *url.URL, next string) (string, error) {
	if next == "" {
		return "", nil
	}
	u, err := url.Parse(next)
	if err != nil {
		return "", fmt.Errorf("price list: the next page is at %.100q", next)
	}
	if u.Hostname() != first.Hostname() {
		return "", fmt.Errorf("price list: the next page is at another host, %.100q", u.Host)
	}
	u.Scheme, u.Host = first.Scheme, first.Host // it is given with a port
	return u.String(), nil
}

func (r *Refresher) page(ctx context.Context, at string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, pageWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return nil, err
	}
	client := r.Client
	if client == nil {
		client = http.DefaultClient
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(res.Body, maxPage+1))
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode == http.StatusTooManyRequests:
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		return nil, &cloud.Error{
			Kind:       cloud.Throttled,
			Cloud:      azure.Name,
			Code:       "TooManyRequests",
			Message:    "price list: " + res.Status,
			RetryAfter: time.Duration(max(seconds, 0)) * time.Second,
		}
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("price list: %s", res.Status)
	case len(body) > maxPage:
		return nil, fmt.Errorf("price list: a page of more than %d bytes", maxPage)
	}
	return body, nil
}
