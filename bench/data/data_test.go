package main

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/proc"
)

// TestMain lets this binary be the process that moves files, too.
func TestMain(m *testing.M) {
	proc.Reexec()
	if len(os.Args) > 1 && os.Args[1] == moving {
		if err := move(context.Background(), os.Args[2:]); err != nil {
			_, _ = os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// A small run of every row: what is measured is also compared, byte by byte.
func TestEveryRowArrivesWhole(t *testing.T) {
	if _, err := peer("rclone"); err != nil {
		t.Skip(err)
	}
	body, err := measure(t.Context(), settings{
		size: 6 << 20, large: 2, small: 40, repeat: 1, nodes: 3, width: 100, spread: 8, dir: t.TempDir(),
		only: regexp.MustCompile(""), tell: t.Logf,
	})
	if absent(err) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{"S3, 2 × 6 MiB up | rclone", "S3, 40 × 4 KiB down | tradewind", "S3 to S3", "passed on"} {
		if !strings.Contains(body, row) {
			t.Errorf("no row %q in\n%s", row, body)
		}
	}
}

func TestWhatDiffersIsNoticed(t *testing.T) {
	w := workload{name: "w", files: 2, size: 1 << 10}
	a, b := t.TempDir(), t.TempDir()
	for _, dir := range []string{a, b} {
		if err := w.write(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.same(a, b); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(b+"/"+w.path(1), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), 1000); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	if w.same(a, b) == nil {
		t.Error("a byte")
	}
	if err := os.Remove(b + "/" + w.path(1)); err != nil || w.same(a, b) == nil {
		t.Errorf("a missing file, %v", err)
	}
}
