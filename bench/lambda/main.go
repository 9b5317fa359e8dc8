// Command lambda measures the cold start of each Lambda function: the size of the binary, the time from the start of
// the process to its first request for work, the time to the first response, and the memory used until then. For
// comparison it measures the smallest possible Lambda function in Go. The binaries talk to a minimal Lambda Runtime
// API; all other AWS calls get no useful answer.
//
// It does not measure Lambda's own part, fetching the code and starting the sandbox, which is the same for any function
// of a given size.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	var (
		page = flag.String("report", "", "page whose section to update; standard output if empty")
		runs = flag.Int("runs", 15, "starts of each function")
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := measureAll(ctx, *runs, *page); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
