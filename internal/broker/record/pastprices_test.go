package record_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

func TestPastPricesRecordStaysSmall(t *testing.T) {
	p := record.PastPrices{Offer: "aws/us-east-1/use1-az1/p3.2xlarge"}
	begin := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for i := range 500 {
		p.Add(begin.Add(time.Duration(i)*time.Hour), 0.9137+float64(i)/10000)
		p.Add(begin.Add(time.Duration(i)*time.Hour), 7)                        // the same time again
		p.Add(begin.Add(time.Duration(i)*time.Hour).Add(-time.Millisecond), 8) // and an earlier one
	}
	if len(p.Points) != record.MaxPastPrices {
		t.Fatalf("%d prices are kept", len(p.Points))
	}
	last := p.Points[len(p.Points)-1]
	if want := begin.Add(499 * time.Hour).UnixMilli(); last.At != want || last.USD < 0.96 || last.USD > 0.97 {
		t.Errorf("the last is %+v, want %d", last, want)
	}
	body, err := json.Marshal(p)
	if err != nil || len(body) > 4096 {
		t.Errorf("the record has %d bytes (%v)", len(body), err)
	}
}
