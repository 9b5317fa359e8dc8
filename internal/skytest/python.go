package skytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// Python is a folder for PATH: a virtual environment, so that what an example installs stays out of this computer. With
// quick, its sleeps take a hundredth of what they say. The test is skipped where Python or its package index is
// missing.
func Python(tb testing.TB, quick bool) (bin string) {
	tb.Helper()
	dir := tb.TempDir()
	make := exec.CommandContext(tb.Context(), "python3", "-m", "venv", dir) //nolint:gosec // of the test's own
	if out, err := make.CombinedOutput(); err != nil {
		tb.Skipf("python3 makes no virtual environment: %v\n%s", err, out)
	}
	bin = filepath.Join(dir, "bin")
	fetch := exec.CommandContext(tb.Context(), bin+"/pip", "download", "--quiet", "--no-deps", //nolint:gosec // its own
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

// EnvLong is a variable with which tests take the time that the files say.
const EnvLong = "TRADEWIND_LONG"

// Long says whether it is set.
func Long() bool { return slices.Contains([]string{"1", "true"}, os.Getenv(EnvLong)) }
