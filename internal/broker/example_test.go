package broker_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/bus/local"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// This example has a broker with a store and a bus in memory, and the loop that a host writes: the relay publishes
// the events that commits have put into the outbox, and each function gets the events from its queue. Two calls
// simulate the agent.
func Example() {
	ctx := context.Background()
	offers, err := catalog.Default()
	if err != nil {
		log.Fatal(err)
	}
	moves, err := egress.Default()
	if err != nil {
		log.Fatal(err)
	}
	// Each function has a queue. Each type of event goes to the queues of the functions that react to it.
	var queues []bus.QueueConfig
	for _, fn := range events.Functions() {
		queues = append(queues, bus.QueueConfig{
			Name: fn, Visibility: time.Minute, MaxAttempts: 5, BackoffMin: time.Second, BackoffMax: time.Minute,
		})
	}
	b, err := local.NewMemory(local.Config{Queues: queues, Route: events.Routes()})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	clouds := map[string]cloud.Cloud{}
	for _, name := range offers.Clouds() {
		clouds[name] = &fakeCloud{name: name, clusters: map[string]cloud.LaunchSpec{}}
	}
	tw := broker.New(config.Default(), broker.Ports{
		Store: mem.New(), Bus: b, Clouds: clouds, Now: time.Now, Moves: moves,
		Planner: planner.New(offers, moves, planner.DefaultOptions()),
		Tokens:  func(wire.Claims) (string, error) { return "a signed token", nil },
	})

	// loop passes events to the functions until there are none.
	loop := func() {
		for more := true; more; {
			more = false
			for _, fn := range events.Functions() {
				if _, err := tw.Functions.Relay(ctx); err != nil {
					log.Fatal(err)
				}
				deliveries, err := b.Receive(ctx, fn, 10, time.Millisecond)
				if err != nil {
					log.Fatal(err)
				}
				for _, d := range deliveries {
					more = true
					e, err := events.Parse(d.Body)
					if err != nil {
						log.Fatal(err)
					}
					if err := tw.Functions.Handle(ctx, fn, []events.Event{e})[0]; err != nil {
						continue // an event that is not acknowledged is delivered again
					}
					if err := b.Ack(ctx, fn, d.Receipt); err != nil {
						log.Fatal(err)
					}
				}
			}
		}
	}
	show := func(id string) {
		d, err := tw.Views.JobDetail(ctx, id)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s is %s\n", d.State, d.TaskList[0].Name, d.TaskList[0].State)
	}

	spec, err := read.Job("hello.yaml", strings.NewReader(`
apiVersion: tradewind/v1
name: hello
tasks: {greet: {run: echo hello, resources: {cpus: 2+}, time: 10m}}
`))
	if err != nil {
		log.Fatal(err)
	}
	job, err := tw.Users.Submit(ctx, broker.Submission{Spec: spec, Token: "hello-1"})
	if err != nil {
		log.Fatal(err)
	}
	loop() // the task is planned and admitted, and its machine is bought
	show(job.ID)

	// The machine has booted. Its agent says hello, gets the command to run, and reports the result.
	agent := wire.Claims{Job: job.ID, Cluster: record.ClusterID(job.ID, 0, 1)}
	work, err := tw.Agents.Hello(ctx, agent, wire.Hello{Address: "10.0.0.1"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the agent gets the command to", work.Command, work.Assignment.Run)
	report := wire.Report{ID: "1", Attempt: work.Assignment.Attempt, Event: wire.Succeeded}
	if err := tw.Agents.Report(ctx, agent, report); err != nil {
		log.Fatal(err)
	}
	loop() // the machine is released, the job ends
	show(job.ID)
	// Output:
	// running: greet is launching
	// the agent gets the command to run echo hello
	// succeeded: greet is succeeded
}
