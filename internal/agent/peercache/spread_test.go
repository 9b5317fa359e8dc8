package peercache_test

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/peercache"
	"github.com/tradewind-broker/tradewind/internal/agent/stage"
	"github.com/tradewind-broker/tradewind/internal/grant/filegrant"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// store is a folder that grants its content, and counts the bytes that are read.
type store struct {
	*filegrant.Store
	url  string
	mu   sync.Mutex
	read int64 // bytes
}

func newStore(t *testing.T) *store {
	t.Helper()
	dir := t.TempDir()
	s := &store{url: "file://" + dir}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(&counting{w, s, r.Method == http.MethodGet}, r)
	}))
	t.Cleanup(server.Close)
	var err error
	if s.Store, err = filegrant.New(dir, filegrant.Options{BaseURL: server.URL}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

type counting struct {
	http.ResponseWriter
	of   *store
	read bool
}

func (c *counting) Write(p []byte) (int, error) {
	if c.read {
		c.of.mu.Lock()
		c.of.read += int64(len(p))
		c.of.mu.Unlock()
	}
	return c.ResponseWriter.Write(p)
}

func (s *store) transfer() stage.Transfer {
	return stage.Transfer{Grants: s, Store: s.url, Part: grant.MinPart, Shared: 1 << 20}
}

// files creates a folder with a large file, a file of one piece and many small files.
func files(t *testing.T) (dir string, bytes int64) {
	t.Helper()
	dir = t.TempDir()
	noise := rand.NewChaCha8([32]byte{1})
	sizes := map[string]int{"large": 6*grant.MinPart + 1, "middle": 1 << 20}
	for i := range 40 {
		sizes[fmt.Sprintf("s%02d", i)] = 16 << 10
	}
	for name, size := range sizes {
		content := make([]byte, size)
		_, _ = noise.Read(content)
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
		bytes += int64(size)
	}
	return dir, bytes
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		found[e.Name()] = string(b)
	}
	return found
}

// newKey returns a different key for each test, and with it different ports.
func newKey(t *testing.T) []byte { return []byte("the key of " + t.Name() + time.Now().String()) }

func addresses(n int) (nodes []string) {
	for range n {
		nodes = append(nodes, "127.0.0.1")
	}
	return nodes
}

// staged calls do for all nodes at the same time, and returns the directory of each.
func staged(t *testing.T, join []peercache.Config, do func(ctx context.Context, peers stage.Peers, dir string) error) []string {
	t.Helper()
	dirs := make([]string, len(join))
	var all sync.WaitGroup
	for i, cfg := range join {
		dirs[i] = t.TempDir()
		all.Go(func() {
			e, err := peercache.Join(t.Context(), cfg)
			if err != nil {
				t.Error(err)
				return
			}
			if err := do(t.Context(), e, dirs[i]); err != nil {
				t.Errorf("node %d: %v", cfg.Rank, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // ends the wait for nodes that never start
			defer cancel()
			e.Leave(ctx)
		})
	}
	all.Wait()
	return dirs
}

func everyRank(n int, key []byte) (list []peercache.Config) {
	for rank := range n {
		list = append(list, peercache.Config{Nodes: addresses(n), Rank: rank, Key: key})
	}
	return list
}

func TestNodesReadStoreOnce(t *testing.T) {
	src, bytes := files(t)
	want := contents(t, src)
	s := newStore(t)
	if _, err := s.transfer().Upload(t.Context(), s.url+"/out/", src, stage.Scan{}, stage.Manifest{}); err != nil {
		t.Fatal(err)
	}
	if err := s.transfer().Put(t.Context(), src, ".", s.url+"/plain/"); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func(context.Context, stage.Transfer, string) error{
		"what a manifest lists": func(ctx context.Context, tr stage.Transfer, dir string) error {
			_, err := tr.Download(ctx, s.url+"/out/", dir)
			return err
		},
		"plain objects": func(ctx context.Context, tr stage.Transfer, dir string) error {
			return tr.Fetch(ctx, s.url+"/plain/", dir, ".", nil)
		},
		"one object": func(ctx context.Context, tr stage.Transfer, dir string) error {
			return tr.Fetch(ctx, s.url+"/plain/large", dir, "large", nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.read = 0
			const n = 4
			dirs := staged(t, everyRank(n, newKey(t)), func(ctx context.Context, peers stage.Peers, dir string) error {
				tr := s.transfer()
				tr.Peers = peers
				return do(ctx, tr, dir)
			})
			for _, dir := range dirs {
				got := contents(t, dir)
				if got["large"] != want["large"] || name != "one object" && !maps.Equal(got, want) {
					t.Errorf("%d files differ", len(got))
				}
			}
			// In addition, each node reads small objects, manifests and lists itself.
			if most := bytes + n*(1<<20); s.read > most {
				t.Errorf("the store sent %d bytes for %d, at most %d", s.read, bytes, most)
			}
		})
	}
}

// One of three nodes never starts. The others must read its part from the store, and succeed.
func TestMissingNodeOnlyCostsItsShare(t *testing.T) {
	src, _ := files(t)
	want := contents(t, src)
	s := newStore(t)
	if _, err := s.transfer().Upload(t.Context(), s.url+"/out/", src, stage.Scan{}, stage.Manifest{}); err != nil {
		t.Fatal(err)
	}
	dirs := staged(t, everyRank(3, newKey(t))[:2], func(ctx context.Context, peers stage.Peers, dir string) error {
		tr := s.transfer()
		tr.Peers = peers
		_, err := tr.Download(ctx, s.url+"/out/", dir)
		return err
	})
	for _, dir := range dirs {
		if !maps.Equal(contents(t, dir), want) {
			t.Error("the content differs")
		}
	}
}

// The files of a node were changed, so it sends wrong content. The receiver must detect that by the digest, and use
// the store.
func TestPeerContentIsVerified(t *testing.T) {
	src, _ := files(t)
	want := contents(t, src)
	s := newStore(t)
	if _, err := s.transfer().Upload(t.Context(), s.url+"/out/", src, stage.Scan{}, stage.Manifest{}); err != nil {
		t.Fatal(err)
	}
	if err := s.transfer().Put(t.Context(), src, ".", s.url+"/plain/"); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"/out/", "/plain/"} {
		dirs := staged(t, everyRank(2, newKey(t)), func(ctx context.Context, peers stage.Peers, dir string) error {
			tr := s.transfer()
			tr.Peers = &lying{Peers: peers}
			if from == "/out/" {
				_, err := tr.Download(ctx, s.url+from, dir)
				return err
			}
			return tr.Fetch(ctx, s.url+from, dir, ".", nil)
		})
		for _, dir := range dirs {
			if !maps.Equal(contents(t, dir), want) {
				t.Errorf("%s: the content differs", from)
			}
		}
	}
}

// lying sends other content than it announced.
type lying struct{ stage.Peers }

func (l *lying) Have(id string, h stage.Held) {
	open := h.Open
	h.Open = func() (io.ReadCloser, error) {
		body, err := open()
		return struct {
			io.Reader
			io.Closer
		}{io.MultiReader(strings.NewReader("x"), body), body}, err
	}
	l.Peers.Have(id, h)
}

// stuck sends a part of its content and then stalls.
type stuck struct {
	some io.Reader
	end  chan struct{}
}

func (s *stuck) Read(p []byte) (int, error) {
	n, err := s.some.Read(p)
	if err != nil {
		<-s.end
	}
	return n, err
}

func (s *stuck) Close() error { return nil }

func TestStalledNodeIsSkipped(t *testing.T) {
	nodes, key, end := addresses(2), newKey(t), make(chan struct{})
	defer close(end)
	e, err := peercache.Join(t.Context(), peercache.Config{Nodes: nodes, Rank: 0, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	e.Have("piece", stage.Held{Size: 1 << 20, Open: func() (io.ReadCloser, error) {
		return &stuck{strings.NewReader(strings.Repeat("x", 1<<18)), end}, nil
	}})
	friend, err := peercache.Join(t.Context(), peercache.Config{Nodes: nodes, Rank: 1, Key: key, Still: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	given, err := friend.Get(t.Context(), 0, "piece")
	if err == nil {
		_, err = io.ReadAll(given.Body)
		_ = given.Body.Close()
	}
	if !errors.Is(err, stage.ErrStalled) {
		t.Error(err)
	}
	if _, err := friend.Get(t.Context(), 0, "piece"); err == nil || errors.Is(err, stage.ErrStalled) {
		t.Errorf("it was called again: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	e.Leave(ended)
	friend.Leave(ended)
}

func TestExchangeRejectsStrangers(t *testing.T) {
	nodes, key := addresses(2), newKey(t)
	e, err := peercache.Join(t.Context(), peercache.Config{Nodes: nodes, Rank: 0, Key: key, Late: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	e.Have("piece", stage.Held{Size: 1, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("s")), nil
	}})
	friend, err := peercache.Join(t.Context(), peercache.Config{Nodes: nodes, Rank: 1, Key: key, Late: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	given, err := friend.Get(t.Context(), 0, "piece")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(given.Body); err != nil || string(b) != "s" {
		t.Errorf("%q, %v", b, err)
	}
	_ = given.Body.Close()
	for name, certs := range map[string][]tls.Certificate{"nothing": nil, "a certificate of its own": {stranger(t)}} {
		client := &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certs}, //nolint:gosec // a stranger
		}}
		resp, err := client.Get("https://" + e.Address() + "/piece")
		if err == nil {
			_ = resp.Body.Close()
			t.Errorf("a stranger with %s got the answer %s", name, resp.Status)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	e.Leave(ended)
	friend.Leave(ended)
	if _, err := friend.Get(t.Context(), 0, "piece"); err == nil {
		t.Error("it still listens after Leave")
	}
}

func stranger(t *testing.T) tls.Certificate {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(nil, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
}

func TestJoinRejectsBadKeysAndAddresses(t *testing.T) {
	for name, cfg := range map[string]peercache.Config{
		"no key":            {Nodes: addresses(2)},
		"one node":          {Nodes: addresses(1), Key: newKey(t)},
		"no such rank":      {Nodes: addresses(2), Rank: 2, Key: newKey(t)},
		"another's address": {Nodes: []string{"192.0.2.1", "127.0.0.1"}, Key: newKey(t)},
	} {
		if _, err := peercache.Join(t.Context(), cfg); err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
