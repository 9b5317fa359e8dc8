package record_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func TestTellAmountRoundsMemory(t *testing.T) {
	if got := record.TellAmount(apitypes.MemoryGiB, 16e9/(1<<30)); got != "14.9 GiB of memory" {
		t.Errorf("16 GB are formatted as %q", got)
	}
}
