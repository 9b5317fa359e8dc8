package stage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// Peers are the nodes of one attempt, which all need the same files. Each node reads a part of them from the store,
// and the rest from the other nodes. The receiver checks content from other nodes. If a node sends nothing, its part
// is read from the store.
type Peers interface {
	// Nodes returns this node's rank and the number of nodes.
	Nodes() (rank, n int)
	// Have announces content that this node can send to others.
	Have(id string, h Held)
	// Get gets content from the node that reads it from the store, and waits for that node for a while. It returns an
	// error if the content does not come. The error comes fast if the node is unreachable or was late before.
	Get(ctx context.Context, rank int, id string) (Given, error)
}

// Held describes content that a node has: its size, the SHA-256 of the bytes received, and the ETag of their object.
type Held struct {
	Size   int64
	SHA256 string
	ETag   string
	Open   func() (io.ReadCloser, error)
}

// Given is content from another node.
type Given struct {
	Held
	Body io.ReadCloser
}

// sharedPiece is the minimum size of content that nodes share, in bytes.
const sharedPiece = 256 << 10

// share describes how nodes share the content of a request.
type share struct {
	id   string
	rank int  // of the node that reads it from the store
	own  bool // this node reads it from the store
}

// assignShares assigns the requests of a batch to nodes. This node's own requests come first, then those of its next
// neighbour, and so on, so that no two nodes ask the same node at the same time. turn continues across batches.
func (t Transfer) assignShares(batch []*getting, turn *int) {
	if t.Peers == nil {
		return
	}
	rank, n := t.Peers.Nodes()
	for _, g := range batch {
		large := g.in != nil && g.in.size >= t.shared()
		if !large && !t.sharing || g.cost() < min(sharedPiece, t.shared()) {
			continue
		}
		s := &share{rank: *turn % n, own: *turn%n == rank}
		*turn++
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d\n%d\n%s", g.uri, g.index, g.cost(), g.digest))
		s.id = hex.EncodeToString(sum[:])
		g.share = s
	}
	far := func(g *getting) int {
		if g.share == nil {
			return 0
		}
		return (g.share.rank - rank + n) % n
	}
	slices.SortStableFunc(batch, func(a, b *getting) int { return far(a) - far(b) })
}

// worthSharing reports whether objects are together large enough to be shared.
func (t Transfer) worthSharing(list []wanted) bool {
	var sum int64
	for i := range list {
		sum += max(list[i].size, 0)
	}
	return sum >= t.shared()
}

// errGiven means that another node sent wrong content.
var errGiven = errors.New("another node sent wrong content")

// getFromPeer gets content from another node. It checks it with the digest in the manifest or, if an object has none,
// with that of the node that read it.
func (t Transfer) getFromPeer(ctx context.Context, g *getting, take func(Given) (sum string, err error)) error {
	given, err := t.Peers.Get(ctx, g.share.rank, g.share.id)
	if err != nil {
		return err
	}
	defer given.Body.Close() //nolint:errcheck // fully read or abandoned
	if given.Size != g.cost() || g.in != nil && !g.in.sameETag(given.ETag) {
		return fmt.Errorf("%w: %s: %d bytes of %q", errGiven, g.uri, given.Size, given.ETag)
	}
	want := given.SHA256
	if g.digest != "" {
		want = g.digest
	}
	got, err := take(given)
	if err == nil && got != want {
		err = fmt.Errorf("%w: %s", errGiven, g.uri)
	}
	return err
}

// offerToPeers announces the content of a request to the other nodes, if this node reads it for them. body opens the
// content. by has its SHA-256, if the manifest does not have its digest.
func (t Transfer) offerToPeers(g *getting, etag string, by check, body func() (io.ReadCloser, error)) {
	if g.share == nil || !g.share.own {
		return
	}
	sum := g.digest
	if sum == "" {
		sum = by.text()
	}
	t.Peers.Have(g.share.id, Held{Size: g.cost(), SHA256: sum, ETag: etag, Open: body})
}

// offerCheck returns the check that computes the SHA-256 of the content for offerToPeers. It returns a check that does
// nothing if the node does not offer the content, or the manifest already has its digest.
func (g *getting) offerCheck() check {
	if g.share == nil || !g.share.own || g.digest != "" {
		return noCheck{}
	}
	return digest{sha256.New()}
}

// openSection opens a part of a file below a directory, whether the file is complete or still being written. It does
// not follow links out of the directory.
func openSection(dir, p string, from, length int64) (io.ReadCloser, error) {
	f, err := os.OpenInRoot(dir, p)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = os.OpenInRoot(dir, partOf(p))
	}
	if errors.Is(err, fs.ErrNotExist) { // it was renamed to its final name meanwhile
		f, err = os.OpenInRoot(dir, p)
	}
	if err != nil {
		return nil, err
	}
	return closing{io.NewSectionReader(f, from, length), f}, nil
}

type closing struct {
	io.Reader
	io.Closer
}

// opened returns a function that opens the content of a bundle from its unpacked files.
func opened(dir string, files []File) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		r := &joined{dir: dir, files: files}
		return closing{r, r}, nil
	}
}

// joined reads concatenated files.
type joined struct {
	dir   string
	files []File
	at    int64
	f     io.ReadCloser
}

func (j *joined) Read(p []byte) (int, error) {
	for {
		if j.f == nil {
			if len(j.files) == 0 {
				return 0, io.EOF
			}
			next := j.files[0]
			if next.Offset != j.at { // the bytes in between are not on disk
				return 0, fs.ErrNotExist
			}
			f, err := openSection(j.dir, next.Path, 0, next.Size)
			if err != nil {
				return 0, err
			}
			j.f = f
		}
		n, err := j.f.Read(p)
		j.at += int64(n)
		if !errors.Is(err, io.EOF) {
			return n, err
		}
		_ = j.Close() // only read
		j.files = j.files[1:]
		if n > 0 {
			return n, nil
		}
	}
}

func (j *joined) Close() error {
	f := j.f
	if j.f = nil; f == nil {
		return nil
	}
	return f.Close()
}
