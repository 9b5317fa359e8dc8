package lambdahost

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
)

// Relay is the name of the function that publishes the outbox.
const Relay = "relay"

// Start makes the sandbox of a function from the process's environment, and serves what handler returns, a function
// that lambda.Start accepts. It does not return. If the start fails, it logs the reason and ends the process, and
// Lambda tries again with the next request.
func Start(fn string, handler func(*Sandbox) (any, error)) {
	s, err := FromEnvironment(fn)
	var serve any
	if err == nil {
		serve, err = handler(s)
	}
	if err != nil {
		// cannot fail for strings
		line, _ := json.Marshal(map[string]string{"level": "ERROR", "message": "cannot start", "function": fn,
			"err": err.Error()})
		fmt.Fprintln(os.Stderr, string(line))
		os.Exit(1)
	}
	lambda.Start(serve)
}
