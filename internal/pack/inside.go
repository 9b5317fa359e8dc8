package pack

import (
	"path"
	"path/filepath"
	"strings"
)

// Inside reports whether p is a relative, slash-separated, clean path to something below its base directory. Use it for
// paths from manifests and lists that are not trusted.
func Inside(p string) bool {
	return p != "" && p != "." && !strings.ContainsRune(p, 0) && path.Clean(p) == p &&
		filepath.IsLocal(filepath.FromSlash(p))
}

// LinkInside reports whether a link at p to target, both slash-separated, points below the directory that p is relative
// to. It also rejects a target that goes up after it went down: the lower directory may be another link, so the names
// do not show where up leads.
func LinkInside(p, target string) bool {
	if path.IsAbs(target) || strings.ContainsRune(target, 0) {
		return false
	}
	down := false
	for part := range strings.SplitSeq(target, "/") {
		switch {
		case part == ".." && down:
			return false
		case part != ".." && part != "." && part != "":
			down = true
		}
	}
	return filepath.IsLocal(filepath.FromSlash(path.Join(path.Dir(p), target)))
}
