package stage_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/stage"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// manySmall returns a tree with enough small files to be bundled, and a file of every kind.
func manySmall() tree {
	want := tree{"empty": "", "large": random(manyParts), "middle": random(600 << 10), "link": "-> small00"}
	for i := range 40 {
		want[fmt.Sprintf("small%02d", i)] = random(1000 * i)
	}
	return want
}

func TestManySmallFilesAreBundled(t *testing.T) {
	b, want := newBucket(t, nil), manySmall()
	m, err := b.parted().Upload(t.Context(), b.at("p"), newDir(t, want), stage.Scan{}, stage.Manifest{})
	if err != nil || m.Version != 3 { // one of them is large
		t.Fatal(m, err)
	}
	if got := b.objects(); !slices.Equal(got, []string{"p/bundles/1", "p/files/large", "p/files/middle", "p/manifest.json"}) {
		t.Errorf("objects %v", got)
	}
	dst := t.TempDir()
	if _, err := b.parted().Download(t.Context(), b.at("p"), dst); err != nil || !maps.Equal(read(t, dst), want) {
		t.Errorf("came back otherwise: %v", err)
	}
	if n := len(b.asked("GET")); n != 7 { // the manifest, a bundle, a file, and four ranges
		t.Errorf("%d requests: %v", n, b.asked("GET"))
	}
	if _, err := b.parted().Download(t.Context(), b.at("p"), dst); err != nil || !maps.Equal(read(t, dst), want) {
		t.Errorf("over existing files: %v", err)
	}
}

func TestFewSmallFilesAreNotBundled(t *testing.T) {
	b := newBucket(t, nil)
	m, err := b.once().Upload(t.Context(), b.at("p"), newDir(t, tree{"a": "1", "b": "2"}), stage.Scan{}, stage.Manifest{})
	if err != nil || m.Version != 1 || !slices.Contains(b.objects(), "p/files/a") {
		t.Errorf("version %d, %v, %v", m.Version, b.objects(), err)
	}
}

func TestDamagedBundleIsDetected(t *testing.T) {
	for name, damage := range map[string]func(b *bucket, body string){
		"a byte": func(b *bucket, body string) { b.put("p/bundles/1", "y"+body[1:]) },
		"short":  func(b *bucket, body string) { b.put("p/bundles/1", body[:len(body)-1]) },
		"gone":   func(b *bucket, _ string) { b.remove("p/bundles/1") },
	} {
		b := newBucket(t, nil)
		want := tree{}
		for i := range 20 {
			want[fmt.Sprintf("f%02d", i)] = strings.Repeat("x", i+1)
		}
		upload(t, b, "p", newDir(t, want))
		body, err := os.ReadFile(filepath.Join(b.dir, "p/bundles/1"))
		if err != nil {
			t.Fatal(err)
		}
		damage(b, string(body))
		if _, err := b.once().Download(t.Context(), b.at("p"), t.TempDir()); !errors.Is(err, stage.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Agents of version 1 wrote one SHA-256 for a large file. Such a manifest must be readable.
func TestReadManifestVersion1(t *testing.T) {
	content := random(manyParts)
	sum := sha256.Sum256([]byte(content))
	body, err := json.Marshal(stage.Manifest{Version: 1, Files: []stage.File{
		{Path: "f", Size: manyParts, SHA256: hex.EncodeToString(sum[:])},
	}})
	if err != nil {
		t.Fatal(err)
	}
	b := newBucket(t, map[string]string{"p/manifest.json": string(body), "p/files/f": content})
	dst := t.TempDir()
	if _, err := b.parted().Download(t.Context(), b.at("p"), dst); err != nil || read(t, dst)["f"] != content {
		t.Error(err)
	}
	b.put("p/files/f", content[:manyParts-1]+"x")
	tr := b.parted()
	tr.Tries = 2
	if _, err := tr.Download(t.Context(), b.at("p"), t.TempDir()); !errors.Is(err, stage.ErrCorrupt) {
		t.Errorf("damaged: %v", err)
	}
}

// Agents of version 2 wrote a SHA-256 for each piece as well. Such a manifest must be readable.
func TestReadManifestVersion2(t *testing.T) {
	content := random(manyParts)
	f := stage.File{Path: "f", Size: manyParts, Piece: grant.MinPart}
	for at := 0; at < len(content); at += grant.MinPart {
		piece := []byte(content[at:min(at+grant.MinPart, len(content))])
		sum := sha256.Sum256(piece)
		f.Pieces = append(f.Pieces, hex.EncodeToString(sum[:]))
		f.Sums = append(f.Sums, crc32.Checksum(piece, crc32.MakeTable(crc32.Castagnoli)))
	}
	body, err := json.Marshal(stage.Manifest{Version: 2, Files: []stage.File{f}})
	if err != nil {
		t.Fatal(err)
	}
	b := newBucket(t, map[string]string{"p/manifest.json": string(body), "p/files/f": content})
	dst := t.TempDir()
	if _, err := b.parted().Download(t.Context(), b.at("p"), dst); err != nil || read(t, dst)["f"] != content {
		t.Error(err)
	}
	b.put("p/files/f", content[:manyParts-1]+"x")
	tr := b.parted()
	tr.Tries = 2
	if _, err := tr.Download(t.Context(), b.at("p"), t.TempDir()); !errors.Is(err, stage.ErrCorrupt) {
		t.Errorf("damaged: %v", err)
	}
}

func TestInvalidManifestsAreRejected(t *testing.T) {
	sum := strings.Repeat("0", 64)
	for name, f := range map[string]stage.File{
		"a piece too few":     {Path: "f", Size: 2 * grant.MinPart, Piece: grant.MinPart, Pieces: []string{sum}, Sums: []uint32{1}},
		"pieces of nothing":   {Path: "f", Size: 2, Piece: 1, Pieces: []string{sum, sum}, Sums: []uint32{1, 2}},
		"pieces of no bytes":  {Path: "f", Piece: grant.MinPart},
		"sums without pieces": {Path: "f", Size: 1, Sums: []uint32{1}},
		"no sums":             {Path: "f", Size: grant.MinPart, Piece: grant.MinPart, Pieces: []string{sum}},
		"a piece's digest":    {Path: "f", Size: 1, Piece: grant.MinPart, Pieces: []string{"x"}, Sums: []uint32{1}},
		"a negative bundle":   {Path: "f", Size: 1, SHA256: sum, Bundle: -1},
		"far in a bundle":     {Path: "f", Size: 1, SHA256: sum, Bundle: 1, Offset: 1 << 40},
		"large for a bundle":  {Path: "f", Size: 1 << 40, SHA256: sum, Bundle: 1},
		"a bundle and pieces": {Path: "f", Size: 1, Piece: grant.MinPart, Pieces: []string{sum}, Sums: []uint32{1}, Bundle: 1},
	} {
		body, err := json.Marshal(stage.Manifest{Version: 2, Files: []stage.File{f}})
		if err != nil {
			t.Fatal(err)
		}
		b := newBucket(t, map[string]string{"p/manifest.json": string(body)})
		if _, err := b.once().ReadManifests(t.Context(), b.at("p")); !errors.Is(err, stage.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A download that does not fit on the disk must fail before it starts.
func TestFullDiskFailsBeforeDownload(t *testing.T) {
	b := newBucket(t, nil)
	tree := stage.Tree{Prefix: b.at("p"), Dir: t.TempDir(), Manifest: &stage.Manifest{Version: 1, Files: []stage.File{
		{Path: "f", Size: 1 << 60, SHA256: strings.Repeat("0", 64)},
	}}}
	err := b.once().Fill(t.Context(), tree)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "MiB are free") || len(b.asked("GET")) > 0 {
		t.Errorf("%v after %v", err, b.asked("GET"))
	}
}

// Google sends the CRC32C of an object with every answer, also for a range. Content that does not match it must be
// refused.
func TestForeignObjectsMatchStoreChecksum(t *testing.T) {
	content := random(manyParts)
	right := crc32.Checksum([]byte(content), crc32.MakeTable(crc32.Castagnoli))
	for name, c := range map[string]struct {
		sum  uint32
		fits bool
	}{"right": {right, true}, "wrong": {right + 1, false}} {
		b := newBucket(t, map[string]string{"in/f": content})
		sum := base64.StdEncoding.EncodeToString([]byte{byte(c.sum >> 24), byte(c.sum >> 16), byte(c.sum >> 8), byte(c.sum)})
		b.meet = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("X-Goog-Hash", "crc32c="+sum+",md5=AAAA")
			return false
		}
		tr := b.parted()
		tr.Tries = 2
		dst := t.TempDir()
		for uri, as := range map[string]string{b.url + "/in/": ".", b.url + "/in/f": "f"} {
			if err := tr.Fetch(context.Background(), uri, dst, as, nil); (err == nil) != c.fits {
				t.Errorf("%s, %s: %v", name, uri, err)
			}
		}
	}
}

// The ETags of some stores look like an MD5 but are none. An object must be accepted if two reads have the same
// content.
func TestETagNeedNotBeMD5(t *testing.T) {
	b := newBucket(t, map[string]string{"in/f": "content"})
	b.meet = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Md5", base64.StdEncoding.EncodeToString(make([]byte, 16)))
		return false
	}
	dst := t.TempDir()
	tr := b.parted()
	if err := tr.Fetch(t.Context(), b.url+"/in/", dst, ".", nil); err != nil || read(t, dst)["f"] != "content" {
		t.Error(err)
	}
	if n := len(b.asked("GET")); n != 2 {
		t.Errorf("read %d times", n)
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"version":1,"files":[{"path":"a","size":1,"sha256":"00"}]}`))
	f.Add([]byte(`{"version":2,"files":[{"path":"a","size":1,"sha256":"00","bundle":1,"offset":2}]}`))
	f.Add([]byte(`{"version":2,"files":[{"path":"a","size":1,"piece":5242880,"pieces":["00"],"sums":[1]}]}`))
	f.Add([]byte(`{"version":1,"files":[{"path":"../a","link":"b"},{"path":"d","dir":true}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		b := newBucket(t, map[string]string{"p/manifest.json": string(body)})
		m, err := b.once().ReadManifests(t.Context(), b.at("p"))
		if err != nil {
			return
		}
		for _, file := range m[0].Files {
			if !filepath.IsLocal(file.Path) || file.Link != "" && !filepath.IsLocal(filepath.Join(filepath.Dir(file.Path), file.Link)) {
				t.Fatalf("accepted %+v", file)
			}
			if file.Size < 0 || file.Bundle < 0 || file.Offset < 0 || file.Bundle > 0 && file.Offset+file.Size < 0 {
				t.Fatalf("accepted %+v", file)
			}
		}
	})
}
