package cli

import (
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func TestMachinesMarkEstimates(t *testing.T) {
	list := &apitypes.MachineList{Machines: []apitypes.WorkerView{
		{ID: "bought", USD: 2, BootUSD: 0.25, IdleUSD: 0.5}, {ID: "simulated", USD: 2, BootUSD: 0.25, IdleUSD: 0.5, Simulated: true},
	}}
	out := machineTable(list).Lines(200, text.Style{})
	for _, line := range out {
		want := 0
		if strings.HasPrefix(line, "simulated") {
			want = 3
		}
		if n := strings.Count(line, " est."); n != want {
			t.Errorf("%d estimates, not %d: %s", n, want, line)
		}
	}
}
