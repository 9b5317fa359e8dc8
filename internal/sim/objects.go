package sim

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/sim/check"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// objectStore is the store for outputs and checkpoints, as the broker and machines see it: an object exists
// completely or not at all, an upload exists until it is completed or aborted, and a grant is valid until it expires.
type objectStore struct {
	w       *world
	objects map[string]bool // by URI
	open    map[string]*check.Upload
	granted map[string]grant.Want // by the grant's URL
	count   int
}

var _ grant.Store = (*objectStore)(nil)

func newObjectStore(w *world) *objectStore {
	return &objectStore{w: w, objects: map[string]bool{}, open: map[string]*check.Upload{},
		granted: map[string]grant.Want{}}
}

// Sign implements grant.Store.
func (s *objectStore) Sign(_ context.Context, wants ...grant.Want) ([]grant.Grant, error) {
	out := make([]grant.Grant, len(wants))
	for i, want := range wants {
		if _, err := want.Check(); err != nil {
			return nil, err
		}
		s.count++
		out[i] = grant.Grant{URL: fmt.Sprint("sim://grant/", s.count), Expires: s.w.Now.Add(want.For)}
		s.granted[out[i].URL] = want
	}
	return out, nil
}

// Begin implements grant.Store.
func (s *objectStore) Begin(_ context.Context, uri string) (string, error) {
	s.w.before("begin upload")
	s.count++
	name := fmt.Sprint("upload", s.count)
	s.open[name] = &check.Upload{URI: uri, Name: name}
	s.w.after("begin upload")
	return name, nil
}

// Complete implements grant.Store.
func (s *objectStore) Complete(_ context.Context, uri, name string, parts []grant.Uploaded) error {
	s.w.before("complete upload")
	up := s.open[name]
	if up == nil || up.URI != uri || up.Parts != len(parts) {
		return fmt.Errorf("%w: %s", grant.ErrUpload, name)
	}
	s.objects[uri] = true
	delete(s.open, name)
	s.w.after("complete upload")
	return nil
}

// Abort implements grant.Store.
func (s *objectStore) Abort(_ context.Context, _, name string) error {
	s.w.before("abort upload")
	if up := s.open[name]; up != nil {
		s.w.Count("upload aborted")
		delete(s.open, name)
	}
	s.w.after("abort upload")
	return nil
}

// List implements grant.Store. It can list only all objects of a job. More is not needed, because in the simulation
// agents delete old checkpoints themselves.
func (s *objectStore) List(_ context.Context, prefix, _ string) (page grant.Page, err error) {
	s.w.before("list objects")
	if strings.Count(prefix, "/") != strings.Count("sim://store/job/", "/") {
		return page, nil
	}
	for _, uri := range slices.Sorted(maps.Keys(s.objects)) {
		if strings.HasPrefix(uri, prefix) {
			page.Objects = append(page.Objects, grant.Listed{URI: uri})
		}
	}
	return page, nil
}

// Remove implements grant.Store.
func (s *objectStore) Remove(_ context.Context, uri string) error {
	s.w.before("remove object")
	s.w.check.ObjectRemoved(uri)
	delete(s.objects, uri)
	s.w.after("remove object")
	return nil
}

// Objects implements check.Objects.
func (s *objectStore) Objects() iter.Seq[string] { return maps.Keys(s.objects) }

// The answers of a store to a granted request.
type answer int

const (
	stored  answer = iota
	refused        // 403: expired, or refused by the store
	missing        // 404: no such upload, or no such object
)

// begins returns the store's answer when a machine starts a request.
func (s *objectStore) begins(g grant.Grant) answer {
	want := s.granted[g.URL]
	switch {
	case !s.w.Now.Before(g.Expires):
		s.w.Count("grant expired")
		return refused
	case s.w.rand.grant.Chance(s.w.faults.StoreRefuses):
		s.w.Count("store refuses")
		return refused
	case want.Op == grant.Part && s.open[want.Upload] == nil:
		return missing
	case want.Op == grant.Get && !s.objects[want.URI]:
		return missing
	}
	return stored
}

// ends is called when the whole body has arrived from a machine that still runs. The body from a preempted machine
// never arrives.
func (s *objectStore) ends(g grant.Grant, by *machine) answer {
	want := s.granted[g.URL]
	s.w.check.Wrote(&by.Machine, want.URI)
	switch {
	case want.Op == grant.Put:
		s.objects[want.URI] = true
	case s.open[want.Upload] == nil: // completed or aborted in the meantime
		return missing
	default:
		up := s.open[want.Upload]
		up.Parts, up.Cluster = max(up.Parts, want.Number), by.Cluster
	}
	return stored
}

// object returns the URI of an object below a URI or path from the broker.
func (r *run) object(where, name string) string {
	return strings.TrimSuffix(check.At(r.work.Store, where), "/") + "/" + name
}

// bodyTakes draws how long the body of a request takes.
func (w *world) bodyTakes() time.Duration {
	if w.rand.grant.Chance(w.faults.SlowBody) {
		w.Count("slow transfer")
		return w.rand.grant.Between(2*time.Minute, 30*time.Minute) // some exceed the grant's validity
	}
	return w.rand.grant.Between(100*time.Millisecond, 4*time.Second)
}

// Uploads implements check.Objects.
func (s *objectStore) Uploads() iter.Seq[*check.Upload] { return maps.Values(s.open) }
