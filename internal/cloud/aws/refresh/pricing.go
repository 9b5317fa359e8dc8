package refresh

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/pricing/types"

	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
)

// pricingRegion is the region of the API that has the price list of all regions.
const pricingRegion = "us-east-1"

// onDemand reads the on-demand prices of a region's machine types, in USD per hour: Linux, shared hardware, no
// preinstalled software.
func (r *Refresher) onDemand(ctx context.Context, region string) (map[string]float64, error) {
	return r.listed(ctx, "AmazonEC2", [][2]string{
		{"regionCode", region}, {"operatingSystem", "Linux"}, {"tenancy", "Shared"}, {"preInstalledSw", "NA"},
		{"capacitystatus", "Used"}, {"marketoption", "OnDemand"},
	})
}

// emr reads EMR's surcharges on a region's machine types, in USD per hour: those of EMR itself, not of the Hadoop
// distributions that it once sold too.
func (r *Refresher) emr(ctx context.Context, region string) (map[string]float64, error) {
	return r.listed(ctx, "ElasticMapReduce", [][2]string{{"regionCode", region}, {"softwareType", "EMR"}})
}

// listed reads the hourly prices of machine types from the price list of a service.
func (r *Refresher) listed(ctx context.Context, service string, filters [][2]string) (map[string]float64, error) {
	client := pricing.NewFromConfig(r.Cloud.SDK(pricingRegion))
	in := &pricing.GetProductsInput{ServiceCode: awssdk.String(service), FormatVersion: awssdk.String("aws_v1"),
		MaxResults: awssdk.Int32(100)}
	for _, f := range filters {
		in.Filters = append(in.Filters, types.Filter{Type: types.FilterTypeTermMatch, Field: awssdk.String(f[0]),
			Value: awssdk.String(f[1])})
	}
	prices := map[string]float64{}
	pages := pricing.NewGetProductsPaginator(client, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, aws.Typed(err)
		}
		for _, text := range page.PriceList {
			if name, usd, err := DecodeProduct([]byte(text)); err == nil {
				prices[name] = usd
			}
		}
	}
	return prices, nil
}

// product is the part of a price list entry that is used (AWS Price List API, "aws_v1").
type product struct {
	Product struct {
		Attributes struct {
			InstanceType string `json:"instanceType"`
		} `json:"attributes"`
	} `json:"product"`
	Terms struct {
		OnDemand map[string]struct {
			PriceDimensions map[string]struct {
				Unit         string            `json:"unit"`
				PricePerUnit map[string]string `json:"pricePerUnit"`
			} `json:"priceDimensions"`
		} `json:"OnDemand"`
	} `json:"terms"`
}

// DecodeProduct reads a machine type and its on-demand price, USD per hour, from an entry of the price list.
func DecodeProduct(text []byte) (instanceType string, usd float64, err error) {
	var p product
	if err := json.Unmarshal(text, &p); err != nil {
		return "", 0, fmt.Errorf("price list: %w", err)
	}
	name := p.Product.Attributes.InstanceType
	if name == "" {
		return "", 0, fmt.Errorf("price list: an entry without an instance type")
	}
	found := false
	for _, term := range p.Terms.OnDemand {
		for _, d := range term.PriceDimensions {
			v, err := strconv.ParseFloat(d.PricePerUnit["USD"], 64)
			if d.Unit != "Hrs" || err != nil || !(v > 0 && v < maxUSD) {
				continue
			}
			if found && v != usd {
				return "", 0, fmt.Errorf("price list: %s has several prices", name)
			}
			found, usd = true, v
		}
	}
	if !found {
		return "", 0, fmt.Errorf("price list: %s has no hourly price in USD", name)
	}
	return name, usd, nil
}

// maxUSD is the highest plausible price of an hour.
const maxUSD = 1e5
