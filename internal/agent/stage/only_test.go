package stage

import (
	"slices"
	"testing"
)

// A child reads a part of its parent's outputs. If that part contains links, the child must also get their targets.
func TestPartialManifestIncludesLinkTargets(t *testing.T) {
	m := &Manifest{Files: []File{
		{Path: "latest", Link: "runs/42"}, {Path: "other"}, {Path: "runs/41/model"},
		{Path: "runs/42/config", Link: "../../shared"}, {Path: "runs/42/model"}, {Path: "shared"},
	}}
	for want, paths := range map[string][]string{
		"latest runs/42/config runs/42/model shared": {"./latest"},
		"other":         {"other"},
		"runs/41/model": {"runs/41"},
	} {
		got := ""
		for _, f := range m.only(paths).Files {
			if got != "" {
				got += " "
			}
			got += f.Path
		}
		if got != want {
			t.Errorf("for %v the files are %q, not %q", paths, got, want)
		}
	}
	all := m.only([]string{"."})
	if !slices.EqualFunc(all.Files, m.Files, func(a, b File) bool { return a.Path == b.Path }) {
		t.Errorf("all of it is %v", all.Files)
	}
}
