package arm

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// item is a line of the retail price list ("Azure Retail Prices REST API").
type item struct {
	Currency    string  `json:"currencyCode"`
	TierMinimum float64 `json:"tierMinimumUnits"`
	Retail      float64 `json:"retailPrice"`
	Unit        float64 `json:"unitPrice"`
	Region      string  `json:"armRegionName"`
	Location    string  `json:"location"`
	From        string  `json:"effectiveStartDate"`
	Meter       string  `json:"meterName"`
	Product     string  `json:"productName"`
	SKU         string  `json:"skuName"`
	Service     string  `json:"serviceName"`
	Family      string  `json:"serviceFamily"`
	Measure     string  `json:"unitOfMeasure"`
	Type        string  `json:"type"`
	Primary     bool    `json:"isPrimaryMeterRegion"`
	ARM         string  `json:"armSkuName"`
	Plans       []rate  `json:"savingsPlan,omitempty"`
}

// rate is the rate of a machine in a savings plan.
type rate struct {
	Unit   float64 `json:"unitPrice"`
	Retail float64 `json:"retailPrice"`
	Term   string  `json:"term"`
}

// plansVersion is the version of the API whose price list has the rates of plans.
const plansVersion = "2023-01-01-preview"

var regionFilter = regexp.MustCompile(`armRegionName eq '([^']*)'`)

// pricesPage is the number of lines in a page of the price list.
const pricesPage = 5

// prices answers for the retail prices, which are public and not part of Resource Manager.
func (s *Server) prices(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return fault(http.StatusMethodNotAllowed, "MethodNotAllowed", "Only GET.")
	}
	s.calls["GET prices"]++
	if _, instead := s.trouble("GET prices"); instead != nil {
		return instead
	}
	query := r.URL.Query()
	m := regionFilter.FindStringSubmatch(query.Get("$filter"))
	var all []item
	for _, l := range s.cfg.Locations {
		if m == nil || m[1] == l.Name {
			for _, z := range s.cfg.Sizes {
				all = append(all, z.items(l.Name, query.Get("api-version") == plansVersion)...)
			}
		}
	}
	skip, _ := strconv.Atoi(query.Get("$skip"))
	skip = min(max(skip, 0), len(all))
	end := min(skip+pricesPage, len(all))
	answer := map[string]any{"BillingCurrency": "USD", "CustomerEntityId": "Default", "CustomerEntityType": "Retail",
		"Items": append([]item{}, all[skip:end]...), "NextPageLink": nil, "Count": end - skip}
	if end < len(all) {
		next := url.Values{"$filter": {query.Get("$filter")}, "$skip": {strconv.Itoa(end)}}
		if version := query.Get("api-version"); version != "" {
			next.Set("api-version", version)
		}
		answer["NextPageLink"] = "http://" + r.Host + r.URL.Path + "?" + next.Encode()
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	return json.NewEncoder(w).Encode(answer)
}

// items returns a size's lines in a region: on demand, spot, with Windows, reserved, and low priority. With plans, the
// on-demand lines have the rates of savings plans.
func (z Size) items(region string, plans bool) []item {
	name := strings.ReplaceAll(strings.TrimPrefix(z.Name, "Standard_"), "_", " ")
	if z.MeterName != "" {
		name = z.MeterName
	}
	line := func(usd float64, meter, product, kind string) item {
		return item{
			Currency: "USD", Retail: usd, Unit: usd, Region: region, Location: region, From: "2026-01-01T00:00:00Z",
			Meter: name + meter,
			SKU:   name + meter, Product: "Virtual Machines " + z.Family + " Series" + product,
			Service: "Virtual Machines", Family: "Compute",
			Measure: "1 Hour", Type: kind, Primary: true, ARM: z.Name,
		}
	}
	all := []item{
		line(z.USD, "", "",
			"Consumption"), line(2*z.USD, "", " Windows", "Consumption"), line(365*24*z.USD/2, "", "", "Reservation"),
	}
	if plans && z.OneYearUSD > 0 {
		all[0].Plans = []rate{{z.ThreeYearsUSD, z.ThreeYearsUSD, "3 Years"}, {z.OneYearUSD, z.OneYearUSD, "1 Year"}}
		all[1].Plans = []rate{{9, 9, "3 Years"}, {9, 9, "1 Year"}} // for Windows
	}
	if !z.NoSpotCapable {
		all = append(all, line(z.SpotUSD, " Spot", "", "Consumption"),
			line(3*z.SpotUSD, " Spot", " Windows", "Consumption"))
	}
	if z.LowPriority {
		all = append(all, line(z.USD/5, " Low Priority", "", "Consumption"))
	}
	return all
}
