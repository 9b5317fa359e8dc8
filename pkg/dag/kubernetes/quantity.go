package kubernetes

import (
	"math"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// parseQuantity reads a quantity of Kubernetes: 2, 500m, 1.5Gi, 200M, 1e3. The result is in units, bytes for memory.
func parseQuantity(s string) (float64, error) {
	text := strings.TrimSpace(s)
	number, factor := text, 1.0
	for _, unit := range []struct {
		suffix string
		factor float64
	}{
		{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"Pi", 1 << 50}, {"Ei", 1 << 60},
		{"n", 1e-9}, {"u", 1e-6}, {"m", 1e-3},
		{"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}, {"E", 1e18},
	} {
		if n, ok := strings.CutSuffix(text, unit.suffix); ok {
			number, factor = n, unit.factor
			break
		}
	}
	v, err := jobtext.ParseNumber(number)
	if err != nil || number == "" {
		return 0, fault.New(fault.Quote(s)+" is not a quantity", "write 2, 500m, 200Mi or 1.5Gi")
	}
	if v < 0 {
		return 0, fault.New("cannot be negative", "")
	}
	return v * factor, nil
}

// cpus reads a number of processors as a minimum, rounded up to a thousandth.
func cpus(s string) (dag.Range, error) {
	v, err := parseQuantity(s)
	return dag.Range{Min: math.Ceil(v*1000-1e-6) / 1000}, err
}
