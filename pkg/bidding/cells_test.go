package bidding_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
)

func TestCellsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		usd := rapid.SliceOf(rapid.Float32()).Draw(t, "usd")
		for _, written := range []any{bidding.Cells(usd), usd} { // as text and as numbers
			text, err := json.Marshal(map[string]any{"usd": written})
			if err != nil {
				t.Fatal(err)
			}
			var w bidding.Worth
			if err := json.Unmarshal(text, &w); err != nil || !slices.Equal(w.USD, usd) {
				t.Errorf("%v is read from %s as %v (%v)", usd, text, w.USD, err)
			}
		}
	})
}

func TestCellsRejectBadInput(t *testing.T) {
	for _, text := range []string{`"3f80000"`, `"3f80000g"`, `"3f8000003f"`, `{}`, `["a"]`} {
		var c bidding.Cells
		if err := json.Unmarshal([]byte(text), &c); err == nil {
			t.Errorf("%s is read as %v", text, c)
		}
	}
	var c bidding.Cells
	if err := json.Unmarshal([]byte(`"3f80"`), &c); !errors.Is(err, bidding.ErrModel) {
		t.Errorf("half a price: %v", err)
	}
}
