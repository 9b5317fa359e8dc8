package attempt

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
)

func TestEgressIsBooked(t *testing.T) {
	moves, err := egress.Default()
	if err != nil {
		t.Fatal(err)
	}
	const mine, theirs, region = "gs://mine", "azblob://theirs", "us-central1"
	stores := config.Stores{Moves: moves, URLs: map[string]string{"gcp:" + region: mine, "azure:eastus": theirs}}
	price := func(from, to string) float64 {
		usd, _, ok := moves.Move(from, to)
		if !ok {
			t.Fatal(from, to)
		}
		return usd
	}
	there, back := price("gcp:"+region, "azure:eastus"), price("azure:eastus", "gcp:"+region)
	if there == back || there == 0 || back == 0 {
		t.Fatalf("both ways cost %v and %v: the test could not tell them apart", there, back)
	}
	cl, start := bought()
	cl.Offer = apitypes.Offer{Cloud: "gcp", Region: region, USDPerHour: 0.1}
	report := func(rank int, event wire.Event, moved ...wire.Moved) {
		st := Reporting{Cluster: cl, Rank: rank, Now: start.Add(time.Minute)}
		st.Decide(wire.Report{Event: event, Moved: moved}, config.Config{Stores: stores})
		cl = st.Cluster
	}
	before := cl.Charged(start.Add(time.Hour))
	report(0, wire.Alive, wire.Moved{Store: mine, Sent: 5 << 30, Received: 5 << 30})
	if cl.EgressUSD() != 0 {
		t.Errorf("%v USD for data that does not move", cl.EgressUSD())
	}
	report(0, wire.Alive, wire.Moved{Store: theirs, Sent: 2 << 30, Received: 1 << 30})
	report(1, wire.Started, wire.Moved{Store: theirs, Received: 4 << 30}, wire.Moved{Store: "file://x", Sent: 1 << 40})
	report(0, wire.Alive, wire.Moved{Store: theirs, Sent: 1 << 30}, wire.Moved{Store: theirs, Received: -1 << 60}) // a late report
	if want := 2*there + 5*back; !near(cl.EgressUSD(), want) {
		t.Errorf("%v USD for 2 GiB there and 5 back, want %v", cl.EgressUSD(), want)
	}
	if got, want := cl.Charged(start.Add(time.Hour))-before, cl.EgressUSD(); !near(got, want) {
		t.Errorf("it is charged %v USD for its egress, want %v", got, want)
	}
	d := DecideReleased(cl, apitypes.Attempt{}, start.Add(time.Hour))
	if told, ok := d.Emits[0].(events.CapacityFreed); !ok || !near(told.USD, before+cl.EgressUSD()) {
		t.Errorf("%+v is booked", d.Emits)
	}
}

func TestEgressIsBookedOnceWhenPriceChanges(t *testing.T) {
	cl, start := bought()
	cl.Nodes[0].EgressUSD = 1
	cl.Reprice(record.MarketRecord{USD: 0.2, At: start.Add(time.Hour)}, 0, start.Add(time.Hour))
	if usd := cl.Charged(start.Add(2 * time.Hour)); !near(usd, 2*0.1+2*0.2+1) {
		t.Errorf("%v USD are charged", usd)
	}
}
