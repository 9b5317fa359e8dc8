package lab

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestBootTimesMayBeCompressed(t *testing.T) {
	const text = "cloud,type,first_script_line_s\naws,a,12\n"
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write([]byte(text)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"b.csv": []byte(text), "b.csv.gz": z.Bytes()} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		boots, err := readBoots(file)
		if err != nil {
			t.Fatal(err)
		}
		if boot, ok := boots.Quantile("aws", "a", 0.5); !ok || boot != 12*time.Second {
			t.Errorf("%s: %v %v", name, boot, ok)
		}
	}
	if boots, err := readBoots(""); boots != nil || err != nil {
		t.Errorf("without a file: %v %v", boots, err)
	}
	bad := filepath.Join(dir, "bad.csv.gz")
	if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{bad, filepath.Join(dir, "none.csv")} {
		if _, err := readBoots(name); err == nil || !strings.Contains(err.Error(), "--boot-times") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
