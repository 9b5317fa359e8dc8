package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/tunnel/tunneltest"
)

// orders is an array whose members run one after the other on one machine. Each prints the time at which its command
// began, in nanoseconds.
const orders = `apiVersion: tradewind/v1
name: orders
tasks:
  a:
    share: true
    array: 31
    run: 'echo "BEGAN $TRADEWIND_ARRAY_INDEX $(date +%s%N)"; sleep 3'
    time: 10s
    resources: {cpus: 2, memory: 8, instanceType: m6i.large, cloud: aws}
`

// TestLaptopOrdersArriveInSeconds measures how fast a command to run a task reaches a running worker: from the
// broker's commit of the command to the start of the task's script. The longest time includes the start of the
// worker, and does not count. `make bench-mail` reads the results from the file that TRADEWIND_BENCH_ORDERS names.
func TestLaptopOrdersArriveInSeconds(t *testing.T) {
	results := os.Getenv("TRADEWIND_BENCH_ORDERS")
	if results == "" {
		rehearsedLaptop(t)
	}
	s := build(t).in(t)
	_, certificates := emulateAWS(t, s, emulator.OwnMoto(t))
	s.must("tradewind cloud add aws --certificates " + certificates)
	out, errs, code := s.run("tradewind run " + writeJob(t, orders) + " --yes --on aws --agents " + buildAgent(t))
	if code != 0 {
		t.Fatalf("exit %d\n%s%s\n%s", code, out, errs, s.must("tradewind explain last"))
	}
	took := orderTimes(t, s)
	if half := tunneltest.Quantile(took, 0.5); half > 3*time.Second || len(took) < 30 {
		t.Errorf("half of %d orders arrive within %v", len(took), half)
	}
	if results == "" {
		return
	}
	text, err := json.Marshal(took)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(results, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

var began = regexp.MustCompile(`BEGAN (\d+) (\d+)`)

// orderTimes returns, for each task except the worker's first, the time from the broker's command to the start of the
// script.
func orderTimes(t *testing.T, s *shell) (took []time.Duration) {
	t.Helper()
	var history struct {
		Entries []struct {
			At   time.Time `json:"at"`
			Kind string    `json:"kind"`
			Task string    `json:"task"`
		} `json:"entries"`
	}
	if err := json.Unmarshal([]byte(s.must("tradewind explain last -o json")), &history); err != nil {
		t.Fatal(err)
	}
	starts := map[string]int64{}
	for _, m := range began.FindAllStringSubmatch(s.must("tradewind logs last"), -1) {
		at, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		starts[fmt.Sprintf("a[%s]", m[1])] = at
	}
	for _, e := range history.Entries {
		if at, ok := starts[e.Task]; e.Kind == "launched" && ok {
			took = append(took, time.Unix(0, at).Sub(e.At))
		}
	}
	slices.Sort(took)
	if len(took) > 0 {
		took = took[:len(took)-1]
	}
	return took
}
