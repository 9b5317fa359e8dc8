package stage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"sync"
	"syscall"
)

// writeSize is the number of bytes of an arriving object that are written at a time. Writing many whole pages costs a
// file system half as much as writing the data as they arrive. Writing four times as many bytes takes twice as long
// on fragmented memory, because the kernel needs that many contiguous pages.
const writeSize = 128 << 10

var pours = sync.Pool{New: func() any { return new([writeSize]byte) }}

// copyExactly copies exactly length bytes, and also writes them to by. If there are fewer, it returns
// io.ErrUnexpectedEOF.
func copyExactly(to io.Writer, from io.Reader, length int64, by io.Writer) error {
	room := pours.Get().(*[writeSize]byte)
	defer pours.Put(room)
	for length > 0 {
		n, err := io.ReadFull(from, room[:min(length, writeSize)])
		_, _ = by.Write(room[:n]) // never fails
		if _, err := to.Write(room[:n]); err != nil {
			return err
		}
		length -= int64(n)
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lockedWriter writes to a file that other goroutines write to as well. The file system lets only one of them in, and
// the others would use up processor time while they wait; with inTurn they sleep.
type lockedWriter struct {
	turn *sync.Mutex
	to   io.Writer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.turn.Lock()
	defer w.turn.Unlock()
	return w.to.Write(p)
}

// smallBuffers are buffers for small files, which are checked before they are written to disk.
var smallBuffers = sync.Pool{New: func() any { return new([bundledSize + 1]byte) }}

// getWhole gets an object in one request: from another node that has it, or else from the store.
func (t Transfer) getWhole(ctx context.Context, g *getting) error {
	if g.share != nil && !g.share.own {
		err := t.getFromPeer(ctx, g, func(given Given) (sum string, err error) {
			want := given.SHA256
			if g.digest != "" {
				want = g.digest
			}
			by := checkOf(want)
			err = write(g.root, g.file.Path, g.file.Mode, func(f *os.File) error {
				err := copyExactly(f, given.Body, given.Size, by)
				if err == nil && by.text() != want {
					err = errGiven
				}
				return err
			})
			return by.text(), err
		})
		if err == nil || errors.Is(err, syscall.ENOSPC) || ctx.Err() != nil {
			return err
		}
	}
	return t.do(ctx, exchange{granted: &g.granted, take: func(r *http.Response) error {
		sum, by := g.digest, checkOf(g.digest)
		if sum == "" {
			sum, by = storeChecksum(r.Header)
		}
		if g.size <= bundledSize {
			return g.writeSmall(r, sum, by)
		}
		own := g.offerCheck()
		err := write(g.root, g.file.Path, g.file.Mode, func(f *os.File) error {
			if err := copyExactly(f, r.Body, g.size, hashes{by, own}); err != nil {
				return err
			}
			if n, _ := r.Body.Read(make([]byte, 1)); n > 0 {
				return g.wrongSize(g.size + 1)
			}
			return g.compare(sum, by)
		})
		if err == nil {
			t.offerToPeers(g, r.Header.Get("ETag"), own, func() (io.ReadCloser, error) {
				return openSection(g.root.Name(), g.file.Path, 0, g.size)
			})
		}
		return err
	}})
}

// writeSmall writes a small object after it has checked it.
func (g *getting) writeSmall(r *http.Response, sum string, by check) error {
	room := smallBuffers.Get().(*[bundledSize + 1]byte)
	defer smallBuffers.Put(room)
	n, err := io.ReadFull(r.Body, room[:g.size+1])
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	switch {
	case err == nil || ended && int64(n) != g.size && r.ContentLength == int64(n):
		return g.wrongSize(int64(n))
	case int64(n) != g.size || !ended:
		return err
	}
	_, _ = by.Write(room[:n]) // never fails
	if err := g.compare(sum, by); err != nil {
		return err
	}
	return writeContent(g.root, g.file.Path, g.file.Mode, room[:n])
}

func (g *getting) wrongSize(n int64) error {
	return fmt.Errorf("%w: %s has %d bytes, not %d", ErrCorrupt, g.uri, n, g.size)
}

// compare checks an object against a sum. If an object has no manifest, the store's sum may be of another kind than
// it seems. So the object is accepted if a second read gives the same content.
func (g *getting) compare(sum string, by check) error {
	got := by.text()
	if got == sum || g.digest == "" && string(g.previousSum) == got {
		return nil
	}
	g.previousSum = []byte(got)
	if g.digest != "" {
		return fmt.Errorf("%w: %s does not match its manifest", ErrCorrupt, g.uri)
	}
	return fmt.Errorf("%w: %s does not match its store's checksum", ErrCorrupt, g.uri)
}

// unbundle gets the files of a bundle: from another node that has them, or else from the store.
func (t Transfer) unbundle(ctx context.Context, g *getting) error {
	if g.share != nil && !g.share.own {
		err := t.getFromPeer(ctx, g, func(given Given) (string, error) {
			return given.SHA256, g.unpack(given.Body) // each file has its own digest
		})
		if err == nil || errors.Is(err, syscall.ENOSPC) || ctx.Err() != nil {
			return err
		}
	}
	return t.do(ctx, exchange{granted: &g.granted, take: func(r *http.Response) error {
		err := g.unpack(r.Body)
		if err == nil {
			t.offerToPeers(g, "", noCheck{}, opened(g.root.Name(), g.bundle))
		}
		return err
	}})
}

// unpack writes the files of a bundle.
func (g *getting) unpack(body io.Reader) error {
	room := smallBuffers.Get().(*[bundledSize + 1]byte)
	defer smallBuffers.Put(room)
	var at int64
	for i := range g.bundle {
		f := &g.bundle[i]
		if err := copyExactly(io.Discard, body, f.Offset-at, noCheck{}); err != nil {
			return g.short(err)
		}
		content := room[:min(f.Size, bundledSize)]
		if f.Size > bundledSize {
			content = make([]byte, f.Size)
		}
		if _, err := io.ReadFull(body, content); err != nil {
			return g.short(err)
		}
		at = f.Offset + f.Size
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != f.SHA256 {
			return fmt.Errorf("%w: %s in %s does not match its manifest", ErrCorrupt, f.Path, g.uri)
		}
		if err := writeContent(g.root, f.Path, f.Mode, content); err != nil {
			return err
		}
	}
	return nil
}

func (g *getting) short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %s is too short: %w", ErrCorrupt, g.uri, err)
	}
	return err
}

// writeContent creates a file with content that was already checked. It replaces an existing file.
func writeContent(root *os.Root, p string, mode fs.FileMode, content []byte) error {
	if mode = mode.Perm(); mode == 0 {
		mode = 0o644
	}
	const fresh = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	f, err := root.OpenFile(p, fresh, mode|0o200)
	if errors.Is(err, fs.ErrNotExist) {
		if err = root.MkdirAll(path.Dir(p), 0o755); err == nil {
			f, err = root.OpenFile(p, fresh, mode|0o200)
		}
	}
	if err != nil { // the file exists
		return write(root, p, mode, func(f *os.File) error {
			_, err := f.Write(content)
			return err
		})
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(mode) // whatever the umask
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = root.Remove(p)
	}
	return err
}

// openPart opens the file to which a large object is written, under the name of an unfinished file.
func (in *incoming) openPart() (*os.File, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.f != nil {
		return in.f, nil
	}
	if err := in.root.MkdirAll(path.Dir(in.file.Path), 0o755); err != nil {
		return nil, err
	}
	f, err := in.root.OpenFile(partOf(in.file.Path), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil && in.size > 0 {
		reserve(f, in.size)
	}
	in.f = f
	return f, err
}

// finish makes the checks that need the whole file, and then gives the file its name.
func (in *incoming) finish() error {
	if err := in.verify(); err != nil {
		return err
	}
	mode := in.file.Mode.Perm()
	if mode == 0 {
		mode = 0o644
	}
	part := partOf(in.file.Path)
	err := in.f.Chmod(mode)
	err = errors.Join(err, in.f.Close())
	if err == nil {
		err = in.root.Rename(part, in.file.Path)
	}
	if err != nil {
		_ = in.root.Remove(part)
	}
	in.done = true
	return err
}

// verify checks a large file as a whole: with its store's checksum, or with the digest in a manifest of version 1.
// Only the latter needs to read the file again.
func (in *incoming) verify() error {
	if in.file.Piece > 0 {
		return nil
	}
	if in.file.SHA256 == "" {
		if in.crc == "" {
			return nil
		}
		sum := uint32(0)
		for i, c := range in.crcs {
			sum = joinCRC(sum, c, in.length(i))
		}
		if crcText(sum) != in.crc {
			return fmt.Errorf("%w: %s does not match its store's checksum", ErrCorrupt, in.uri)
		}
		return nil
	}
	by := checkOf(in.file.SHA256)
	if err := copyExactly(io.Discard, io.NewSectionReader(in.f, 0, in.size), in.size, by); err != nil {
		return err
	}
	if by.text() != in.file.SHA256 {
		return fmt.Errorf("%w: %s does not match its manifest", ErrCorrupt, in.uri)
	}
	return nil
}

// drop removes the part of a failed file that has arrived.
func (in *incoming) drop() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.f != nil {
		_ = in.f.Close() // it is removed anyway
		_ = in.root.Remove(partOf(in.file.Path))
	}
}

// bundlesOf returns the bundles that contain a tree's small files.
func bundlesOf(tree *Tree, root *os.Root) ([]wanted, error) {
	byNumber := map[int]*wanted{}
	var order []int
	for _, f := range tree.Manifest.Files {
		if f.Bundle == 0 {
			continue
		}
		b := byNumber[f.Bundle]
		if b == nil {
			uri, err := bundleURI(tree.Prefix, f.Bundle)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
			}
			b = &wanted{root: root, uri: uri}
			byNumber[f.Bundle], order = b, append(order, f.Bundle)
		}
		if f.Offset < b.size { // files are stored in the order of their paths
			return nil, fmt.Errorf("%w: %q overlaps another file of its bundle", ErrCorrupt, f.Path)
		}
		b.bundle, b.size = append(b.bundle, f), f.Offset+f.Size
	}
	list := make([]wanted, len(order))
	for i, number := range order {
		list[i] = *byNumber[number]
	}
	return list, nil
}
