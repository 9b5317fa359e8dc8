package lambdahost

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
)

// Relay is the name of the function that publishes the outbox.
const Relay = "relay"

// Serve runs a function whose events come by its queue. It does not return.
func Serve(fn string, parts ...Part) {
	Run(fn, func(h *Host) (any, error) { return h.HandleSQS, nil }, parts...)
}

// ServeRelay runs the relay, whose events come by the table's stream. It does not return.
func ServeRelay() {
	Run(Relay, func(h *Host) (any, error) { return h.HandleStream, nil })
}

// Run makes the host of a function from the process's environment and serves what handler makes of it. It does not
// return: what cannot start ends the sandbox with the reason in its log, and Lambda tries again with the next request.
func Run(fn string, handler func(*Host) (any, error), parts ...Part) {
	h, err := FromEnvironment(fn, append([]Part{Records, Queues}, parts...)...)
	var serve any
	if err == nil {
		serve, err = handler(h)
	}
	if err != nil {
		// strings only
		line, _ := json.Marshal(map[string]string{"level": "ERROR", "message": "cannot start", "function": fn,
			"err": err.Error()})
		fmt.Fprintln(os.Stderr, string(line))
		os.Exit(1)
	}
	lambda.Start(serve)
}
