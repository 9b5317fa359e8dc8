package host

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/tradewind-broker/tradewind/internal/localfiles"
	"github.com/tradewind-broker/tradewind/pkg/api"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/grant/filegrant"
	"github.com/tradewind-broker/tradewind/pkg/pack"
	"github.com/tradewind-broker/tradewind/pkg/pack/depot"
)

// packs keeps what jobs bring along, in the folder of outputs and checkpoints. It is uploaded to the API's listener.
type packs struct {
	*depot.Depot
	shelf depot.Folder
	files *filegrant.Store
}

// openPacks opens the depot in a folder; base is where the API is reached.
func openPacks(dir, base string) (_ *packs, err error) {
	p := &packs{}
	if p.shelf.Root, err = os.OpenRoot(dir); err != nil {
		return nil, err
	}
	if p.files, err = filegrant.New(dir, filegrant.Options{BaseURL: base + api.ObjectsPath}); err != nil {
		return nil, errors.Join(err, p.shelf.Root.Close())
	}
	p.Depot = &depot.Depot{
		Shelf: p.shelf, Sign: p.files, URI: (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String(),
		Now: time.Now, // as the files' own times are
	}
	return p, nil
}

// Close lets go of the folder.
func (p *packs) Close() error { return errors.Join(p.files.Close(), p.shelf.Root.Close()) }

// sweepEvery is how often packs that no job has named for long are removed.
const sweepEvery = 24 * time.Hour

// sweepPacks keeps the packs of open jobs and removes what nobody needs, at the start and once a day.
func (h *Host) sweepPacks(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		err := h.broker.KeepPacks(ctx)
		if err == nil { // else something that is needed may be old
			now := time.Now()
			err = errors.Join(h.packs.shelf.Sweep(now), h.packs.files.Sweep(now.Add(-7*sweepEvery)))
		}
		if err != nil && ctx.Err() == nil {
			h.log.Warn("packs", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// settle packs what a job in the DAG folder brings along: what lies beside its file.
func (h *Host) settle(ctx context.Context, dir string, spec *dag.Job) error {
	place := localfiles.Place{Base: dir}
	o := pack.Options{Note: func(note string) { h.log.Warn("packing", "job", spec.Name, "note", note) }}
	if _, err := place.Find(ctx, spec, o); err != nil {
		return err
	}
	sender := depot.Sender{Asker: h.packs}
	_, err := place.Pack(ctx, spec, o, func(ctx context.Context, path string, o pack.Options) (string, error) {
		t, err := sender.Bring(ctx, path, o)
		if err != nil {
			return "", err
		}
		return t.URI(), nil
	})
	return err
}
