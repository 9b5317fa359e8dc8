package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
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
func (f *Flag) String() string { return Format(f.Amounts) }

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
		v, err := amountOf(name, strings.TrimSpace(value))
		if err != nil || name == "" {
			return errors.New("must be NUMBER or RESOURCE=NUMBER, several comma-separated: vcpus, " +
				"memory (GiB), usd-per-hour, usd-per-month, or an accelerator")
		}
		if !(v >= 0 && v <= record.MaxAmount) {
			return fmt.Errorf("%s must be a number from 0 to %s", name, text.Number(record.MaxAmount))
		}
		if name, err = resource(name); err != nil {
			return err
		}
		out[name] = v
	}
	f.Amounts = out
	return nil
}

// amountOf reads an amount of a resource. Money may have its unit: 20 USD or $20.
func amountOf(name, value string) (float64, error) {
	if known := names[strings.ToLower(name)]; known == apitypes.USDPerHour || known == apitypes.USDPerMonth {
		usd, err := dag.ParseAmount(value)
		return float64(usd), err
	}
	return strconv.ParseFloat(value, 64)
}

// resource returns the broker's name of a resource. A name similar to a known one is treated as a typing error; any
// other name may be from a custom catalogue.
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
		return "", fmt.Errorf("unknown resource %q; did you mean %s?", name, near)
	}
	return name, nil
}

// Over returns the old amounts, overridden by the flag's; 0 removes an amount.
func (f *Flag) Over(old apitypes.Amounts) apitypes.Amounts {
	if len(old) == 0 {
		return f.Amounts
	}
	out := maps.Clone(old)
	maps.Copy(out, f.Amounts)
	return out
}

// Format formats amounts: "A100=8, memoryGiB=512"; empty for none.
func Format(a apitypes.Amounts) string {
	words := make([]string, 0, len(a))
	for _, name := range slices.Sorted(maps.Keys(a)) {
		words = append(words, name+"="+text.Number(a[name]))
	}
	return strings.Join(words, ", ")
}

// Describe describes a queue's use and limits of resources other than vCPUs: "A100 4 of 8, usdPerHour 3.2 of 20". It is
// empty if the queue has no such limits. For a monthly budget it shows the spent and reserved amounts, including child
// queues.
func Describe(q *apitypes.Queue) string {
	words := make([]string, 0, len(q.Max))
	for _, name := range slices.Sorted(maps.Keys(q.Max)) {
		if name == apitypes.USDPerMonth {
			words = append(words, fmt.Sprintf("%s %s of %s in %s, %s of it reserved", name,
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
			words = append(words, x.what+" "+Format(x.of))
		}
	}
	return strings.Join(words, ", ")
}
