package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/pkg/parsync"
)

// child is the environment variable that marks a process started by a test.
const child = "TRADEWIND_TEST_PARSYNC_CHILD"

// TestMain runs as a placing process if a test has started it as one.
func TestMain(m *testing.M) {
	if os.Getenv(child) == "" {
		os.Exit(m.Run())
	}
	if err := place(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestProcessesPlaceEachTaskOnce runs two real processes that place tasks on the same machines: no task is placed twice or
// forgotten, and no machine exceeds its capacity.
func TestProcessesPlaceEachTaskOnce(t *testing.T) {
	t.Setenv(child, "yes")
	s := sizes{jobs: 4, tasks: 3, machines: 2, partitions: 3, turn: 20 * time.Millisecond, processes: []int{1, 2},
		policies: []parsync.Policy{parsync.QualityFirst}}
	found, err := all(t.Context(), s, []string{os.Args[0]})
	var absent *emulator.NotInstalledError
	if errors.As(err, &absent) && os.Getenv(emulator.Required) == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range found {
		if m.processes != s.processes[i] || m.placed != 12 || m.bought != 0 ||
			m.commits-m.conflicts < 12 || m.took <= 0 {
			t.Errorf("%+v", m)
		}
	}
	if found[0].conflicts != 0 || found[0].expected != 0 {
		t.Errorf("one process conflicts with itself: %+v", found[0])
	}
	if body := describe(s, found); !strings.Contains(body, "| quality | 2 | ") || !strings.Contains(body, "12 tasks of 4 jobs") {
		t.Error(body)
	}
}

func TestRunRejectsInvalidSizes(t *testing.T) {
	for want, change := range map[string]func(*sizes){
		"-jobs": func(s *sizes) { s.jobs = 7 }, "-partitions": func(s *sizes) { s.partitions = 8 },
		"-machines": func(s *sizes) { s.machines = 10 },
	} {
		s := large()
		change(&s)
		if err := run(t.Context(), s, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
