package readable

import (
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func TestAmountRoundsMemory(t *testing.T) {
	if got := Amount(apitypes.MemoryGiB, 16e9/(1<<30)); got != "14.9 GiB of memory" {
		t.Errorf("16 GB are formatted as %q", got)
	}
}
