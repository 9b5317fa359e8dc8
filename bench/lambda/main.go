// Command lambda measures what a cold start of each Lambda function costs: the size of the binary, the time from the start of the process to
// its first request for work, the time to the first answer, and the memory held by
// then, beside the least that a Lambda function in Go can be. It is the Lambda Runtime API
// that the binaries talk to, at its smallest; the rest of AWS answers nothing.
//
// What it does not measure is Lambda's own part: fetching the code and starting the
// sandbox, which is the same for any function of a size.
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
		page = flag.String("report", "", "page whose section to rewrite; standard output if empty")
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
