package bolt_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/store/bolt"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

const (
	crashFile    = "TRADEWIND_TEST_CRASH_FILE" // set in the process that the test kills
	crashWorkers = 8
)

func crashKey(worker, i int) (a, b, count store.Key) {
	w, n := strconv.Itoa(worker), fmt.Sprintf("%06d", i)
	return store.Key{Partition: "a/" + w, Sort: n}, store.Key{Partition: "b/" + n, Sort: w}, store.Key{Partition: "count", Sort: w}
}

// crashTx returns the i'th transaction of a worker: two new records, a new event, and the worker's count.
func crashTx(worker, i int) store.Tx {
	a, b, count := crashKey(worker, i)
	body := []byte(strings.Repeat(fmt.Sprintf("%d/%d ", worker, i), 20))
	return store.Tx{
		Writes: []store.Write{
			{Key: a, Expect: store.Absent, Body: body},
			{Key: b, Expect: store.Absent, Body: body},
			{Key: count, Expect: store.Version(i), Body: []byte(strconv.Itoa(i + 1))}, //nolint:gosec // i counts up from 0
		},
		Events: []store.Event{{ID: fmt.Sprintf("%d/%06d", worker, i), Body: body}},
	}
}

// counted returns how many transactions of a worker are in the store.
func counted(ctx context.Context, s store.Store, worker int) (int, error) {
	_, _, count := crashKey(worker, 0)
	r, err := s.Get(ctx, count)
	if err != nil || len(r) == 0 {
		return 0, err
	}
	return strconv.Atoi(string(r[0].Body))
}

// TestCommitUntilKilled runs in the process that the test kills. The process compacts its file all the time. In other
// processes it is skipped.
func TestCommitUntilKilled(t *testing.T) {
	path := os.Getenv(crashFile)
	if path == "" {
		t.Skip("run by TestKilledProcessLosesNothingAcknowledged")
	}
	f, err := bolt.OpenFile(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := bolt.New(f)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			if _, err := f.Compact(t.Context(), -1); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for w := range crashWorkers {
		wg.Go(func() {
			i, err := counted(t.Context(), s, w)
			for ; err == nil; i++ {
				if err = s.Commit(t.Context(), crashTx(w, i)); err == nil {
					_, err = fmt.Fprintf(os.Stdout, "acknowledged %d %d\n", w, i)
				}
			}
			t.Error(err)
		})
	}
	wg.Wait()
}

func TestKilledProcessLosesNothingAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // not security-relevant
	acknowledged := make([]int, crashWorkers)
	for range 6 {
		killAfter(t, path, 1+random.IntN(1000), acknowledged)
		s := open(t, path, bolt.Options{})
		for w, n := range acknowledged {
			verify(t, s, w, n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			return
		}
	}
	total := 0
	for _, n := range acknowledged {
		total += n
	}
	if total < 500 {
		t.Errorf("only %d transactions were acknowledged: too few for a test", total)
	}
}

// killAfter runs the process until it has acknowledged a number of further transactions, and kills it. It records all
// acknowledged transactions.
func killAfter(t *testing.T, path string, lines int, acknowledged []int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCommitUntilKilled$", "-test.v") //nolint:gosec // this test's own program
	cmd.Env = append(os.Environ(), crashFile+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	scanner := bufio.NewScanner(io.TeeReader(out, &said))
	for n := 0; scanner.Scan(); {
		var w, i int
		if _, err := fmt.Sscanf(scanner.Text(), "acknowledged %d %d", &w, &i); err != nil {
			continue // a line of the testing package
		}
		acknowledged[w] = max(acknowledged[w], i+1)
		if n++; n == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
		t.Fatalf("the process ended before it was killed: %v\n%s", err, said.String())
	}
}

// verify fails the test unless the store has at least the first n transactions of a worker. Each must be in the store
// completely or not at all.
func verify(t *testing.T, s store.Store, worker, n int) {
	t.Helper()
	count, err := counted(t.Context(), s, worker)
	if err != nil {
		t.Fatal(err)
	}
	if count < n {
		t.Errorf("worker %d: %d transactions were acknowledged, %d are in the store", worker, n, count)
	}
	events, err := s.Outbox(t.Context(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	pending := make(map[string]string)
	for _, e := range events {
		pending[e.ID] = string(e.Body)
	}
	for i := range count + 3 {
		tx := crashTx(worker, i)
		a, b, _ := crashKey(worker, i)
		r, err := s.Get(t.Context(), a, b)
		if err != nil {
			t.Fatal(err)
		}
		event, sent := pending[tx.Events[0].ID]
		want := i < count
		if whole := len(r) == 2 && sent; whole != want || !want && (len(r) != 0 || sent) {
			t.Fatalf("worker %d, transaction %d of %d: %d records, event %v", worker, i, count, len(r), sent)
		}
		if want && (string(r[0].Body) != string(tx.Writes[0].Body) || string(r[1].Body) != string(tx.Writes[1].Body) || event != string(tx.Events[0].Body)) {
			t.Fatalf("worker %d, transaction %d has other bodies", worker, i)
		}
	}
}
