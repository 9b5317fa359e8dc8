package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/mount"
	"github.com/tradewind-broker/tradewind/internal/agent/stage"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// mounts are the mounts of an attempt.
type mounts struct {
	list []*mount.Mount
	lost chan error         // receives the reason for which a mount ended that the agent did not unmount; never closed
	ctx  context.Context    // ends when they are unmounted
	stop context.CancelFunc // nil until something is mounted
}

// lentMount is a mount with credentials from the broker.
type lentMount struct {
	index int // in the task's inputs
	loan  wire.Loan
}

// mountAll mounts the inputs that the task does not copy, at the paths to which they would otherwise be copied.
func (t *attempt) mountAll(ctx context.Context) error {
	var loans []lentMount
	some := false
	for i, in := range t.work.Inputs {
		if in.Mount == "" {
			continue
		}
		some = true
		if !strings.HasPrefix(in.URI, "file://") { // folders of the machine need no credentials
			prefix, err := grant.AsPrefix(in.URI)
			if err != nil {
				return err
			}
			loans = append(loans, lentMount{i, wire.Loan{Prefix: prefix, Write: mount.Mode(in.Mount) != mount.Read}})
		}
	}
	if !some {
		return nil
	}
	if err := t.needFUSE(ctx); err != nil {
		return err
	}
	program, err := t.mounter(ctx)
	if err != nil {
		return err
	}
	creds, err := t.lend(ctx, loans)
	if err != nil {
		return err
	}
	t.mounts.lost = make(chan error, len(t.work.Inputs))
	t.mounts.ctx, t.mounts.stop = context.WithCancel(context.WithoutCancel(ctx))
	byIndex := map[int]*mount.Mount{}
	for i, in := range t.work.Inputs {
		if in.Mount != "" {
			m, err := t.mountOne(ctx, in, i, program, creds[i])
			if err != nil {
				return err
			}
			byIndex[i] = m
		}
	}
	t.wg.Go(func() { t.renewLent(loans, creds, byIndex) })
	return nil
}

// needFUSE checks that the machine can mount. If fuse3 is missing, it is installed, but only on a machine with a
// single task.
func (t *attempt) needFUSE(ctx context.Context) error {
	err := mount.CheckFUSE()
	if err != nil && t.cfg.Sole && os.Geteuid() == 0 {
		t.out.note("this machine has no fuse3: installing it")
		return mount.InstallFUSE(ctx, t.cfg.Environ)
	}
	return err
}

// mounter returns the path of the machine's rclone. If the machine has none, it downloads the broker's.
func (t *attempt) mounter(ctx context.Context) (string, error) {
	found, err := mount.Find(ctx, t.cfg.Environ)
	if err == nil {
		return found, nil
	}
	var answer wire.Mounted
	question := wire.Mounting{Attempt: t.work.Attempt, Loans: []wire.Loan{}, Program: runtime.GOARCH}
	if askErr := (grants{t}).ask(ctx, wire.PathMounts, question, &answer); askErr != nil || answer.Program == nil {
		return "", errors.Join(err, askErr)
	}
	from := answer.Program.URL
	if strings.HasPrefix(from, "/") {
		from = t.client.endpoint + from
	}
	client := t.cfg.Transfer.Client
	if client == nil {
		client = http.DefaultClient
	}
	return mount.Fetch(ctx, client, filepath.Join(t.cfg.Dir, "programs"), from, answer.Program.SHA256)
}

// lend requests credentials from the broker. The result is keyed by the index of the input.
func (t *attempt) lend(ctx context.Context, loans []lentMount) (map[int]grant.Credentials, error) {
	out := map[int]grant.Credentials{}
	if len(loans) == 0 {
		return out, nil
	}
	question := wire.Mounting{Attempt: t.work.Attempt}
	for _, l := range loans {
		question.Loans = append(question.Loans, l.loan)
	}
	var answer wire.Mounted
	if err := (grants{t}).ask(ctx, wire.PathMounts, question, &answer); err != nil {
		return nil, err
	}
	if len(answer.Credentials) != len(loans) {
		return nil, fmt.Errorf("%d credentials for %d mounts", len(answer.Credentials), len(loans))
	}
	for i, l := range loans {
		out[l.index] = answer.Credentials[i]
	}
	return out, nil
}

// mountOne mounts one input.
func (t *attempt) mountOne(ctx context.Context, in wire.Input, i int, program string,
	c grant.Credentials) (*mount.Mount, error) {
	point, err := t.mountPoint(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", in.URI, err)
	}
	m, err := mount.Start(ctx, mount.Spec{
		URI: in.URI, Mode: mount.Mode(in.Mount), Point: point, Program: program, Environ: t.cfg.Environ,
		Hold: t.cfg.Hold,
		// Not below the attempt's own directory, because a container can see that.
		Dir: filepath.Join(t.cfg.Dir, "mounts", filepath.Base(t.dirs.top), strconv.Itoa(i)), Still: t.cfg.Patience,
		Upload: func(ctx context.Context, dir string, files []string) error {
			err := t.transfer().PutFiles(ctx, dir, files, in.URI)
			if stage.Final(err) {
				err = fmt.Errorf("%w: %w", mount.ErrRefused, err)
			}
			return err
		},
	}, c)
	if err != nil {
		return nil, err
	}
	t.mounts.list = append(t.mounts.list, m)
	t.wg.Go(func() {
		select {
		case <-t.mounts.ctx.Done():
		case <-m.Gone():
			if t.mounts.ctx.Err() == nil {
				t.mounts.lost <- m.Lost()
			}
		}
	})
	t.out.note(fmt.Sprintf("mounted %s at %s", in.URI, point))
	return m, nil
}

// mountPoint creates the directory on which an input is mounted.
func (t *attempt) mountPoint(ctx context.Context, in wire.Input) (string, error) {
	dir, dst, err := t.inputPlace(ctx, in)
	if err != nil {
		return "", err
	}
	if dst = path.Clean(dst); dst == "." || !filepath.IsLocal(filepath.FromSlash(dst)) {
		return "", fmt.Errorf("%q cannot be a mount point", in.Path)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // a directory was made
	if err := root.MkdirAll(filepath.FromSlash(dst), 0o755); err != nil {
		return "", err
	}
	point, err := filepath.EvalSymlinks(filepath.Join(dir, filepath.FromSlash(dst)))
	if err != nil {
		return "", err
	}
	if within(t.dirs.top, point) {
		return "", fmt.Errorf("%s contains the task's own folder", point)
	}
	if u, err := url.Parse(in.URI); err == nil && u.Scheme == "file" {
		if store, err := url.Parse(t.work.Store); err == nil && store.Scheme == "file" &&
			(within(store.Path, u.Path) || within(u.Path, store.Path)) {
			return "", errors.New("it overlaps the broker's own store, in which jobs keep their data")
		}
		if within(point, u.Path) {
			return "", fmt.Errorf("it contains the mount point %s", point)
		}
	}
	return point, nil
}

// within reports whether path p is dir or lies below it.
func within(p, dir string) bool {
	dir = strings.TrimSuffix(dir, "/") + "/"
	return strings.HasPrefix(strings.TrimSuffix(p, "/")+"/", dir)
}

// lendAgain is the minimum time between two tries to renew credentials.
const lendAgain = 10 * time.Second

// renewLent renews credentials when half of their lifetime has passed, until the mounts end.
func (t *attempt) renewLent(loans []lentMount, creds map[int]grant.Credentials, byIndex map[int]*mount.Mount) {
	for len(loans) > 0 {
		var first time.Time
		for _, c := range creds {
			if first.IsZero() || c.Expires.Before(first) {
				first = c.Expires
			}
		}
		if clock.Pause(t.mounts.ctx, max(time.Until(first)/2, lendAgain)) != nil {
			return
		}
		fresh, err := t.lend(t.mounts.ctx, loans)
		if err != nil {
			if t.mounts.ctx.Err() == nil {
				t.log.Warn("cannot renew the credentials of mounts", "err", err)
			}
			continue
		}
		creds = fresh
		for i, c := range creds {
			if err := byIndex[i].Renew(c); err != nil {
				t.log.Warn("cannot renew the credentials of a mount", "uri", byIndex[i].URI(), "err", err)
			}
		}
	}
}

// writable reports whether the task can write to any of the mounts, so that its files must be uploaded.
func (m *mounts) writable() bool {
	for _, one := range m.list {
		if one.Writes() {
			return true
		}
	}
	return false
}

// each calls do for all mounts in parallel and returns the joined errors.
func (m *mounts) each(do func(*mount.Mount) error) error {
	errs := make([]error, len(m.list))
	var wg sync.WaitGroup
	for i, one := range m.list {
		wg.Go(func() { errs[i] = do(one) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// flush returns when all data that was written to the mounts is in the stores. The task must have ended.
func (m *mounts) flush(ctx context.Context) error {
	return m.each(func(one *mount.Mount) error { return one.Flush(ctx) })
}

// noteUnkept logs which files on the mounts were not saved because stores cannot hold them.
func (t *attempt) noteUnkept() {
	for _, one := range t.mounts.list {
		if names := one.Unkept(); len(names) > 0 {
			t.out.note(
				fmt.Sprintf("%s: not saved, because stores have neither sockets nor links that leave the mount: %s",
					one.URI(), strings.Join(names[:min(len(names), unkeptShown)], ", ")),
			)
		}
	}
}

// unkeptShown is the maximum number of names in that log line.
const unkeptShown = 10

// waitUploaded returns when all files that are closed now are in the stores.
func (m *mounts) waitUploaded(ctx context.Context) error {
	return m.each(func(one *mount.Mount) error { return one.Settle(ctx) })
}

// flushLeft also uploads what an unsuccessful task wrote to its mounts, and logs the files that could not be
// uploaded. A stopped task has little time for this, and an abandoned one has none.
func (t *attempt) flushLeft(ctx context.Context) {
	if !t.mounts.writable() {
		return
	}
	err := t.mounts.flush(t.unlessStopped)
	switch told, _ := t.ordered(); {
	case err == nil || told == orderAbandon:
		return
	case told == orderStop:
		ctx, cancel := context.WithTimeoutCause(ctx, flushTimeout, errors.New("there was not enough time"))
		defer cancel()
		if err = t.mounts.flush(ctx); err == nil {
			return
		}
	}
	t.out.note(err.Error())
}

// close unmounts everything.
func (m *mounts) close() {
	if m.stop == nil {
		return
	}
	m.stop()
	_ = m.each(func(one *mount.Mount) error {
		one.Close()
		return nil
	})
}

// uploadSource copies the source of an input to the input's URI.
func (t *attempt) uploadSource(ctx context.Context, in wire.Input) error {
	dir, err := os.MkdirTemp(t.dirs.tmp, "source-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the attempt's directory goes with it
	const name = "source"
	if err := t.fetch(ctx, in.Source, dir, name); err != nil {
		return err
	}
	return t.transfer().Put(ctx, dir, name, in.URI)
}
