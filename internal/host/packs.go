package host

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/tradewind-broker/tradewind/internal/localfiles"
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/internal/pack/depot"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// packs stores the files that jobs upload, in the folder of outputs and checkpoints. The API's listener receives them.
type packs struct {
	*depot.Depot
	shelf depot.Folder
}

// openPacks opens the depot in a folder. Its signed URLs are for files of the folder. base is the URL of the API.
func openPacks(dir, base string, files grant.Signer) (_ *packs, err error) {
	p := &packs{}
	if p.shelf.Root, err = os.OpenRoot(dir); err != nil {
		return nil, err
	}
	p.Depot = &depot.Depot{
		Store: p.shelf, Sign: at{files, base}, URI: (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String(),
		Now: time.Now, // as for the files' modification times
	}
	return p, nil
}

// at makes the URLs absolute, because the client that uploads may not have contacted the broker directly.
type at struct {
	grant.Signer
	base string
}

// Sign implements grant.Signer.
func (a at) Sign(ctx context.Context, wants ...grant.Want) ([]grant.Grant, error) {
	signed, err := a.Signer.Sign(ctx, wants...)
	for i := range signed {
		signed[i].URL = a.base + signed[i].URL
	}
	return signed, err
}

// Close closes the folder.
func (p *packs) Close() error { return p.shelf.Root.Close() }

// sweepEvery is the interval at which old packs without a job are removed.
const sweepEvery = 24 * time.Hour

// sweepPacks marks the packs of open jobs as in use and removes unused ones, at the start and once a day.
func (h *Host) sweepPacks(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		err := h.broker.Functions.KeepPacks(ctx)
		if err == nil { // otherwise a pack that is needed may look old
			now := time.Now()
			err = errors.Join(h.packs.shelf.Sweep(now), h.objects.Sweep(now.Add(-sweepAfter)))
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

// packFiles packs the files next to the file of a job in the DAG folder, if the job names them.
func (h *Host) packFiles(ctx context.Context, dir string, spec *dag.Job) error {
	place := localfiles.Base{Base: dir}
	o := pack.Options{Note: func(note string) { h.log.Warn("packing", "job", spec.Name, "note", note) }}
	if _, err := place.Find(ctx, spec, o); err != nil {
		return err
	}
	sender := localfiles.Sender{Asker: h.packs}
	_, err := place.Pack(ctx, spec, o, func(ctx context.Context, path string, o pack.Options) (string, error) {
		t, err := sender.Bring(ctx, path, o)
		if err != nil {
			return "", err
		}
		return t.URI(), nil
	})
	return err
}
