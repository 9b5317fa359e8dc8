package azure

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
)

// PricesURL is Azure's public price list.
const PricesURL = "https://prices.azure.com/api/retail/prices"

// Limits for entries of the price list.
const (
	maxUSD     = 1e5      // for an hour
	maxPage    = 16 << 20 // bytes
	maxPages   = 500      // a region has some 40 of 1,000 lines
	pageWithin = 30 * time.Second
)

// Price is the price of a machine type, in USD per hour.
type Price struct {
	InstanceType string
	Spot         bool
	USD          float64
	From         string // start of validity, RFC 3339: the later of two prices applies
	// OneYear and ThreeYears are the rates of the machine under savings plans of one and three years, in USD per hour;
	// 0 if the list has no rate.
	OneYear, ThreeYears float64
}

// item is the part of a price list line that is used ("Azure Retail Prices REST API").
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

// price reads the price of a Linux machine from a line. ok is false for other lines: for Windows, reservations, or
// low priority, the former name of spot.
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

// plans reads the rates of savings plans from a line.
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

// DecodePrices reads the prices of machines from a page of the price list, and the address of the next page, if any.
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

// list has the prices of a region, by machine type: on-demand, spot, and the rates of plans by term in years.
type priceList struct {
	onDemand, spot map[string]float64
	plans          map[int]map[string]float64
}

// priceList reads all pages of a region's prices, in a version of the list. Without a version there are no rates of
// plans. If a page is missing, priceList fails, because the types on that page would seem unsold.
func (r *Refresher) priceList(ctx context.Context, region, version string) (priceList, error) {
	l := priceList{onDemand: map[string]float64{}, spot: map[string]float64{},
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

// follow returns the next page's address, which must be on the same host as the first.
func follow(first *url.URL, next string) (string, error) {
	if next == "" {
		return "", nil
	}
	u, err := url.Parse(next)
	if err != nil {
		return "", fmt.Errorf("price list: invalid address of the next page: %.100q", next)
	}
	if u.Hostname() != first.Hostname() {
		return "", fmt.Errorf("price list: the next page is on another host: %.100q", u.Host)
	}
	u.Scheme, u.Host = first.Scheme, first.Host // Azure adds a port to the host
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
			Cloud:      Name,
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
