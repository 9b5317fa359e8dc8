package cloudkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/files"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// FreshFor is the time for which a cloud's last answer is used before the next request.
const FreshFor = 24 * time.Hour

// CatalogStore stores, in a state folder, the last catalogue that the clouds reported. It implements driver.Snapshots.
type CatalogStore struct{ dir string }

var _ driver.Snapshots = CatalogStore{}

// CatalogStoreOf returns the Shelf of a state folder, which need not exist yet.
func CatalogStoreOf(state string) CatalogStore { return CatalogStore{state} }

func (s CatalogStore) file() string { return filepath.Join(s.dir, "catalog.snapshot") }

// Get implements driver.Snapshots; the tag is the file's time and size.
func (s CatalogStore) Get(_ context.Context, unless string) (data []byte, tag string, err error) {
	info, err := os.Stat(s.file())
	if err != nil {
		return nil, "", err
	}
	tag = info.ModTime().UTC().Format(time.RFC3339Nano) + "/" + strconv.FormatInt(info.Size(), 10)
	if tag == unless {
		return nil, tag, nil
	}
	data, err = os.ReadFile(s.file())
	return data, tag, err
}

// Put implements driver.Snapshots.
func (s CatalogStore) Put(_ context.Context, data []byte) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	return files.Write(s.file(), 0o600, data)
}

// LastAnswers returns when each cloud last reported its catalogue.
func (s CatalogStore) LastAnswers() (map[string]time.Time, error) {
	file := s.file() + ".json"
	body, err := os.ReadFile(file) //nolint:gosec // in the state folder
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]time.Time{}, nil
	}
	if err != nil {
		return nil, err
	}
	var in struct{ Answered map[string]time.Time }
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, fmt.Errorf("%s: %w; remove the file, and the clouds are asked again", file, err)
	}
	if in.Answered == nil {
		in.Answered = map[string]time.Time{}
	}
	return in.Answered, nil
}

// Renew refreshes the catalogues of clouds, stores them, and records which clouds answered. It returns the errors of
// renew.All. Renew first waits for a running refresh of the same folder: each refresh writes the offers of all clouds,
// so two at the same time would overwrite each other's results.
func (s CatalogStore) Renew(ctx context.Context, now func() time.Time, sources []renew.Source) ([]renew.Report, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	unlock, err := lock(ctx, s.file()+".lock")
	if err != nil {
		return nil, fmt.Errorf("another refresh of %s is running: %w", s.dir, err)
	}
	defer unlock()
	reports, err := renew.All(ctx, s, now, sources)
	answered, noted := s.LastAnswers()
	if noted != nil {
		return reports, errors.Join(err, noted)
	}
	for _, r := range reports {
		if r.Renewed {
			answered[r.Cloud] = r.At
		}
	}
	body, noted := json.MarshalIndent(map[string]any{"answered": answered}, "", "  ")
	if noted == nil {
		if noted = os.MkdirAll(s.dir, 0o700); noted == nil {
			noted = files.Write(s.file()+".json", 0o600, append(body, '\n'))
		}
	}
	return reports, errors.Join(err, noted)
}

// Catalog returns the last catalogue that the clouds of a state folder reported. ok is false if there is none that
// can be read.
func (s CatalogStore) Catalog(ctx context.Context) (c *catalog.Catalog, ok bool) {
	data, _, err := s.Get(ctx, "")
	if err != nil {
		return nil, false
	}
	c, err = catalog.ReadSnapshot(data)
	return c, err == nil
}
