package localfiles

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// withLFS makes git replace Git LFS pointers by the files themselves, also in submodules, if git-lfs is installed,
// even if the user has not configured it.
func withLFS(env []string) []string {
	if _, err := exec.LookPath("git-lfs"); err != nil {
		return env
	}
	return withConfig(env, [][2]string{
		{"filter.lfs.process", "git-lfs filter-process"}, {"filter.lfs.required", "true"},
	})
}

// withConfig adds git settings to those in an environment.
func withConfig(env []string, settings [][2]string) []string {
	const count = "GIT_CONFIG_COUNT="
	n := 0
	var out []string
	for _, kv := range env {
		if had, is := strings.CutPrefix(kv, count); is {
			n, _ = strconv.Atoi(had)
			continue
		}
		out = append(out, kv)
	}
	for _, kv := range settings {
		out = append(out, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, kv[0]),
			fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, kv[1]))
		n++
	}
	return append(out, count+strconv.Itoa(n))
}

// pointer is the first line of a Git LFS pointer file, and pointerMost the maximum size of such a file
// (github.com/git-lfs/git-lfs, docs/spec.md).
const (
	pointer     = "version https://git-lfs.github.com/spec/v1\n"
	pointerMost = 1024
)

// checkLFS returns an error if a file of a clone is still a Git LFS pointer. A task would read the pointer instead of
// the file.
func checkLFS(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if info, err := d.Info(); err != nil || info.Size() > pointerMost || info.Size() < int64(len(pointer)) {
			return err
		}
		f, err := os.Open(path) //nolint:gosec // below the clone
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // only read
		begins := make([]byte, len(pointer))
		if _, err := io.ReadFull(f, begins); err != nil || !bytes.Equal(begins, []byte(pointer)) {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			name = path
		}
		return fmt.Errorf("%s is stored in Git LFS, but git-lfs is missing: install it (https://git-lfs.com)", name)
	})
}
