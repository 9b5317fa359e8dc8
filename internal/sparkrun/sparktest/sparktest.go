// Package sparktest finds a real Spark for tests.
package sparktest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Stores returns the folder of the connectors with which Spark reads and writes emulated buckets. Without them the test
// is skipped.
func Stores(t testing.TB, root string) string {
	t.Helper()
	dir := filepath.Join(root, ".tools", "spark-stores")
	if _, err := os.Stat(filepath.Join(dir, "stamp")); err != nil {
		t.Skip("Spark's connectors to buckets are missing: `make emulators` installs them")
	}
	lib, err := filepath.Abs(filepath.Join(dir, "lib"))
	if err != nil {
		t.Fatal(err)
	}
	return lib
}

// Bin returns the folder of programs of a Python environment with pyspark. root is the repository. Without one, or
// without Java, the test is skipped.
func Bin(t testing.TB, root string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts Spark")
	}
	if _, err := exec.LookPath("java"); err != nil {
		t.Skip("Java is missing")
	}
	tools := filepath.Join(root, ".tools")
	for _, python := range []string{tools + "/venv/bin/python3", tools + "/frameworks/bin/python3", "python3"} {
		path, err := exec.LookPath(python)
		if err != nil || exec.Command(path, "-c", "import pyspark").Run() != nil { //nolint:gosec // one of these
			continue
		}
		if path, err = filepath.Abs(path); err != nil {
			t.Fatal(err)
		}
		return filepath.Dir(path)
	}
	t.Skip("no Python has pyspark: `make emulators` installs it")
	return ""
}
