package store_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// A record and its event are committed together. The commit fails if the caller has not read the record's last
// version.
func ExampleStore() {
	var s store.Store = mem.New()
	ctx, job := context.Background(), store.Key{Partition: "job/1", Sort: "job"}
	write := func(expect store.Version, state string) error {
		return s.Commit(ctx, store.Tx{
			Writes: []store.Write{{Key: job, Expect: expect, Body: []byte(state)}},
			Events: []store.Event{{ID: "job/1/" + state, Body: []byte(`{}`)}},
		})
	}
	fmt.Println(write(store.Absent, "planned"))
	fmt.Println(errors.Is(write(store.Absent, "lost"), store.ErrConflict)) // the record exists, so nothing is written

	records, err := s.Get(ctx, job)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(write(records[0].Version, "running")) // load again, decide again, commit

	events, err := s.Outbox(ctx, 10) // the relay publishes these events
	for _, e := range events {
		fmt.Println(e.ID, err)
	}
	// Output:
	// <nil>
	// true
	// <nil>
	// job/1/planned <nil>
	// job/1/running <nil>
}
