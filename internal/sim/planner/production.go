package planner

import (
	"bytes"
	"fmt"
	"io/fs"
	"strconv"
	"testing/fstest"

	"github.com/tradewind-broker/tradewind/internal/broker"
	real "github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Production returns the planner that brokers use, on the offers of a simulated world.
func Production() (broker.Planner, error) {
	c, err := catalog.Load(catalogue())
	if err != nil {
		return nil, err
	}
	o := real.DefaultOptions()
	o.Now = nil // the same input gives the same plan
	return real.New(c, weather.Moves(), o), nil
}

// catalogue returns the listings of a world as the files of a catalogue.
func catalogue() fs.FS {
	files := map[string]*bytes.Buffer{}
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	for _, l := range weather.Catalogue() {
		f := files[l.Cloud]
		if f == nil {
			f = bytes.NewBufferString("InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region," +
				"AvailabilityZone,SpotPrice\n")
			files[l.Cloud] = f
		}
		count := ""
		if l.Accelerators > 0 {
			count = number(l.Accelerators)
		}
		_, _ = fmt.Fprintf(f, "%s,%s,%s,%s,%s,%s,%s,%s,%s\n", l.InstanceType, l.Accelerator, count, number(l.VCPU),
			number(ListingGiB(&l)), number(l.OnDemandUSD), l.Region, l.Zone, number(l.SpotUSD))
	}
	out := fstest.MapFS{}
	for cloud, f := range files {
		out[cloud+".csv"] = &fstest.MapFile{Data: f.Bytes()}
	}
	return out
}
