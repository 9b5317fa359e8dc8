package broker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// TestRecordMissingFromListIsNotOverwritten: two launches are refused in one location, and the slower one has not
// seen the other's block. It must conflict, or a block of minutes would replace one of hours.
func TestRecordMissingFromListIsNotOverwritten(t *testing.T) {
	b := newBench(t).b
	block := func(within time.Duration) func() error {
		u := b.Transactor().NewUnit(t.Context(), "test")
		known, err := recordcache.List[apitypes.Block](u, record.PartBlocks, "", 0)
		if err != nil || len(known) != 0 {
			t.Fatalf("%v, %v", known, err)
		}
		var d record.Decision
		d.Block(apitypes.Block{Cloud: "aws", Kind: string(cloud.Auth), Until: u.Now.Add(within)})
		if err := u.Apply(d); err != nil {
			t.Fatal(err)
		}
		return u.Finish
	}
	slow, quick := block(time.Minute), block(time.Hour)
	if err := quick(); err != nil {
		t.Fatal(err)
	}
	if err := slow(); !errors.Is(err, store.ErrConflict) {
		t.Errorf("the slower one: %v", err)
	}
}
