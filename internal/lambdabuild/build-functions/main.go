// Command build-functions compiles the Lambda functions. It fails if one is above the size that the project allows.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"

	"github.com/tradewind-broker/tradewind/internal/lambdabuild"
)

func main() {
	arch := flag.String("arch", runtime.GOARCH, "architecture to build for")
	out := flag.String("out", "dist/lambda", "folder to build into")
	anySize := flag.Bool("any-size", false, "accept binaries above 20 MB, which are not for Lambda")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := lambdabuild.All(ctx, *arch, *out, *anySize); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
