package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/sparkrun/sparktest"
)

// TestSparkRunsLocally runs the example with the real Spark: on one machine, and as a cluster of two machines that run as
// processes here. Both write the same bytes.
func TestSparkRunsLocally(t *testing.T) {
	bin := sparktest.Bin(t, "../..")
	built := build(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../examples/spark")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "words.yaml")
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cluster := bytes.Replace(body, []byte("executors: 1-4"), []byte("executors: 2"), 1)
	if bytes.Equal(body, cluster) {
		t.Fatal("the example has no executors")
	}
	const want = "word,count\ntrade,2\nwest,1\nwind,2\n"
	for name, text := range map[string][]byte{"one machine": body, "a cluster": cluster} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			s := built.in(t)
			s.t, s.env = t, append(s.env, "PATH="+bin+":"+filepath.Dir(s.program)+":"+os.Getenv("PATH"))
			s.must("tradewind run " + file)
			if got := s.must("tradewind logs last show"); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
