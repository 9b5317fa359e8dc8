package pack

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Large is the error for a folder that exceeds the limits.
type Large struct {
	Path     string
	Bytes    int64
	Files    int
	MaxBytes int64
	MaxFiles int
	Most     []Part // the largest parts, largest first
}

// Part is a file, or a folder with everything below it.
type Part struct {
	Path  string // relative to the packed folder; ends in a slash for a folder
	Bytes int64
	Files int
}

// parts is how many parts are listed.
const parts = 5

// Error lists the large parts. Hint explains how to leave them out.
func (l *Large) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s has %s in %d files, more than ", l.Path, size(l.Bytes), l.Files)
	if l.Bytes > l.MaxBytes {
		b.WriteString(size(l.MaxBytes))
	} else {
		fmt.Fprintf(&b, "%d files", l.MaxFiles)
	}
	b.WriteString(" can be packed. The largest parts:")
	for _, p := range l.Most {
		fmt.Fprintf(&b, "\n  %9s  %7d files  %s", size(p.Bytes), p.Files, p.Path)
	}
	return b.String()
}

// Hint explains how to make the pack smaller.
func (l *Large) Hint() string {
	return "leave out what no task needs: one line each in " + ownIgnore +
		"; put data into a bucket and name it in inputs; or raise --pack-size and --pack-files"
}

// size formats an amount of data for users.
func size(n int64) string {
	unit, v := 0, float64(n)
	for v >= 1024 && unit < 4 {
		v, unit = v/1024, unit+1
	}
	digits := 0
	if unit > 0 && v < 100 {
		digits = 1
	}
	return fmt.Sprintf("%.*f %s", digits, v, []string{"B", "KiB", "MiB", "GiB", "TiB"}[unit])
}

// checkSize returns a *Large if the tree exceeds the limits.
func (t *Tree) checkSize() error {
	if t.list.Bytes() > cmp.Or(t.opts.MaxBytes, DefaultBytes) ||
		len(t.list.Entries) > cmp.Or(t.opts.MaxFiles, DefaultFiles) {
		return t.large()
	}
	return nil
}

func (t *Tree) large() error {
	bytes, files := cmp.Or(t.opts.MaxBytes, DefaultBytes), cmp.Or(t.opts.MaxFiles, DefaultFiles)
	return &Large{Path: t.dir, Bytes: t.list.Bytes(), Files: len(t.list.Entries), MaxBytes: bytes, MaxFiles: files,
		Most: t.most(t.list.Bytes() > bytes)}
}

// most returns the parts with most of the bytes, or of the files. If a single part of a folder has nearly all of it,
// that part is named instead of the folder.
func (t *Tree) most(bytes bool) []Part {
	below := map[string]*Part{}
	inside := map[string][]*Part{}
	part := func(p string) *Part {
		if below[p] == nil {
			below[p] = &Part{Path: p}
			if p != itself {
				inside[path.Dir(p)] = append(inside[path.Dir(p)], below[p])
			}
		}
		return below[p]
	}
	for i := range t.list.Entries {
		e := &t.list.Entries[i]
		for p := e.Path; ; p = path.Dir(p) {
			at := part(p)
			at.Bytes, at.Files = at.Bytes+e.Size, at.Files+1
			if p == itself {
				break
			}
		}
		if e.Dir {
			part(e.Path).Files-- // it counts only in its parents
		}
	}
	weight := func(p *Part) int64 {
		if bytes {
			return p.Bytes
		}
		return int64(p.Files)
	}
	heaviest := func(dir string) []*Part {
		slices.SortFunc(inside[dir], func(a, b *Part) int {
			return cmp.Or(cmp.Compare(weight(b), weight(a)), strings.Compare(a.Path, b.Path))
		})
		return inside[dir]
	}
	var out []Part
	for _, p := range heaviest(itself) {
		for in := heaviest(p.Path); len(in) > 0 && 10*weight(in[0]) >= 9*weight(p); in = heaviest(p.Path) {
			p = in[0]
		}
		if len(out) == parts {
			break
		}
		named := *p
		if len(inside[p.Path]) > 0 {
			named.Path += "/"
		}
		out = append(out, named)
	}
	return out
}
