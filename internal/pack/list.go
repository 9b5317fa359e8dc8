package pack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"unicode/utf8"
)

// Errors of lists and contents, wrapped with detail.
var (
	// ErrCorrupt means that a list is not valid, or that content does not match its digest.
	ErrCorrupt = errors.New("corrupt")
	// ErrIncomplete means that parts of a pack are missing.
	ErrIncomplete = errors.New("the pack is not complete")
	// ErrLeaves means that a path or a link leaves its folder.
	ErrLeaves = errors.New("leaves its folder")
)

// Limits of a list.
const (
	MaxFiles     = 1 << 20  // entries
	MaxListBytes = 64 << 20 // size of the list itself
	listVersion  = 1        // a reader refuses newer ones
	itself       = "."      // path of the only entry in a pack of a single file
)

// List is the list of a pack's files and pieces.
type List struct {
	Version int     `json:"version"`
	Entries []Entry `json:"entries"` // sorted by path in byte order, so that each comes after its folder
	Pieces  []Piece `json:"pieces"`  // concatenated, they are the contents of all files in order
}

// Entry is a regular file, a folder or a symbolic link.
type Entry struct {
	Path string      `json:"path"` // slash-separated, relative
	Mode fs.FileMode `json:"mode,omitempty"`
	Size int64       `json:"size,omitempty"` // bytes; only for a file
	Link string      `json:"link,omitempty"` // target of a link
	Dir  bool        `json:"dir,omitempty"`
}

// Piece is a part of a pack's content.
type Piece struct {
	Digest Digest `json:"digest" pattern:"^sha256-[0-9a-f]+$" minLength:"71" maxLength:"71"`
	Size   int64  `json:"size" minimum:"1" maximum:"67108864" doc:"Bytes"`
}

// Single reports whether the pack is a single file rather than a folder.
func (l *List) Single() bool { return len(l.Entries) == 1 && l.Entries[0].Path == itself }

// Bytes returns the total size of all files.
func (l *List) Bytes() int64 {
	var n int64
	for i := range l.Entries {
		n += l.Entries[i].Size
	}
	return n
}

// file reports whether e is a regular file.
func (e *Entry) file() bool { return !e.Dir && e.Link == "" }

// encode encodes the list. The encoding is unique, because the list's digest identifies the pack.
func (l *List) encode() ([]byte, error) { return json.Marshal(l) }

// ParseList parses a list. It checks that unpacking cannot leave its folder and that the pieces cover all files. It
// returns ErrCorrupt or ErrLeaves.
func ParseList(body []byte) (*List, error) {
	l := &List{}
	if err := json.Unmarshal(body, l); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if l.Version != listVersion {
		return nil, fmt.Errorf("%w: the list has version %d, this program reads %d", ErrCorrupt, l.Version, listVersion)
	}
	if len(l.Entries) > MaxFiles {
		return nil, fmt.Errorf("%w: %d files, more than %d", ErrCorrupt, len(l.Entries), MaxFiles)
	}
	var left int64
	for _, p := range l.Pieces {
		if p.Size < 1 || p.Size > maxPiece || p.Digest.Sum() == nil {
			return nil, fmt.Errorf("%w: piece %q of %d bytes", ErrCorrupt, p.Digest, p.Size)
		}
		left += p.Size // cannot overflow: at most 2^26 / 80 pieces of 2^23 bytes
	}
	if err := l.checkEntries(left); err != nil {
		return nil, err
	}
	return l, nil
}

// checkEntries checks that the entries are sorted, that each is in a folder of the list, and that their sizes add up
// to those of the pieces.
func (l *List) checkEntries(left int64) error {
	folders := map[string]bool{itself: true}
	for i := range l.Entries {
		e := &l.Entries[i]
		if err := e.check(l.Single()); err != nil {
			return err
		}
		if i > 0 && l.Entries[i-1].Path >= e.Path {
			return fmt.Errorf("%w: %q is not sorted", ErrCorrupt, e.Path)
		}
		// Because every parent is a folder of the list, no path leads through a link.
		if !folders[path.Dir(e.Path)] {
			return fmt.Errorf("%w: the folder of %q is not in the list", ErrCorrupt, e.Path)
		}
		if e.Dir {
			folders[e.Path] = true
		}
		if left -= e.Size; left < 0 {
			break
		}
	}
	if left != 0 {
		return fmt.Errorf("%w: files and pieces have different total sizes", ErrCorrupt)
	}
	return nil
}

func (e *Entry) check(single bool) error {
	if single {
		if !e.file() {
			return fmt.Errorf("%w: %q is not a file", ErrCorrupt, e.Path)
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

// inside returns an error unless p is a relative path in canonical form that stays below its start.
func inside(p string) error {
	if !Inside(p) || !utf8.ValidString(p) {
		return fmt.Errorf("path %q %w", p, ErrLeaves)
	}
	return nil
}

// linkInside reports whether a link at p to target points inside the folder that p is relative to.
func linkInside(p, target string) bool { return utf8.ValidString(target) && LinkInside(p, target) }
