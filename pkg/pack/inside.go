package pack

import (
	"path"
	"path/filepath"
	"strings"
)

// Inside says whether p is a relative, slash-separated path to something below where it starts, spelled the only way.
// Paths come from manifests and lists that nobody vouches for.
func Inside(p string) bool {
	return p != "" && p != "." && !strings.ContainsRune(p, 0) && path.Clean(p) == p &&
		filepath.IsLocal(filepath.FromSlash(p))
}

// LinkInside says whether a link at p to target, both slash-separated, points below the directory that p is relative to. A
// target that goes up after it went down is refused too: what it went down may be another link, and where up leads from
// there cannot be told from names.
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
