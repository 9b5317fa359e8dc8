// Command data moves the same files with this repository's transfer, rclone and s5cmd, to and from the same servers in
// one run: MinIO for S3, fake-gcs-server for Google Cloud Storage and Azurite for Azure Blob. It prints wall time,
// processor time and memory of each, and the ratio to the faster peer. The programs take turns; every byte of the
// result is compared.
//
//	bin/bench/data -report bench/RESULTS.md
//
// Ours runs as a separate process that requests grants from the benchmark, as an agent does from the broker. Servers
// and programs share the machine, so a program that needs less processor time is also faster.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/benchreport"
)

// settings are the sizes of a run.
type settings struct {
	size    int64          // bytes of a large file
	large   int            // number of large files
	small   int            // number of small files
	repeat  int            // maximum number of rounds of a row
	enough  time.Duration  // no further round after this time
	nodes   int            // processes that read the same input
	width   int            // bandwidth of the store then, MB a second for all of them
	spread  int64          // size of that input, MiB
	only    *regexp.Regexp // rows to measure
	dir     string         // for all files
	profile string
	tell    func(string, ...any)
}

// smallSize is the size of a small file in bytes.
const smallSize = 4 << 10

func main() {
	log.SetFlags(0)
	proc.Reexec()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == moving {
		return move(ctx, args[1:])
	}
	flags := flag.NewFlagSet("data", flag.ExitOnError)
	s := settings{tell: log.Printf}
	page := flags.String("report", "", "page whose section to update; standard output if empty")
	size := flags.Int64("size", 1024, "MiB of a large file")
	flags.IntVar(&s.large, "large", 4, "number of large files")
	flags.IntVar(&s.small, "files", 100_000, "number of files of 4 KiB")
	flags.IntVar(&s.repeat, "repeat", 7, "maximum number of rounds of each row")
	flags.DurationVar(&s.enough, "enough", 90*time.Second, "start no further round of a row after this time")
	flags.IntVar(&s.nodes, "nodes", 16, "processes that read the same input")
	flags.IntVar(&s.width, "width", 50, "bandwidth of the store for all of them together, MB a second")
	flags.Int64Var(&s.spread, "spread", 128, "size of that input, MiB")
	only := flags.String("only", "", "regular expression for the rows to measure")
	flags.StringVar(&s.dir, "dir", "", "folder for all files; a temporary one if empty")
	flags.StringVar(&s.profile, "profile", "", "folder for profiles of our processes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s.size = *size << 20
	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		return err
	}
	body, err := measure(ctx, s)
	if err != nil {
		return err
	}
	const title = "Data"
	body = fmt.Sprintf("`bin/bench/data -size %d -large %d -files %d -repeat %d -nodes %d -enough %s`. Medians; "+
		"programs and servers share the processors. \"tradewind\" keeps a manifest with the digest of "+
		"every byte and bundles small files; "+
		"\"plain objects\" is one object for each file, like the peers.\n\n",
		*size, s.large, s.small, s.repeat, s.nodes, s.enough) + body
	fmt.Println(benchreport.Section(title, body, time.Now()))
	if *page == "" {
		return nil
	}
	return benchreport.Write(*page, title, body, time.Now())
}

// measure creates the files, starts the servers and runs the contests.
func measure(ctx context.Context, s settings) (body string, err error) {
	dir, err := os.MkdirTemp(s.dir, "tradewind-data-*")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s.dir = dir
	b := &bench{dir: dir, mine: []program{ours{profile: s.profile}, ours{plain: true, profile: s.profile}}}
	if path, err := peer("s5cmd"); err == nil {
		b.peers = append(b.peers, s5cmd{path})
	}
	if path, err := peer("rclone"); err == nil {
		b.peers = append(b.peers, rclone{path})
	}
	if len(b.peers) == 0 {
		return "", errors.New("neither s5cmd nor rclone is installed: run scripts/bench-data.sh")
	}
	body = head
	more, err := b.rows(ctx, s, func(c contest) error {
		if !s.only.MatchString(c.what) {
			return nil
		}
		results, err := c.run(ctx, s)
		if err == nil {
			body += c.line(results)
		}
		return err
	})
	return body + more, err
}

// rows creates each row when it is due and passes it to hold.
func (b *bench) rows(ctx context.Context, s settings, hold func(contest) error) (more string, err error) {
	large := workload{name: "large", files: s.large, size: s.size}
	fewer := workload{name: "fewer", files: s.large, size: max(s.size/8, 1<<20)}
	small := workload{name: "small", files: s.small, size: smallSize}
	a, err := openS3(ctx, b.dir, "a")
	if err != nil {
		return "", err
	}
	defer a.stop()
	for _, w := range []workload{large, small} {
		if err := errors.Join(b.up(s, a, "S3", w, hold), b.down(ctx, s, a, "S3", w, hold)); err != nil {
			return "", err
		}
	}
	for _, w := range []workload{large, {name: "few", files: min(s.small, 1000), size: smallSize}} {
		if err := b.mounted(s, a, w, hold); err != nil {
			return "", err
		}
	}
	other, err := openS3(ctx, b.dir, "b")
	if err != nil {
		return "", err
	}
	defer other.stop()
	what := "S3 to S3, " + sizes(large)
	if s.only.MatchString(what) {
		if err := b.cross(ctx, a, other, what, large, hold); err != nil {
			return "", err
		}
	}
	for name, open := range map[string]func() (*place, error){
		"Google": func() (*place, error) { return openGCS(ctx) },
		"Azure":  func() (*place, error) { return openAzure(ctx, filepath.Join(b.dir, "az")) },
	} {
		if err := b.elsewhere(ctx, s, a, name, open, fewer, hold); err != nil {
			return "", err
		}
	}
	return b.spreads(ctx, s, a)
}

// elsewhere runs the contests of a place that is not S3. Each row has a new server: one of the servers keeps removed
// data on disk for minutes, and a row writes about ten gigabytes.
func (b *bench) elsewhere(ctx context.Context, s settings, a *place, name string,
	open func() (*place, error), w workload, hold func(contest) error,
) error {
	across := "S3 to " + name + ", " + sizes(w)
	for _, row := range []func(*place) error{
		func(at *place) error { return b.up(s, at, name, w, hold) },
		func(at *place) error { return b.down(ctx, s, at, name, w, hold) },
		func(at *place) error {
			if !s.only.MatchString(across) {
				return nil
			}
			return b.cross(ctx, a, at, across, w, hold)
		},
	} {
		at, err := open()
		if absent(err) {
			s.tell("%s: skipped: %v", name, err)
			return nil
		}
		if err != nil {
			return err
		}
		err = row(at)
		at.stop()
		if err != nil {
			return err
		}
	}
	return nil
}

func sizes(w workload) string {
	if w.size < 1<<20 {
		return fmt.Sprintf("%d × %d KiB", w.files, w.size>>10)
	}
	return fmt.Sprintf("%d × %d MiB", w.files, w.size>>20)
}

// up runs the contest that uploads a workload to a place.
func (b *bench) up(s settings, at *place, name string, w workload, hold func(contest) error) error {
	what := name + ", " + sizes(w)
	if !s.only.MatchString(what + " up") {
		return nil
	}
	if err := b.make(w); err != nil {
		return err
	}
	return hold(b.uploads(at, what, w))
}

// down runs the contest that downloads a workload from a place.
func (b *bench) down(ctx context.Context, s settings, at *place, name string, w workload,
	hold func(contest) error,
) error {
	what := name + ", " + sizes(w)
	if !s.only.MatchString(what + " down") {
		return nil
	}
	if err := b.make(w); err != nil {
		return err
	}
	c, err := b.downloads(ctx, at, what, w, b.programs(at))
	if err == nil {
		err = hold(c)
	}
	return errors.Join(err, at.empty(ctx, "down"))
}

func (b *bench) cross(ctx context.Context, from, to *place, what string, w workload, hold func(contest) error) error {
	if err := b.make(w); err != nil {
		return err
	}
	c, err := b.across(ctx, from, to, what, w)
	if err == nil {
		err = hold(c)
	}
	return errors.Join(err, from.empty(ctx, "down"))
}

// make writes a workload's files once.
func (b *bench) make(w workload) error {
	if _, err := os.Stat(b.source(w)); err == nil {
		return nil
	}
	return w.write(b.source(w))
}
