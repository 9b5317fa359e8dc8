package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/benchreport"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// benchmark runs Go benchmarks and returns their lines.
func benchmark(ctx context.Context, pkg, pattern string) ([]string, string, error) {
	args := []string{"test", "-run", "^$", "-bench", pattern, pkg}
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // our own packages
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var lines []string
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "Benchmark") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines, "go test -run '^$' -bench " + pattern + " " + pkg, err
}

var benchLine = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)

func catalogue(ctx context.Context) ([]benchreport.Row, error) {
	lines, command, err := benchmark(ctx, "./pkg/catalog", ".")
	if err != nil {
		return nil, err
	}
	targets := map[string]string{"Load": "20 ms", "Query": "50 µs", "Heap": "30 MB"}
	var rows []benchreport.Row
	for _, line := range lines {
		m := benchLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		target := ""
		for key, t := range targets {
			if strings.Contains(m[1], key) {
				target = t
			}
		}
		rows = append(rows, benchreport.Row{Measure: m[1], Target: target, Result: strings.Join(strings.Fields(m[2]), " "),
			Command: command})
	}
	return rows, nil
}

// large runs a job of many recorded tasks as real processes that take no time, and measures the broker's peak memory.
func large(ctx context.Context, tasks int) ([]benchreport.Row, error) {
	dir, err := os.MkdirTemp("", "tradewind-large-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	job := layered(tasks, 500)
	body, err := dag.Marshal(job)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "bin/tradewind", "run", file, "--time-scale", "0", "--state", filepath.Join(dir, "state"), "-o", "json") //nolint:gosec // our own program
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	peak := make(chan int, 1)
	stop := make(chan struct{})
	go func() { peak <- watchMemory(cmd.Process.Pid, stop) }()
	err = cmd.Wait()
	close(stop)
	most := <-peak
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out.String())
	}
	return []benchreport.Row{{
		Measure: fmt.Sprintf("peak memory of the broker, %d-task DAG as real processes", tasks), Target: "500 MB",
		Result:  fmt.Sprintf("%.0f MB in %s", float64(most)/1024, time.Since(begin).Round(time.Second)),
		Command: "make build bench-build && bin/bench/run -only large",
	}}, nil
}

// watchMemory returns the highest resident size of a process, kB.
func watchMemory(pid int, stop <-chan struct{}) int {
	most := 0
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		body, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err == nil {
			for line := range strings.Lines(string(body)) {
				var kb int
				if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kb); n == 1 {
					most = max(most, kb)
				}
			}
		}
		select {
		case <-stop:
			return most
		case <-ticker.C:
		}
	}
}

// chaos runs the simulator with the seeds that the design specifies.
func chaos(ctx context.Context) ([]benchreport.Row, error) {
	begin := time.Now()
	cmd := exec.CommandContext(ctx, "bin/tradewind-lab", "chaos", "--seeds", "0:500", "-o", "json")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var found struct {
		Violations []json.RawMessage `json:"violations"`
	}
	if err := json.Unmarshal(out, &found); err != nil {
		return nil, err
	}
	return []benchreport.Row{{
		Measure: "500 simulated histories with faults", Target: "no violation",
		Result:  fmt.Sprintf("%d violations in %s", len(found.Violations), time.Since(begin).Round(time.Second)),
		Command: "bin/tradewind-lab chaos --seeds 0:500",
	}}, nil
}
