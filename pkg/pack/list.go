package pack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"unicode/utf8"
)

// Errors of lists and contents, wrapped with what they are about.
var (
	// ErrCorrupt: a list that is none, or bytes that are not those that their digest names.
	ErrCorrupt = errors.New("corrupt")
	// ErrIncomplete: a pack of which something is missing.
	ErrIncomplete = errors.New("the pack is not complete")
	// ErrLeaves: a path or a link that leaves its folder.
	ErrLeaves = errors.New("leaves its folder")
)

// What a list may have.
const (
	MaxFiles     = 1 << 20  // entries
	MaxListBytes = 64 << 20 // of the list itself
	listVersion  = 1        // a reader refuses a newer one
	itself       = "."      // path of the only entry of a pack that is a file
)

// List is what a pack has.
type List struct {
	Version int     `json:"version"`
	Entries []Entry `json:"entries"` // by path, in byte order; each after the folder it lies in
	Pieces  []Piece `json:"pieces"`  // one after the other they are the contents of all files in their order
}

// Entry is a regular file, a folder or a symbolic link.
type Entry struct {
	Path string      `json:"path"` // slash-separated, relative
	Mode fs.FileMode `json:"mode,omitempty"`
	Size int64       `json:"size,omitempty"` // bytes, of a file
	Link string      `json:"link,omitempty"` // where a link points to
	Dir  bool        `json:"dir,omitempty"`
}

// Piece is some bytes of a pack.
type Piece struct {
	Digest Digest `json:"digest" pattern:"^sha256-[0-9a-f]+$" minLength:"71" maxLength:"71"`
	Size   int64  `json:"size" minimum:"1" maximum:"67108864" doc:"Bytes"`
}

// Single says whether the pack is one file rather than a folder.
func (l *List) Single() bool { return len(l.Entries) == 1 && l.Entries[0].Path == itself }

// Bytes is the size of all files together.
func (l *List) Bytes() int64 {
	var n int64
	for i := range l.Entries {
		n += l.Entries[i].Size
	}
	return n
}

// file says whether e has content.
func (e *Entry) file() bool { return !e.Dir && e.Link == "" }

// encode writes the list in the one way in which it is named.
func (l *List) encode() ([]byte, error) { return json.Marshal(l) }

// ParseList reads a list and checks that unpacking it can neither leave its folder nor lack a byte. It fails with
// ErrCorrupt or ErrLeaves.
func ParseList(body []byte) (*List, error) {
	l := &List{}
	if err := json.Unmarshal(body, l); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if l.Version != listVersion {
		return nil, fmt.Errorf("%w: version %d of the list, this program reads %d", ErrCorrupt, l.Version, listVersion)
	}
	if len(l.Entries) > MaxFiles {
		return nil, fmt.Errorf("%w: %d files, more than %d", ErrCorrupt, len(l.Entries), MaxFiles)
	}
	var left int64
	for _, p := range l.Pieces {
		if p.Size < 1 || p.Size > maxPiece || p.Digest.Sum() == nil {
			return nil, fmt.Errorf("%w: piece %q of %d bytes", ErrCorrupt, p.Digest, p.Size)
		}
		left += p.Size // of at most 2^26 / 80 pieces of 2^23 bytes
	}
	if err := l.checkEntries(left); err != nil {
		return nil, err
	}
	return l, nil
}

// checkEntries sees that the entries are in order, lie in folders that the list has, and share out all bytes.
func (l *List) checkEntries(left int64) error {
	folders := map[string]bool{itself: true}
	for i := range l.Entries {
		e := &l.Entries[i]
		if err := e.check(l.Single()); err != nil {
			return err
		}
		if i > 0 && l.Entries[i-1].Path >= e.Path {
			return fmt.Errorf("%w: %q is not in its place", ErrCorrupt, e.Path)
		}
		// What lies in a folder of the list leads through no link.
		if !folders[path.Dir(e.Path)] {
			return fmt.Errorf("%w: %q lies in no folder of the list", ErrCorrupt, e.Path)
		}
		if e.Dir {
			folders[e.Path] = true
		}
		if left -= e.Size; left < 0 {
			break
		}
	}
	if left != 0 {
		return fmt.Errorf("%w: the files have not as many bytes as the pieces", ErrCorrupt)
	}
	return nil
}

func (e *Entry) check(single bool) error {
	if single {
		if !e.file() {
			return fmt.Errorf("%w: %q is no file", ErrCorrupt, e.Path)
		}
	} else if err := inside(e.Path); err != nil {
		return err
	}
	switch {
	case e.Size < 0 || e.Size > 0 && !e.file() || e.Dir && e.Link != "" || e.Mode != e.Mode.Perm():
		return fmt.Errorf("%w: entry %+v", ErrCorrupt, *e)
	case e.Link != "" && !linkInside(e.Path, e.Link):
		return fmt.Errorf("link %q to %q %w", e.Path, e.Link, ErrLeaves)
	}
	return nil
}

// inside says why p is no relative path that stays below where it starts, spelled the only way.
func inside(p string) error {
	if !Inside(p) || !utf8.ValidString(p) {
		return fmt.Errorf("path %q %w", p, ErrLeaves)
	}
	return nil
}

// linkInside says whether a link at p to target points below the folder that p is relative to.
func linkInside(p, target string) bool { return utf8.ValidString(target) && LinkInside(p, target) }
