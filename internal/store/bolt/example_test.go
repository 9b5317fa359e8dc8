package bolt_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/tradewind-broker/tradewind/internal/store/bolt"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := bolt.Open(filepath.Join(dir, "store.db"), bolt.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()

	job := store.Key{Partition: "job/1", Sort: "job"}
	create := store.Tx{Writes: []store.Write{{Key: job, Expect: store.Absent, Body: []byte("submitted")}}}
	fmt.Println("created:", s.Commit(ctx, create))
	fmt.Println("again:", errors.Is(s.Commit(ctx, create), store.ErrConflict))

	records, err := s.Get(ctx, job)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s at version %d: %s\n", records[0].Key, records[0].Version, records[0].Body)
	// Output:
	// created: <nil>
	// again: true
	// job/1/job at version 1: submitted
}
