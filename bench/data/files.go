package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// workload is a folder of files of one size.
type workload struct {
	name  string
	files int
	size  int64 // bytes of each
}

func (w workload) bytes() int64 { return int64(w.files) * w.size }

// perDir is the maximum number of files in a folder.
const perDir = 1000

func (w workload) path(i int) string {
	return filepath.Join(fmt.Sprintf("d%03d", i/perDir), fmt.Sprintf("f%06d", i))
}

// write creates the files with pseudo-random content that is the same each time.
func (w workload) write(dir string) error {
	block := make([]byte, 1<<20)
	for i := range w.files {
		if i%perDir == 0 {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, w.path(i))), 0o750); err != nil {
				return err
			}
		}
		f, err := os.Create(filepath.Join(dir, w.path(i))) //nolint:gosec // a file of the benchmark
		if err != nil {
			return err
		}
		noise := rand.NewChaCha8(sha256.Sum256(fmt.Appendf(nil, "%d of %d", i, w.size)))
		for left := w.size; left > 0 && err == nil; left -= int64(len(block)) {
			some := block[:min(left, int64(len(block)))]
			_, _ = noise.Read(some) // never fails
			_, err = f.Write(some)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// same compares every byte of two folders, and checks that both have the same files.
func (w workload) same(dir, other string) error {
	a, b := make([]byte, 1<<20), make([]byte, 1<<20)
	for i := range w.files {
		if err := sameFile(filepath.Join(dir, w.path(i)), filepath.Join(other, w.path(i)), a, b); err != nil {
			return err
		}
	}
	n := 0
	err := filepath.WalkDir(other, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	})
	if err == nil && n != w.files {
		err = fmt.Errorf("%s has %d files, not %d", other, n, w.files)
	}
	return err
}

func sameFile(one, two string, a, b []byte) error {
	f, err := os.Open(one) //nolint:gosec // a file of the benchmark
	if err != nil {
		return err
	}
	defer f.Close()        //nolint:errcheck // only read
	g, err := os.Open(two) //nolint:gosec // a file of the benchmark
	if err != nil {
		return err
	}
	defer g.Close() //nolint:errcheck // only read
	for {
		n, err := io.ReadFull(f, a)
		m, err2 := io.ReadFull(g, b)
		if n != m || !bytes.Equal(a[:n], b[:m]) {
			return fmt.Errorf("%s differs from %s", two, one)
		}
		if end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF); err != nil || err2 != nil {
			if end && err2 != nil {
				return nil
			}
			return errors.Join(err, err2)
		}
	}
}
