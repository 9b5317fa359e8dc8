package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// usage is the resources that a program used.
type usage struct {
	wall, cpu time.Duration
	peak      int64 // bytes of memory
}

func (u usage) add(v usage) usage {
	return usage{wall: u.wall + v.wall, cpu: u.cpu + v.cpu, peak: max(u.peak, v.peak)}
}

// program moves a folder to or from a prefix of a place.
type program interface {
	name() string
	upload(ctx context.Context, dir string, to *place, prefix string) (usage, error)
	download(ctx context.Context, from *place, prefix, dir string) (usage, error)
}

// run runs a command to its end. Its processor time does not include the server's.
func run(ctx context.Context, env []string, name string, args ...string) (usage, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // the programs that are compared
	cmd.Env = append(os.Environ(), env...)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	u := usage{wall: time.Since(began)}
	if err != nil {
		if len(out) > 2000 {
			out = out[len(out)-2000:]
		}
		return u, fmt.Errorf("%s: %w: %s", filepath.Base(name), err, out)
	}
	u.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.peak = r.Maxrss << 10 // Linux counts in KiB
	}
	return u, nil
}

// ours is this repository's transfer in a separate process.
type ours struct {
	plain   bool // one object for each file, as in users' own buckets; otherwise with a manifest, as for outputs
	profile string
}

func (o ours) name() string {
	if o.plain {
		return "tradewind, plain objects"
	}
	return "tradewind"
}

func (o ours) move(ctx context.Context, at *place, op, prefix, dir string) (usage, error) {
	g, err := newGranting(ctx, at.store)
	if err != nil {
		return usage{}, err
	}
	defer g.Close() //nolint:errcheck // no longer used
	self, err := os.Executable()
	if err != nil {
		return usage{}, err
	}
	args := []string{moving, "-broker", g.url, "-op", op, "-uri", at.uri + "/" + prefix + "/", "-dir", dir}
	if at.whole {
		args = append(args, "-part", strconv.Itoa(2<<30))
	}
	if o.profile != "" {
		file := op + "-" + strings.ReplaceAll(prefix, "/", "-") + ".pprof"
		args = append(args, "-cpuprofile", filepath.Join(o.profile, file))
	}
	return run(ctx, nil, self, args...)
}

func (o ours) upload(ctx context.Context, dir string, to *place, prefix string) (usage, error) {
	if o.plain {
		return o.move(ctx, to, "put", prefix, dir)
	}
	return o.move(ctx, to, "upload", prefix, dir)
}

func (o ours) download(ctx context.Context, from *place, prefix, dir string) (usage, error) {
	if o.plain {
		return o.move(ctx, from, "fetch", prefix, dir)
	}
	return o.move(ctx, from, "download", prefix, dir)
}

// peer finds a program that scripts/bench-data.sh installs.
func peer(name string) (string, error) {
	tools, err := emulator.ToolsDir()
	if err != nil {
		return "", err
	}
	p := filepath.Join(tools, "bench-data", "bin", name)
	if _, err := os.Stat(p); err != nil {
		return "", &emulator.NotInstalledError{Server: name, Missing: p}
	}
	return p, nil
}

// rclone copies many files at once and large ones in parts, with its fast options.
type rclone struct{ path string }

func (rclone) name() string { return "rclone" }

func (r rclone) copy(ctx context.Context, env []string, from, to string) (usage, error) {
	return run(ctx, append([]string{"RCLONE_CONFIG=" + os.DevNull}, env...), r.path, "copy", from, to,
		"--transfers", "16", "--checkers", "16", "--s3-upload-concurrency", "8", "--s3-chunk-size", "16M",
		"--azureblob-upload-concurrency", "16", "--multi-thread-streams", "8", "--s3-no-check-bucket",
		"--gcs-no-check-bucket", "--no-traverse", "--quiet")
}

func (r rclone) upload(ctx context.Context, dir string, to *place, prefix string) (usage, error) {
	return r.copy(ctx, to.env, dir, to.remote+"/"+prefix)
}

func (r rclone) download(ctx context.Context, from *place, prefix, dir string) (usage, error) {
	return r.copy(ctx, from.env, from.remote+"/"+prefix, dir)
}

// s5cmd uses its default concurrency: 256 objects and five parts of each.
type s5cmd struct{ path string }

func (s5cmd) name() string { return "s5cmd" }

func (s s5cmd) upload(ctx context.Context, dir string, to *place, prefix string) (usage, error) {
	return run(ctx, to.env, s.path, "--endpoint-url", to.s3, "--log", "error", "cp", dir+"/",
		"s3://"+bucketName+"/"+prefix+"/")
}

func (s s5cmd) download(ctx context.Context, from *place, prefix, dir string) (usage, error) {
	return run(ctx, from.env, s.path, "--endpoint-url", from.s3, "--log", "error", "cp",
		"s3://"+bucketName+"/"+prefix+"/*", dir+"/")
}
