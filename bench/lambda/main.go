// Command lambda builds the Lambda functions, and measures what a cold start of
// each costs: the size of the binary, the time from the start of the process to
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
	"runtime"
)

func main() {
	var (
		only    = flag.Bool("build", false, "only build the functions")
		arch    = flag.String("arch", runtime.GOARCH, "architecture to build for")
		out     = flag.String("out", "", "folder to build into; with -build only")
		anySize = flag.Bool("any-size", false, "take binaries above 20 MB, which are not for Lambda; with -build only")
		page    = flag.String("report", "", "page whose section to write anew; standard output when empty")
		runs    = flag.Int("runs", 15, "starts of each function")
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *only {
		err = buildAll(ctx, *arch, *out, *anySize)
	} else {
		err = measureAll(ctx, *runs, *page)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
