package dag

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fuzz runs a reader on anything: it never panics, its errors are *Error, its jobs are valid and
// read back the same from the native form.
func fuzz(f *testing.F, read func(string, io.Reader) (*Job, error)) {
	for _, file := range testFiles(f) {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		data, err := load(file, bytes.NewReader(raw))
		if err != nil {
			f.Fatal(err)
		}
		if len(data) < 64<<10 { // larger ones only slow it down
			f.Add(data)
		}
	}
	for _, bad := range badFiles(f) {
		f.Add([]byte(bad))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := read("job.yaml", bytes.NewReader(data))
		if err != nil {
			var e *Error
			if j != nil || !errors.As(err, &e) || e.File != "job.yaml" || e.Reason == "" {
				t.Fatalf("%#v, %v", err, j)
			}
			whole := errors.Is(err, ErrLimit) || strings.HasPrefix(e.Reason, "cannot be read") || e.Reason == "the file is empty" || e.Reason == "there is no adag element"
			if e.Line == 0 && !whole {
				t.Fatalf("no line: %v", err)
			}
			return
		}
		if err := j.Validate(); err != nil {
			t.Fatal(err)
		}
		if len(j.Warnings) > MaxWarnings {
			t.Fatalf("%d warnings", len(j.Warnings))
		}
		readBack(t, j)
	})
}

// badFiles are the inputs of testdata/errors.
func badFiles(f *testing.F) []string {
	f.Helper()
	var files []string
	for _, form := range []string{"native", "skypilot", "wfformat", "dax"} {
		data, err := os.ReadFile(filepath.Join("testdata", "errors", form))
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range strings.Split(string(data), "\n"+form+"\n")[1:] {
			text, _, _ := strings.Cut(part, "\n----\n")
			files = append(files, text)
		}
	}
	return files
}

func FuzzRead(f *testing.F)     { fuzz(f, Read) }
func FuzzNative(f *testing.F)   { fuzz(f, ReadNative) }
func FuzzSkyPilot(f *testing.F) { fuzz(f, ReadSkyPilot) }
func FuzzWfFormat(f *testing.F) { fuzz(f, ReadWfFormat) }
func FuzzDAX(f *testing.F)      { fuzz(f, ReadDAX) }
