package backup

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/tradewind-broker/tradewind/internal/base/files"
	"github.com/tradewind-broker/tradewind/internal/cloud/local"
	"github.com/tradewind-broker/tradewind/internal/localfiles"
	"github.com/tradewind-broker/tradewind/internal/store/bolt"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Restore makes a state folder from a backup. The folder is new or empty, and appears when it is complete and
// checked. Then Restore ends the machines that still run on this computer for the copied folder. Their tasks continue
// from the backup. No broker may run on either folder.
func Restore(ctx context.Context, from, state string) (r Report, err error) {
	if err := free(state); err != nil {
		return r, err
	}
	inside, err := os.ReadDir(state)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return r, err
	}
	if len(inside) > 0 {
		return r, fmt.Errorf("%s %w, and is not empty", state, ErrExists)
	}
	f, err := os.Open(from) //nolint:gosec // the user's file
	if err != nil {
		return r, err
	}
	defer f.Close() //nolint:errcheck // only read
	if err := os.MkdirAll(filepath.Dir(state), 0o700); err != nil {
		return r, err
	}
	part, err := os.MkdirTemp(filepath.Dir(state), "."+filepath.Base(state)+"-*")
	if err != nil {
		return r, err
	}
	unpack := &unpacking{dir: part, sums: map[string]string{}, check: func(m Manifest) error {
		if err := free(m.State); err != nil {
			return fmt.Errorf("%w, from which the backup is", err)
		}
		return nil
	}}
	if err = unpack.all(ctx, f); err == nil {
		r = unpack.report
		r.Ended, err = endMachines(ctx, r.Manifest)
	}
	if err == nil {
		_, err = files.Move(part, state)
	}
	if err != nil {
		return r, errors.Join(err, files.RemoveAll(part))
	}
	return r, nil
}

// free fails with ErrRuns if a broker runs on a folder of this computer.
func free(state string) error {
	_, runs, err := localfiles.FindRunning(state)
	if err == nil && runs {
		err = fmt.Errorf("%w: %s", ErrRuns, state)
	}
	return err
}

// unpacking is a backup that is being unpacked into a folder.
type unpacking struct {
	dir    string
	check  func(Manifest) error // called before anything is written
	sums   map[string]string    // of the entries so far
	report Report
}

func (u *unpacking) all(ctx context.Context, from io.Reader) error {
	packed, err := gzip.NewReader(from)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	entries := tar.NewReader(packed)
	if err := u.manifest(entries); err != nil {
		return err
	}
	root, err := os.OpenRoot(u.dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing is lost
	for ctx.Err() == nil {
		head, err := entries.Next()
		switch {
		case err != nil: // also the end: then the sums are missing
			return fmt.Errorf("%w: it ends early: %w", ErrDamaged, err)
		case head.Typeflag != tar.TypeReg || !filepath.IsLocal(filepath.FromSlash(head.Name)):
			return fmt.Errorf("%w: it has an entry %q", ErrDamaged, head.Name)
		case head.Name == sumsName:
			return u.verify(entries, packed)
		}
		if err := u.file(root, head.Name, entries); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// manifest reads the first entry.
func (u *unpacking) manifest(entries *tar.Reader) error {
	head, err := entries.Next()
	if err != nil || head.Name != manifestName {
		return fmt.Errorf("%w: it has no manifest", ErrDamaged)
	}
	sum := sha256.New()
	if err := json.NewDecoder(io.TeeReader(entries, sum)).Decode(&u.report.Manifest); err != nil {
		return fmt.Errorf("%w: its manifest: %w", ErrDamaged, err)
	}
	if _, err := io.Copy(sum, entries); err != nil {
		return fmt.Errorf("%w: its manifest: %w", ErrDamaged, err)
	}
	u.sums[manifestName] = hex.EncodeToString(sum.Sum(nil))
	if u.report.Format < 1 || u.report.Format > Format {
		return fmt.Errorf("%w: format %d, and this version knows %d: upgrade tradewind", ErrDamaged, u.report.Format,
			Format)
	}
	return u.check(u.report.Manifest)
}

func (u *unpacking) file(root *os.Root, name string, from io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(filepath.FromSlash(name)), 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), from)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, name, err)
	}
	u.sums[name] = hex.EncodeToString(sum.Sum(nil))
	u.report.Files++
	u.report.Bytes += n
	return nil
}

// verify compares the checksums with the last entry. It also reads the archive to its end, because gzip has another
// checksum there.
func (u *unpacking) verify(entries *tar.Reader, packed io.Reader) error {
	var want map[string]string
	if err := json.NewDecoder(entries).Decode(&want); err != nil {
		return fmt.Errorf("%w: its checksums: %w", ErrDamaged, err)
	}
	for name, sum := range want {
		if u.sums[name] != sum {
			return fmt.Errorf("%w: %s is damaged or missing", ErrDamaged, name)
		}
	}
	if len(want) != len(u.sums) || want[Records] == "" {
		return fmt.Errorf("%w: it has %d files instead of %d", ErrDamaged, len(u.sums), len(want))
	}
	if _, err := io.Copy(io.Discard, packed); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// endMachines ends the machines that run on this computer for the copied folder. It locks that folder meanwhile, so
// that no broker starts there.
func endMachines(ctx context.Context, m Manifest) (ended int, err error) {
	name, err := os.Hostname()
	if err != nil || name != m.Host {
		return 0, err
	}
	if _, err := os.Stat(filepath.Join(m.State, "machines")); err != nil {
		return 0, nil //nolint:nilerr // nothing is left of it
	}
	if _, err := os.Stat(filepath.Join(m.State, Records)); err == nil {
		lock, err := bolt.OpenFile(filepath.Join(m.State, Records), bolt.Options{})
		if err != nil {
			return 0, fmt.Errorf("the machines of %s: %w", m.State, err)
		}
		defer lock.Close() //nolint:errcheck // nothing was written
	}
	h, err := local.New(local.Config{Dir: filepath.Join(m.State, "machines")})
	if err != nil {
		return 0, fmt.Errorf("the machines of %s: %w", m.State, err)
	}
	defer h.Close() //nolint:errcheck // never fails
	var errs []error
	for _, name := range h.Clouds() {
		c := h.Cloud(name)
		machines, err := c.Machines(ctx, "")
		errs = append(errs, err)
		done := map[string]bool{}
		for _, machine := range machines {
			if machine.State == cloud.Terminated || done[machine.Cluster] {
				continue
			}
			done[machine.Cluster] = true
			errs = append(errs, c.Terminate(ctx, machine.Cluster))
			ended++
		}
	}
	return ended, errors.Join(errs...)
}
