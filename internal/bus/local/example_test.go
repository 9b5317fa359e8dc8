package local_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/tradewind-broker/tradewind/internal/bus/local"
	"github.com/tradewind-broker/tradewind/internal/store/bolt"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// A store and a bus in one file, with the relay between them.
func ExampleNew() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file, err := bolt.OpenFile(filepath.Join(dir, "tradewind.db"), bolt.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	s := bolt.New(file)
	b, err := local.New(file, local.Config{
		Queues: []bus.QueueConfig{{Name: "schedule", Visibility: time.Minute, MaxAttempts: 5, BackoffMin: time.Second, BackoffMax: time.Minute}},
		Route:  bus.Route{"tradewind.task.ready.v1": {"schedule"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()

	// A handler commits a record and its event.
	task := store.Write{Key: store.Key{Partition: "job/1", Sort: "task/train"}, Expect: store.Absent, Body: []byte(`{"state":"ready"}`)}
	ready := store.Event{ID: "job/1/train/ready", Body: []byte(`{"type":"tradewind.task.ready.v1"}`)}
	if err := s.Commit(ctx, store.Tx{Writes: []store.Write{task}, Events: []store.Event{ready}}); err != nil {
		log.Fatal(err)
	}

	// The relay publishes the events of the outbox, then marks them published.
	events, err := s.Outbox(ctx, 100)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range events {
		if err := b.Publish(ctx, bus.Message{ID: e.ID, Type: "tradewind.task.ready.v1", Group: "job/1", Body: e.Body}); err != nil {
			log.Fatal(err)
		}
		if err := s.Published(ctx, e.ID); err != nil {
			log.Fatal(err)
		}
	}

	// The function receives it.
	deliveries, err := b.Receive(ctx, "schedule", 10, time.Second)
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range deliveries {
		fmt.Println(d.ID, "attempt", d.Attempt)
		if err := b.Ack(ctx, "schedule", d.Receipt); err != nil {
			log.Fatal(err)
		}
	}
	// Output: job/1/train/ready attempt 1
}
