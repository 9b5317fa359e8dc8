// Command rehearse deploys the synthesised template to an emulated account, runs
// the real Lambda binaries and agents in it, and does what a user would. It
// prints each step with its result, and exits with 0 if all steps succeeded.
//
//	make rehearse
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/tradewind-broker/tradewind/internal/benchreport"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/account"
	"github.com/tradewind-broker/tradewind/internal/rehearsal/story"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "rehearse:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("rehearse", flag.ContinueOnError)
	assembly := f.String("assembly", "infra/cdk.out", "folder with the output of infra")
	assets := f.String("assets", "dist",
		"folder with lambda/<function>/bootstrap agent/<arch>/tradewind-agent and tradewind, for this machine")
	dir := f.String("dir", "", "folder for machines and logs, which is kept; temporary if empty")
	seed := f.Uint64("seed", 1, "determines what fails")
	four := f.Bool("clouds", false, "rehearse one job on four clouds: Google Cloud, Azure and Lambda's besides AWS")
	refusals := f.Int("refusals", 0,
		"with -clouds: only measure how long this number of jobs takes from Azure's refusal to Google")
	chaos := f.Bool("chaos", false, "kill functions at random moments and make every tenth call fail")
	speed := f.Float64(
		"speed",
		30,
		"how many times faster than deployed schedules run and messages become visible again",
	)
	counted := f.String("report", "", "file to write the counted requests to")
	page := f.String("results", "", "page of results whose section is updated")
	hold := f.Bool("hold", false, "if a step fails, keep everything running until Ctrl-C, for debugging")
	verbose := f.Bool("v", false, "log what happens")
	if err := f.Parse(args); err != nil {
		return err
	}
	level := slog.LevelError
	if *verbose {
		level = slog.LevelInfo
	}
	o := account.Options{
		Assembly: *assembly, Assets: *assets, Arch: runtime.GOARCH, Dir: *dir, Seed: *seed, Speed: *speed,
		Chaos: *chaos, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
	}
	if o.Dir == "" {
		temporary, err := os.MkdirTemp("", "rehearsal-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temporary) //nolint:errcheck // temporary
		o.Dir = temporary
	}
	var err error
	for _, path := range []*string{&o.Assembly, &o.Assets, &o.Dir} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	if *four && *refusals > 0 {
		return failover(ctx, o, *refusals, *page, out)
	}
	if *four {
		return acrossClouds(ctx, o, *hold, out)
	}
	return rehearse(ctx, o, outputs{report: *counted, page: *page, hold: *hold}, out)
}

// outputs is what to do with the results of a rehearsal.
type outputs struct {
	report, page string
	hold         bool
}

func rehearse(ctx context.Context, o account.Options, t outputs, out io.Writer) error {
	began := time.Now()
	w, err := account.Open(ctx, o)
	if err != nil {
		return err
	}
	defer w.Close()
	what := "calm"
	if o.Chaos {
		what = fmt.Sprintf("with functions killed and every tenth call failing, seed %d", o.Seed)
	}
	_, _ = fmt.Fprintf(out, "rehearsal, %s: deployed in %.1f s\n", what, time.Since(began).Seconds())
	tale := &story.Story{World: w, Out: out}
	err = tale.Run(ctx)
	tale.Summary(out)
	if err != nil {
		tale.Aftermath(context.WithoutCancel(ctx), os.Stderr)
		if t.hold {
			_, _ = fmt.Fprintf(os.Stderr, "rehearse: %v\nemulator at %s, API at %s; Ctrl-C ends them\n", err,
				w.Emulator(), w.API)
			<-ctx.Done()
		}
		return err
	}
	took := time.Since(began)
	_, _ = fmt.Fprintf(out, "all steps succeeded, in %.0f s\n", took.Seconds())
	if t.page != "" {
		if err := benchreport.Write(t.page, "AWS, rehearsed", tale.Page(took), time.Now()); err != nil {
			return err
		}
	}
	if t.report == "" {
		return nil
	}
	raw, err := json.MarshalIndent(tale.Report(), "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(t.report, append(raw, '\n'), 0o644) //nolint:gosec // for everyone to read
}
