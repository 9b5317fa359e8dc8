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

// Peers are the nodes of one attempt, which start from the same files: each reads a part of them from the store and
// the rest from the others. What they give is checked; what they do not give comes from the store.
type Peers interface {
	// Nodes is how many there are, and which of them this one is.
	Nodes() (rank, n int)
	// Have says that something is here that others may ask for.
	Have(id string, h Held)
	// Get asks a node for what it reads from the store, and waits for it for a while. It fails when it does not come,
	// soon where that node cannot be reached or was late before.
	Get(ctx context.Context, rank int, id string) (Given, error)
}

// Held is what a node has: bytes, their SHA-256 as they came, and the ETag of the object that they are of.
type Held struct {
	Size   int64
	SHA256 string
	ETag   string
	Open   func() (io.ReadCloser, error)
}

// Given is what another node gives.
type Given struct {
	Held
	Body io.ReadCloser
}

// sharedPiece is the least that is worth a way between nodes, bytes.
const sharedPiece = 256 << 10

// share is what a request brings, as it is passed between nodes.
type share struct {
	id   string
	rank int  // of the node that reads it from the store
	mine bool // that is this one
}

// shares says who reads what of a batch, and puts what this node reads first, then what its next neighbour does, and
// so on: no two nodes ask the same one at the same time. turn goes on from batch to batch.
func (t Transfer) shares(batch []*getting, turn *int) {
	if t.Peers == nil {
		return
	}
	rank, n := t.Peers.Nodes()
	for _, g := range batch {
		large := g.in != nil && g.in.size >= t.shared()
		if !large && !t.sharing || g.cost() < min(sharedPiece, t.shared()) {
			continue
		}
		s := &share{rank: *turn % n, mine: *turn%n == rank}
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

// known says that objects are together large enough to be shared.
func (t Transfer) known(list []wanted) bool {
	var sum int64
	for i := range list {
		sum += max(list[i].size, 0)
	}
	return sum >= t.shared()
}

// errGiven says that what another node gave is not what it should be.
var errGiven = errors.New("another node gave something else")

// ask brings what another node has. It is checked by the digest of the manifest or, of an object without one, by that
// of the node that read it.
func (t Transfer) ask(ctx context.Context, g *getting, take func(Given) (sum string, err error)) error {
	given, err := t.Peers.Get(ctx, g.share.rank, g.share.id)
	if err != nil {
		return err
	}
	defer given.Body.Close() //nolint:errcheck // read, or given up
	if given.Size != g.cost() || g.in != nil && !g.in.same(given.ETag) {
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

// offer says that what a request brought is here now, should it be this node that reads it for the others. body opens
// it; by is its SHA-256, where it is not the digest of the manifest.
func (t Transfer) offer(g *getting, etag string, by check, body func() (io.ReadCloser, error)) {
	if g.share == nil || !g.share.mine {
		return
	}
	sum := g.digest
	if sum == "" {
		sum = by.text()
	}
	t.Peers.Have(g.share.id, Held{Size: g.cost(), SHA256: sum, ETag: etag, Open: body})
}

// own is the check that an offer needs: none where the manifest has the digest.
func (g *getting) own() check {
	if g.share == nil || !g.share.mine || g.digest != "" {
		return nothing{}
	}
	return digest{sha256.New()}
}

// stretch opens a part of a file below a directory, be it complete or on its way. A link that leads out of the
// directory is not followed.
func stretch(dir, p string, from, length int64) (io.ReadCloser, error) {
	f, err := os.OpenInRoot(dir, p)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = os.OpenInRoot(dir, partOf(p))
	}
	if errors.Is(err, fs.ErrNotExist) { // it was given its name meanwhile
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

// opened opens the content of a bundle, from the files that it became.
func opened(dir string, files []File) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		r := &joined{dir: dir, files: files}
		return closing{r, r}, nil
	}
}

// joined reads files one behind the other.
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
			if next.Offset != j.at { // nobody knows what lay there
				return 0, fs.ErrNotExist
			}
			f, err := stretch(j.dir, next.Path, 0, next.Size)
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
