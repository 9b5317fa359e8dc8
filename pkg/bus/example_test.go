package bus_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/bus/local"
	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// A consumer rejects a message. It becomes a dead letter, and stays one until a user redrives it.
func ExampleBus() {
	var b bus.Bus
	b, err := local.NewMemory(local.Config{
		Queues: []bus.QueueConfig{{Name: "schedule", Visibility: time.Minute, MaxAttempts: 5}},
		Route:  bus.Route{"tradewind.task.ready.v1": {"schedule"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close() //nolint:errcheck // nothing is stored
	ctx := context.Background()
	ready := bus.Message{ID: "1", Type: "tradewind.task.ready.v1", Group: "job/1", Body: []byte(`{"task":"train"}`)}
	if err := b.Publish(ctx, ready); err != nil {
		fmt.Println(err)
	}
	receive := func(answer func(bus.Delivery) error) {
		deliveries, err := b.Receive(ctx, "schedule", 10, 0)
		for _, d := range deliveries {
			fmt.Printf("%s, attempt %d: %v\n", d.Body, d.Attempt, answer(d))
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	receive(func(d bus.Delivery) error { return b.Reject(ctx, "schedule", d.Receipt, "no such job") })

	dead, err := b.DeadLetters(ctx, "", 10)
	for _, l := range dead {
		fmt.Println(l.Queue, "gave up:", l.Reason, err)
	}
	n, err := b.Redrive(ctx, "schedule")
	fmt.Println(n, "sent again", err)
	receive(func(d bus.Delivery) error { return b.Ack(ctx, "schedule", d.Receipt) })
	// Output:
	// {"task":"train"}, attempt 1: <nil>
	// schedule gave up: no such job <nil>
	// 1 sent again <nil>
	// {"task":"train"}, attempt 1: <nil>
}
