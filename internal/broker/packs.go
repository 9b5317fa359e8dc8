package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/pack"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// eachFile calls do for each pack and input of each task, with the name of the field, until a call fails.
func eachFile(spec *dag.Job, do func(task int, field, uri string) error) error {
	for i := range spec.Tasks {
		t := &spec.Tasks[i]
		if t.StandIn() {
			continue // its files have only sizes
		}
		if t.Workdir != "" {
			if err := do(i, "workdir", t.Workdir); err != nil {
				return err
			}
		}
		for k := range t.Inputs {
			if err := do(i, dag.InputField(k), t.Inputs[k].URI); err != nil {
				return err
			}
			if src := t.Inputs[k].Source; src != "" {
				if err := do(i, dag.InputField(k), src); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkCode refuses a job that names an incomplete pack, or a path that exists only on its author's computer.
func (b *Users) checkCode(ctx context.Context, spec *dag.Job) error {
	for i := range spec.Tasks {
		if spec.Tasks[i].Repository != nil {
			return spec.ErrorAt(
				i,
				dag.FilesOfTask,
				"workdir",
				"a client must clone the git repository before it submits",
				"`tradewind submit` does",
			)
		}
	}
	checked := map[string]bool{}
	return eachFile(spec, func(task int, field, uri string) error {
		refuse := func(why, hint string) error { return spec.ErrorAt(task, dag.FilesOfTask, field, why, hint) }
		if !pack.IsURI(uri) {
			if strings.Contains(uri, "://") || filepath.IsAbs(uri) {
				return nil
			}
			return refuse(fmt.Sprintf("%q is a path on the submitter's own computer", uri),
				"`tradewind submit` uploads the files there as a pack; or name a bucket")
		}
		if checked[uri] {
			return nil
		}
		checked[uri] = true
		if b.ports.Packs == nil {
			return refuse("this broker cannot store uploaded folders", "name a bucket")
		}
		err := b.ports.Packs.Check(ctx, uri)
		if errors.Is(err, pack.ErrIncomplete) || errors.Is(err, pack.ErrURI) || errors.Is(err, pack.ErrCorrupt) {
			return refuse(err.Error(), "`tradewind submit` uploads what is missing")
		}
		return err
	})
}

// keepAfter is the age of a job after which its packs are renewed. Packs are removed only much later.
const keepAfter = 7 * 24 * time.Hour

// KeepPacks renews the packs of all jobs that have been open for long. Hosts call it once a day.
func (b *Functions) KeepPacks(ctx context.Context) error {
	if b.ports.Packs == nil {
		return nil
	}
	var errs []error
	for page, more := (store.Page{Limit: b.cfg.Walk.Together}), true; more; {
		var index []store.Record
		var err error
		if index, more, err = b.ports.Store.Query(ctx, record.PartActive, "", page); err != nil {
			return errors.Join(append(errs, err)...)
		}
		for _, r := range index {
			page.After = r.Key.Sort
			var i record.JobIndex
			if err := json.Unmarshal(r.Body, &i); err != nil || b.txns.Now().Sub(i.Submitted) >= keepAfter {
				errs = append(errs, b.keepPacksOf(ctx, r.Key.Sort))
			}
		}
	}
	return errors.Join(errs...)
}

func (b *Functions) keepPacksOf(ctx context.Context, id string) error {
	u := b.txns.NewUnit(ctx, events.FnRefresh)
	job, found, err := recordcache.Get[record.Job](u, record.JobKey(id))
	if err != nil || !found {
		return err
	}
	spec, err := u.Spec(job)
	if err != nil {
		return err
	}
	var uris []string
	_ = eachFile(spec, func(_ int, _, uri string) error { // never fails
		if pack.IsURI(uri) {
			uris = append(uris, uri)
		}
		return nil
	})
	if len(uris) == 0 {
		return nil
	}
	return b.ports.Packs.Stay(ctx, uris...)
}
