package skytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// Python makes a virtual environment and returns its bin folder for PATH, so that nothing an example installs stays
// on this computer. With quick, Python's time.sleep takes a hundredth of the time. It skips the test if Python or its
// package index is not available.
func Python(tb testing.TB, quick bool) (bin string) {
	tb.Helper()
	dir := tb.TempDir()
	make := exec.CommandContext(tb.Context(), "python3", "-m", "venv", dir) //nolint:gosec // the test's own folder
	if out, err := make.CombinedOutput(); err != nil {
		tb.Skipf("python3 cannot make a virtual environment: %v\n%s", err, out)
	}
	bin = filepath.Join(dir, "bin")
	fetch := exec.CommandContext(tb.Context(), bin+"/pip", "download", "--quiet", "--no-deps", //nolint:gosec // our own
		"--dest", tb.TempDir(), "tqdm")
	if out, err := fetch.CombinedOutput(); err != nil {
		tb.Skipf("Python's package index does not answer: %v\n%s", err, out)
	}
	if !quick {
		return bin
	}
	sites, err := filepath.Glob(dir + "/lib/python3*/site-packages")
	if err != nil || len(sites) != 1 {
		tb.Fatalf("packages of the virtual environment: %q %v", sites, err)
	}
	const sleeps = "import time; time.sleep = lambda s, sleep=time.sleep: sleep(s / 100)\n"
	if err := os.WriteFile(filepath.Join(sites[0], "quick.pth"), []byte(sleeps), 0o600); err != nil {
		tb.Fatal(err)
	}
	return bin
}

// EnvLong is the environment variable with which tests let examples sleep as long as their files say.
const EnvLong = "TRADEWIND_LONG"

// Long reports whether EnvLong is set.
func Long() bool { return slices.Contains([]string{"1", "true"}, os.Getenv(EnvLong)) }
