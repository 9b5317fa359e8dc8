package aws_test

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

func TestSpotPricesReturnsChangesByZoneID(t *testing.T) {
	w := newWorld(t, nil)
	w.launch(w.spec("c", spot, 1))
	prices := aws.NewSpotPrices(w.aws, nil, time.Now)
	ticks, err := prices.SpotPrices(t.Context())
	if err != nil || len(ticks) != 5 { // one for each zone that has the type
		t.Fatalf("%+v, %v", ticks, err)
	}
	want := events.PriceTick{Offer: "aws/us-east-1/use1-az1/t3.micro", USD: 0.00001, Since: ticks[0].Since} // the emulator's price
	if ticks[0] != want || ticks[0].Since.IsZero() {
		t.Errorf("%+v, want %+v", ticks[0], want)
	}
	if again, err := prices.SpotPrices(t.Context()); err != nil || len(again) != 0 {
		t.Errorf("unchanged prices were returned again: %+v, %v", again, err)
	}
	w.proxy.rewrite("DescribeSpotPriceHistory", "<spotPrice>0.00001<", "<spotPrice>0.0042<")
	if again, err := prices.SpotPrices(t.Context()); err != nil || len(again) != 5 || again[0].USD != 0.0042 {
		t.Errorf("new prices: %+v, %v", again, err)
	}
}

func TestWatchingIncludesRunningAndWaitingTypes(t *testing.T) {
	w := newWorld(t, nil)
	w.launch(w.spec("c", spot, 1))
	types, err := w.aws.Watching(func(context.Context) ([]string, error) { return []string{"aws/us-east-1/use1-az1/m5.large"}, nil })(t.Context())
	if want := map[string][]string{"us-east-1": {"t3.micro", "m5.large"}}; err != nil || !reflect.DeepEqual(types, want) {
		t.Errorf("%v, %v", types, err)
	}
}

func TestSpotPricesReadsOnlyWatchedTypes(t *testing.T) {
	w := newWorld(t, func(c *aws.Config) { c.Home, c.Regions = "us-east-1", []string{"us-east-1", "eu-west-1"} })
	watched := aws.TypesOf([]string{"aws/eu-west-1/euw1-az1/m5.large/spot", "aws/eu-west-1/euw1-az2/c5.large", "gcp/us-central1/us-central1-a/n1-standard-8+V100:1", "aws/x"})
	if want := map[string][]string{"eu-west-1": {"c5.large", "m5.large"}}; !reflect.DeepEqual(watched, want) {
		t.Fatalf("%v", watched)
	}
	prices := aws.NewSpotPrices(w.aws, func(context.Context) (map[string][]string, error) { return watched, nil }, time.Now)
	ticks, err := prices.SpotPrices(t.Context())
	if err != nil || len(ticks) != 6 { // three zones, two types
		t.Errorf("%+v, %v", ticks, err)
	}
	if n := w.proxy.count("DescribeSpotPriceHistory"); n != 1 {
		t.Errorf("%d calls", n)
	}
	w.proxy.refuse("DescribeSpotPriceHistory", 2, "RequestLimitExceeded", "slow down", http.StatusServiceUnavailable, nil)
	if _, err := prices.SpotPrices(t.Context()); cloud.KindOf(err) != cloud.Throttled || !strings.Contains(err.Error(), "slow down") {
		t.Errorf("%v", err)
	}
}
