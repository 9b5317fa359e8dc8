package local_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/bus/local"
	"github.com/tradewind-broker/tradewind/internal/store/bolt"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// These variables are set in the process that the test kills.
const (
	crashFile  = "TRADEWIND_TEST_CRASH_FILE"
	crashRound = "TRADEWIND_TEST_CRASH_ROUND"
)

// node is a store and a bus in one file, as in a broker on a user's computer.
type node struct {
	file  *bolt.File
	store *bolt.Store
	bus   *local.Bus
}

func openNode(t *testing.T, path string) *node {
	t.Helper()
	f, err := bolt.OpenFile(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	q := work(1000)
	b, err := local.New(f, local.Config{Queues: []bus.QueueConfig{q}, Route: bus.Route{"work": {"work"}}})
	if err != nil {
		t.Fatal(err)
	}
	return &node{file: f, store: bolt.New(f), bus: b}
}

func (n *node) close() error {
	return errors.Join(n.bus.Close(), n.store.Close(), n.file.Close())
}

// produce commits events and prints the IDs of those committed.
func (n *node) produce(ctx context.Context, prefix string) error {
	for i := 0; ; i++ {
		id := fmt.Sprintf("%s/%d", prefix, i)
		if err := n.store.Commit(ctx, store.Tx{Events: []store.Event{{ID: id, Body: []byte(strings.Repeat(id, 10))}}}); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(os.Stdout, "committed", id); err != nil {
			return err
		}
	}
}

// relay runs one round of the relay.
func (n *node) relay(ctx context.Context) (int, error) {
	events, err := n.store.Outbox(ctx, 100)
	if err != nil {
		return 0, err
	}
	messages, ids := make([]bus.Message, len(events)), make([]string, len(events))
	for i, e := range events {
		messages[i], ids[i] = bus.Message{ID: e.ID, Type: "work", Body: e.Body}, e.ID
	}
	if err := n.bus.Publish(ctx, messages...); err != nil {
		return 0, err
	}
	return len(events), n.store.Published(ctx, ids...)
}

// consume handles the available messages, prints their IDs, and then acknowledges them.
func (n *node) consume(ctx context.Context, handled func(id string) error) (int, error) {
	deliveries, err := n.bus.Receive(ctx, "work", 10, time.Millisecond)
	if err != nil {
		return 0, err
	}
	receipts := make([]string, len(deliveries))
	for i, d := range deliveries {
		receipts[i] = d.Receipt
		if err := handled(d.ID); err != nil {
			return 0, err
		}
	}
	return len(receipts), n.bus.Ack(ctx, "work", receipts...)
}

// TestRunUntilKilled runs in the process that the test kills. In other processes it is skipped.
func TestRunUntilKilled(t *testing.T) {
	path := os.Getenv(crashFile)
	if path == "" {
		t.Skip("run by TestKilledProcessLosesNoEvent")
	}
	n := openNode(t, path)
	var wg sync.WaitGroup
	run := func(step func() error) {
		wg.Go(func() {
			for {
				if err := step(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for p := range 4 {
		run(func() error { return n.produce(t.Context(), fmt.Sprint(os.Getenv(crashRound), "/", p)) })
	}
	run(func() error { _, err := n.relay(t.Context()); return err })
	for range 2 {
		run(func() error {
			_, err := n.consume(t.Context(), func(id string) error {
				_, err := fmt.Fprintln(os.Stdout, "consumed", id)
				return err
			})
			return err
		})
	}
	wg.Wait()
}

func TestKilledProcessLosesNoEvent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "broker.db")
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // not security-relevant
	committed, consumed := make(map[string]bool), make(map[string]bool)
	for round := range 5 {
		killAfter(t, path, round, 1+random.IntN(1500), committed, consumed)
	}
	n := openNode(t, path)
	left := 0
	for more := true; more; { // now the remaining messages must be delivered, and no others
		moved, err := n.relay(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		handled, err := n.consume(t.Context(), func(id string) error {
			consumed[id] = true
			left++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		more = moved+handled > 0
	}
	for id := range committed {
		if !consumed[id] {
			t.Errorf("event %s was committed but never delivered", id)
		}
	}
	if letters, err := n.bus.DeadLetters(t.Context(), "", 10); err != nil || len(letters) > 0 {
		t.Errorf("dead letters %v, %v", letters, err)
	}
	if len(committed) < 200 {
		t.Errorf("only %d events were committed: too few for a test", len(committed))
	}
	t.Logf("%d events committed, %d of them after the last crash", len(committed), left)
	if err := n.close(); err != nil {
		t.Fatal(err)
	}
}

// killAfter runs the process until it has printed a number of lines, kills it, and records the printed IDs.
func killAfter(t *testing.T, path string, round, lines int, committed, consumed map[string]bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestRunUntilKilled$") //nolint:gosec // this test's own program
	cmd.Env = append(os.Environ(), crashFile+"="+path, fmt.Sprint(crashRound, "=", round))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last := ""
	scanner := bufio.NewScanner(out)
	for n := 0; scanner.Scan(); {
		last = scanner.Text()
		switch what, id, _ := strings.Cut(last, " "); what {
		case "committed":
			committed[id] = true
		case "consumed":
			consumed[id] = true
		}
		if n++; n == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
		t.Fatalf("the process ended before it was killed; its last line is %q: %v", last, err)
	}
}
