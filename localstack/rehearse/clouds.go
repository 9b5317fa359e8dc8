package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tradewind-broker/tradewind/internal/rehearsal/account"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/clouds"
)

// acrossClouds runs the story of a job on four clouds.
func acrossClouds(ctx context.Context, o account.Options, hold bool, out io.Writer) error {
	began := time.Now()
	w, err := clouds.Open(ctx, o)
	if err != nil {
		return err
	}
	defer w.Close()
	what := "calm"
	if o.Chaos {
		what = fmt.Sprintf("with functions killed and every tenth call failing, seed %d", o.Seed)
	}
	_, _ = fmt.Fprintf(out, "rehearsal on four clouds, %s: deployed in %.1f s\n", what, time.Since(began).Seconds())
	tale := &clouds.Story{World: w, Out: out}
	if err := tale.Run(ctx); err != nil {
		tale.Aftermath(context.WithoutCancel(ctx), os.Stderr)
		if hold {
			_, _ = fmt.Fprintf(os.Stderr, "rehearse: %v\nAPI at %s; Ctrl-C ends it\n", err, w.API)
			<-ctx.Done()
		}
		return err
	}
	_, _ = fmt.Fprintf(out, "all steps succeeded, in %.0f s\n", time.Since(began).Seconds())
	return nil
}
