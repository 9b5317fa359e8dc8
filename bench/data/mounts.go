package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/bench/internal/processor"
	"github.com/tradewind-broker/tradewind/internal/agent/mount"
	"github.com/tradewind-broker/tradewind/internal/agent/stage"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// mounted is the row of a task that writes a workload: to a cached mount, until everything is uploaded, or to a folder
// that is copied afterwards. It is skipped if mounting is not possible.
func (b *bench) mounted(s settings, at *place, w workload, hold func(contest) error) error {
	what := "cached mount, " + sizes(w) + " written"
	if !s.only.MatchString(what) {
		return nil
	}
	program, err := peer("rclone")
	if err = errors.Join(err, mount.CheckFUSE()); err != nil {
		s.tell("%s: skipped: %v", what, err)
		return nil
	}
	if err := b.make(w); err != nil {
		return err
	}
	copied := ours{plain: true}
	runs := map[string]func(context.Context, string) (usage, error){
		"tradewind, cached mount": func(ctx context.Context, prefix string) (usage, error) {
			return b.throughMount(ctx, at, program, prefix, w)
		},
		"written, then copied": func(ctx context.Context, prefix string) (usage, error) {
			dir := filepath.Join(b.dir, "written")
			defer os.RemoveAll(dir) //nolint:errcheck // inside the benchmark's folder, which is removed anyway
			u, err := run(ctx, nil, "cp", "-r", b.source(w), dir)
			if err != nil {
				return u, err
			}
			v, err := copied.upload(ctx, dir, at, prefix)
			v.wall += u.wall
			return v, err
		},
	}
	c := contest{what: what, work: w}
	for i, name := range []string{"tradewind, cached mount", "written, then copied"} {
		prefix := fmt.Sprintf("mount/%d", i)
		c.contenders = append(c.contenders, contender{
			name:  name,
			run:   func(ctx context.Context) (usage, error) { return runs[name](ctx, prefix) },
			clean: func(ctx context.Context) error { return at.empty(ctx, prefix) },
			check: func(ctx context.Context) error {
				return b.arrived(ctx, copied, at, prefix, w, filepath.Join(b.dir, "back"))
			},
		})
	}
	return hold(c)
}

// throughMount writes a workload to a mount and waits until everything is uploaded. Mounting and unmounting are not
// measured. Processor time is rclone's from its start plus this process's, which uploads and grants as well.
func (b *bench) throughMount(ctx context.Context, at *place, program, prefix string, w workload) (u usage, err error) {
	dir, err := os.MkdirTemp(b.dir, "mount-*")
	if err != nil {
		return u, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // inside the benchmark's folder, which is removed anyway
	point := filepath.Join(dir, "point")
	if err := os.Mkdir(point, 0o700); err != nil {
		return u, err
	}
	g, err := newGranting(ctx, at.store)
	if err != nil {
		return u, err
	}
	defer g.Close() //nolint:errcheck // no longer used
	tr := stage.Transfer{Grants: grantClient{g.url}, Batch: wire.MaxWants}
	uri, own := at.uri+"/"+prefix+"/", filepath.Join(dir, "own")
	m, err := mount.Start(ctx, mount.Spec{
		URI: uri, Mode: mount.Cached, Point: point, Dir: own, Program: program, Environ: os.Environ(),
		Upload: func(ctx context.Context, dir string, files []string) error {
			return tr.PutFiles(ctx, dir, files, uri)
		},
	}, grant.Credentials{
		Expires: time.Now().Add(12 * time.Hour), Endpoint: at.s3, Region: "us-east-1", PathStyle: true,
		AccessKey: servers.S3AccessKey, SecretKey: servers.S3SecretKey,
	})
	if err != nil {
		return u, err
	}
	defer m.Close()
	began, before := time.Now(), processor.Time()
	if _, err := run(ctx, nil, "cp", "-r", b.source(w)+"/.", point); err != nil {
		return u, err
	}
	err = m.Flush(ctx)
	u = usage{wall: time.Since(began)}
	if err == nil {
		u.cpu, err = processorOf(filepath.Join(own, "cache"))
		u.cpu += processor.Time() - before
	}
	return u, err
}

// ticks is the number of processor time units in /proc per second, on every Linux that Go supports.
const ticks = 100

// processorOf is the processor time of the single process that has a path among its arguments.
func processorOf(arg string) (time.Duration, error) {
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	for _, name := range found {
		argv, err := os.ReadFile(name) //nolint:gosec // of a process, which may have ended
		if err != nil || !slices.Contains(strings.Split(string(argv), "\x00"), arg) {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(filepath.Dir(name), "stat")) //nolint:gosec // of that process
		if err != nil {
			return 0, err
		}
		_, rest, _ := strings.Cut(string(stat), ") ") // proc(5): the fields after the name, utime and stime
		fields := strings.Fields(rest)
		var user, system int64
		if len(fields) > 12 {
			user, err = strconv.ParseInt(fields[11], 10, 64)
		}
		if err == nil && len(fields) > 12 {
			system, err = strconv.ParseInt(fields[12], 10, 64)
		}
		return time.Duration(user+system) * time.Second / ticks, err
	}
	return 0, fmt.Errorf("no process has %s among its arguments", arg)
}
