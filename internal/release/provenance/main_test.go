package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	sum    = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	commit = "0123456789abcdef0123456789abcdef01234567"
)

func list(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "checksums.txt")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Each file in the list of checksums must be a subject with its digest. The commit must be the source.
func TestStatementListsEveryFile(t *testing.T) {
	var out bytes.Buffer
	err := run([]string{"-checksums", list(t, sum+"  a.tar.gz\n"+sum+"  b.deb\n"), "-commit", commit, "-builder", "https://b"}, &out)
	if err != nil {
		t.Fatal(err)
	}
	var s Statement
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Subject) != 2 || s.Subject[1].Name != "b.deb" || s.Subject[1].Digest["sha256"] != sum {
		t.Errorf("subjects: %+v", s.Subject)
	}
	if got := s.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"]; got != commit {
		t.Errorf("built from %q", got)
	}
	if s.Predicate.RunDetails.Builder.ID != "https://b" {
		t.Errorf("built by %q", s.Predicate.RunDetails.Builder.ID)
	}
}

func TestReadRejectsInvalidLists(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "no files in the list",
		"abc  a\n":                   "line 1",
		sum + "  a\n" + sum + " b\n": "line 2",
		sum + "  \n":                 "line 1",
	} {
		err := run([]string{"-checksums", list(t, text), "-commit", commit, "-builder", "b"}, &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, args := range [][]string{
		{"-checksums", list(t, sum+"  a\n"), "-commit", "abc", "-builder", "b"},
		{"-checksums", list(t, sum+"  a\n"), "-commit", commit},
		{"-checksums", filepath.Join(t.TempDir(), "none"), "-commit", commit, "-builder", "b"},
	} {
		if err := run(args, &bytes.Buffer{}); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}
