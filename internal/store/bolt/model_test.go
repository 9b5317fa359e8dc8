package bolt

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestFileIsASortedMap commits, fails, crashes and reopens at random. The file must always have the same content as a
// sorted map.
func TestFileIsASortedMap(t *testing.T) {
	dir := t.TempDir()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		path := filepath.Join(dir, fmt.Sprint(run))
		f := open(t, path, Options{})
		defer func() { f.Close() }()
		model := map[string]string{}
		rt.Repeat(map[string]func(*rapid.T){
			"": func(rt *rapid.T) {
				var want []string
				for _, k := range slices.Sorted(maps.Keys(model)) {
					want = append(want, k, model[k])
				}
				if got := contents(t, f); !slices.Equal(got, want) {
					rt.Fatalf("the file holds %q, want %q", got, want)
				}
			},
			"commit": func(rt *rapid.T) {
				writes := drawWrites(rt)
				fail := rapid.IntRange(0, 4).Draw(rt, "fail") == 0
				err := f.Commit(rt.Context(), func(tx *Tx) error {
					for k, v := range model {
						if got := tx.Get([]byte(k)); string(got) != v || got == nil {
							return fmt.Errorf("Get(%q) = %q, want %q", k, got, v)
						}
					}
					tx.writes = append(tx.writes, writes...)
					if fail {
						return errOwn
					}
					return nil
				})
				if (err != nil) != fail {
					rt.Fatalf("Commit = %v", err)
				}
				if !fail {
					apply(model, writes)
				}
			},
			"scan": func(rt *rapid.T) {
				prefix, from := rapid.StringN(0, 2, 4).Draw(rt, "prefix"), rapid.StringN(0, 2, 4).Draw(rt, "from")
				var got, want []string
				for _, k := range slices.Sorted(maps.Keys(model)) {
					if strings.HasPrefix(k, prefix) && k >= from {
						want = append(want, k)
					}
				}
				if err := f.View(func(tx *Tx) error {
					for k := range tx.Scan([]byte(prefix), []byte(from)) {
						got = append(got, string(k))
					}
					return nil
				}); err != nil || !slices.Equal(got, want) {
					rt.Fatalf("Scan(%q, %q) = %q, %v, want %q", prefix, from, got, err, want)
				}
			},
			"close": func(rt *rapid.T) {
				if err := f.Close(); err != nil {
					rt.Fatal(err)
				}
				f = open(t, path, Options{})
			},
			"crash": func(*rapid.T) {
				crash(t, f)
				f = open(t, path, Options{})
			},
		})
	})
}

var errOwn = errors.New("the change's error")

func drawWrites(rt *rapid.T) []fileWrite {
	var writes []fileWrite
	for range rapid.IntRange(0, 8).Draw(rt, "writes") {
		w := fileWrite{key: []byte(rapid.StringOfN(rapid.RuneFrom([]rune("ab\x00\U0010ffff")), 1, 3, -1).Draw(rt,
			"key"))}
		if w.deleted = rapid.Bool().Draw(rt, "delete"); !w.deleted {
			w.value = []byte(rapid.StringN(0, 5, 200).Draw(rt, "value"))
		}
		writes = append(writes, w)
	}
	return writes
}

func apply(model map[string]string, writes []fileWrite) {
	for _, w := range writes {
		if w.deleted {
			delete(model, string(w.key))
		} else {
			model[string(w.key)] = string(w.value)
		}
	}
}
