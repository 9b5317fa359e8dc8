package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/files"
	"github.com/tradewind-broker/tradewind/internal/localfiles"
	"github.com/tradewind-broker/tradewind/internal/store/bolt"
)

// Format is the format of a backup. A newer one is refused.
const Format = 1

// Names of files in a backup and in a state folder.
const (
	manifestName = "manifest.json"
	sumsName     = "checksums.json"
	// Records is the file of records.
	Records = "tradewind.db"
)

// Path is the path of the API at which the records of a running broker can be read. SizeHeader is the header with
// their size in bytes. The broker keeps objects and logs until the caller ends the request.
const (
	Path       = "/v1/backup"
	SizeHeader = "Tradewind-Bytes"
)

// singles are the files of a state folder that a backup has, if they exist.
var singles = []string{"key", "deployment", "clock.json", "addr.json", "clouds.json", "functions.json", "bought.json",
	"catalog.snapshot"}

// folders are the folders of a state folder that a backup has.
var folders = []string{"objects", "logs"}

// Manifest describes a backup.
type Manifest struct {
	Format  int       `json:"format"`
	Version string    `json:"version"` // of the program
	Made    time.Time `json:"made"`
	// State is the folder that was copied. Host is the name of its computer.
	State string `json:"state"`
	Host  string `json:"host"`
}

// Report is what was copied.
type Report struct {
	Manifest
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Ended are the machines of the copied folder that Restore has ended.
	Ended int `json:"ended,omitempty"`
}

// Errors of this package, wrapped with detail.
var (
	// ErrExists means that the file to write exists, or that the folder to restore into is not empty.
	ErrExists = errors.New("exists already")
	// ErrNoState means that there is no broker's state in a folder.
	ErrNoState = errors.New("no broker has used this state folder")
	// ErrDamaged means that a file is no complete and undamaged backup of a known format.
	ErrDamaged = errors.New("not a complete backup")
	// ErrRuns means that a broker still runs on the copied folder, or on the folder to restore into.
	ErrRuns = errors.New("a broker runs on this state folder")
)

// Make writes a backup of a state folder to a file. It replaces an existing file only if replace is true. After an
// error, the file is unchanged.
func Make(ctx context.Context, state, to, version string, replace bool) (r Report, err error) {
	if _, err := os.Stat(filepath.Join(state, Records)); err != nil {
		return r, fmt.Errorf("%w: %s", ErrNoState, state)
	}
	if _, err := os.Stat(to); err == nil && !replace {
		return r, fmt.Errorf("%s %w", to, ErrExists)
	}
	r.Manifest = Manifest{Format: Format, Version: version, Made: time.Now().UTC(), State: state}
	if r.Host, err = os.Hostname(); err != nil {
		return r, err
	}
	records, size, done, err := openRecords(ctx, state)
	if err != nil {
		return r, err
	}
	defer done()
	return r, files.Fill(to, 0o600, func(w io.Writer) error {
		packed := gzip.NewWriter(w)
		a := &archive{tar: tar.NewWriter(packed), sums: map[string]string{}, report: &r}
		return errors.Join(a.fill(ctx, state, records, size), a.tar.Close(), packed.Close())
	})
}

// openRecords opens a copy of the present records: from the running broker, or from the folder, which is then locked.
// done releases the broker, which may remove objects again.
func openRecords(ctx context.Context, state string) (records io.Reader, size int64, done func(), err error) {
	broker, runs, err := localfiles.FindRunning(state)
	if err != nil {
		return nil, 0, nil, err
	}
	if !runs {
		return openFile(state)
	}
	ctx, cancel := context.WithCancel(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, broker.URL+Path, http.NoBody)
	if err != nil {
		cancel()
		return nil, 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+broker.Token)
	res, err := http.DefaultClient.Do(req) //nolint:gosec // the user's own broker
	if err != nil {
		cancel()
		return nil, 0, nil, fmt.Errorf("the running broker: %w", err)
	}
	done = func() {
		cancel()
		_ = res.Body.Close() // only read
	}
	size, err = strconv.ParseInt(res.Header.Get(SizeHeader), 10, 64)
	if res.StatusCode != http.StatusOK || err != nil {
		done()
		return nil, 0, nil, fmt.Errorf("the running broker (%s) cannot be copied: %s", broker.URL, res.Status)
	}
	return res.Body, size, done, nil
}

// openFile opens a copy of the records of a folder without a broker.
func openFile(state string) (records io.Reader, size int64, done func(), err error) {
	f, err := bolt.OpenFile(filepath.Join(state, Records), bolt.Options{})
	if err != nil {
		return nil, 0, nil, err
	}
	out, in := io.Pipe()
	known := make(chan int64, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, err := f.WriteTo(in, func(size int64) { known <- size })
		close(known)
		_ = in.CloseWithError(err) // never fails
	}()
	size = <-known
	return out, size, func() {
		_ = out.Close() // never fails
		<-ended
		_ = f.Close() // it was only read
	}, nil
}

// archive writes the entries of a backup.
type archive struct {
	tar    *tar.Writer
	sums   map[string]string // SHA-256 by name
	report *Report
}

func (a *archive) fill(ctx context.Context, state string, records io.Reader, size int64) error {
	if err := a.json(manifestName, a.report.Manifest); err != nil {
		return err
	}
	if err := a.add(Records, size, a.report.Made, records); err != nil {
		return err
	}
	for _, name := range singles {
		if err := a.file(state, name); err != nil {
			return err
		}
	}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(state, folder), func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist): // removed meanwhile
				return nil
			case err != nil || d.IsDir() || !d.Type().IsRegular():
				return errors.Join(err, ctx.Err())
			}
			name, err := filepath.Rel(state, path)
			if err != nil {
				return err
			}
			return errors.Join(a.file(state, filepath.ToSlash(name)), ctx.Err())
		})
		if err != nil {
			return err
		}
	}
	return a.json(sumsName, a.sums)
}

// file adds a file with its present length, because a log may grow meanwhile. A missing file is omitted.
func (a *archive) file(state, name string) error {
	f, err := os.Open(filepath.Join(state, filepath.FromSlash(name))) //nolint:gosec // the user's own folder
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return a.add(name, info.Size(), info.ModTime(), f)
}

func (a *archive) json(name string, v any) error {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return a.write(name, int64(len(body)), a.report.Made, bytes.NewReader(body))
}

func (a *archive) add(name string, size int64, changed time.Time, from io.Reader) error {
	a.report.Files++
	a.report.Bytes += size
	return a.write(name, size, changed, from)
}

func (a *archive) write(name string, size int64, changed time.Time, from io.Reader) error {
	head := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: changed,
		Format: tar.FormatPAX}
	if err := a.tar.WriteHeader(head); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(a.tar, sum), from, size); err != nil {
		return fmt.Errorf("backup of %s: %w", name, err)
	}
	a.sums[name] = hex.EncodeToString(sum.Sum(nil))
	return nil
}
