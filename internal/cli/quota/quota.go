// Package quota parses and formats amounts of resources for queues: "96", or
// "vcpus=96,memory=512,A100=8,usd-per-hour=20".
package quota

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/fault"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/catalog/accel"
)

// names are the names of resources that are not accelerators.
var names = map[string]string{
	"vcpus": apitypes.VCPUs, "vcpu": apitypes.VCPUs, "cpus": apitypes.VCPUs, "cpu": apitypes.VCPUs,
	"memory": apitypes.MemoryGiB, "memorygib": apitypes.MemoryGiB,
	"usd-per-hour": apitypes.USDPerHour, "usdperhour": apitypes.USDPerHour,
	"usd-per-month": apitypes.USDPerMonth, "usdpermonth": apitypes.USDPerMonth,
}

// Flag is a flag for amounts. A number alone means vCPUs. Repeated flags add to each other.
type Flag struct{ Amounts apitypes.Amounts }

// String implements pflag.Value.
func (f *Flag) String() string { return Tell(f.Amounts) }

// Type implements pflag.Value.
func (*Flag) Type() string { return "amounts" }

// Set implements pflag.Value.
func (f *Flag) Set(s string) error {
	out := maps.Clone(f.Amounts)
	if out == nil {
		out = apitypes.Amounts{}
	}
	for part := range strings.SplitSeq(s, ",") {
		name, value, named := strings.Cut(part, "=")
		if !named {
			name, value = apitypes.VCPUs, part
		}
		name = strings.TrimSpace(name)
		v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || name == "" {
			return errors.New("it has to be NUMBER or RESOURCE=NUMBER, with commas between several: vcpus, " +
				"memory (GiB), usd-per-hour, usd-per-month, or a kind of accelerator")
		}
		if !(v >= 0 && v <= record.MaxAmount) {
			return fmt.Errorf("of %s it has to be a number from 0 to %s", name, text.Number(record.MaxAmount))
		}
		if name, err = resource(name); err != nil {
			return err
		}
		out[name] = v
	}
	f.Amounts = out
	return nil
}

// resource is what the broker calls a resource. A name that is nearly one of those that there are is taken for a slip
// of the hand; another may be of a catalogue of one's own.
func resource(name string) (string, error) {
	if known := names[strings.ToLower(name)]; known != "" {
		return known, nil
	}
	kind, err := accel.Normalize(name)
	if err == nil {
		return kind, nil
	}
	near := fault.Nearest(name, slices.Sorted(maps.Keys(names)))
	var unknown *accel.UnknownError
	if near == "" && errors.As(err, &unknown) && len(unknown.Suggestions) > 0 {
		near = unknown.Suggestions[0]
	}
	if near != "" {
		return "", fmt.Errorf("there is no resource %q; did you mean %s?", name, near)
	}
	return name, nil
}

// Over are amounts in force with what a flag says of some of them; 0 takes one away.
func (f *Flag) Over(old apitypes.Amounts) apitypes.Amounts {
	if len(old) == 0 {
		return f.Amounts
	}
	out := maps.Clone(old)
	maps.Copy(out, f.Amounts)
	return out
}

// Tell writes amounts: "A100=8, memoryGiB=512"; empty for none.
func Tell(a apitypes.Amounts) string {
	words := make([]string, 0, len(a))
	for _, name := range slices.Sorted(maps.Keys(a)) {
		words = append(words, name+"="+text.Number(a[name]))
	}
	return strings.Join(words, ", ")
}

// Of writes what of resources beside vCPUs a queue holds and may hold: "A100 4 of 8, usdPerHour 3.2 of 20"; empty where
// it bounds none. Of a month's budget it is what was spent and is set aside, there and below.
func Of(q *apitypes.Queue) string {
	words := make([]string, 0, len(q.Max))
	for _, name := range slices.Sorted(maps.Keys(q.Max)) {
		if name == apitypes.USDPerMonth {
			words = append(words, fmt.Sprintf("%s %s of %s in %s, %s of it set aside", name,
				text.USD(q.Month.SpentUSD+q.Month.ReservedUSD+q.Month.BelowUSD), text.USD(q.Max[name]), q.Month.Of,
				text.USD(q.Month.ReservedUSD+q.Month.AsideBelowUSD)))
			continue
		}
		words = append(words, fmt.Sprintf("%s %.4g of %.4g", name, q.Use[name], q.Max[name]))
	}
	for _, x := range []struct {
		what string
		of   apitypes.Amounts
	}{{"deserves", q.Deserved}, {"guaranteed", q.Guaranteed}} {
		if len(x.of) > 0 {
			words = append(words, x.what+" "+Tell(x.of))
		}
	}
	return strings.Join(words, ", ")
}
