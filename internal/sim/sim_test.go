package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
	"github.com/tradewind-broker/tradewind/internal/sim/check"
)

// TestNoSeedViolatesInvariants simulates some histories in which every kind of fault happens. `tradewind-lab chaos`
// simulates any number of them.
func TestNoSeedViolatesInvariants(t *testing.T) {
	seeds, rare := uint64(200), []string{"crash before launch", "crash before terminate"} // each of these happens in one of about thirty worlds
	if raceDetector || testing.Short() {
		seeds, rare = 45, nil
	}
	report, err := Chaos(t.Context(), 0, seeds, ChaosOptions{Options: Options{Keep: 80}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range report.Violations {
		t.Errorf("%v\n%s", &v.Violation, strings.Join(v.History, "\n"))
	}
	if report.Seeds != int(seeds) || report.Succeeded < report.Jobs/4 || report.Promised < report.Jobs/50 {
		t.Errorf("%d seeds, %d jobs, of which %d succeeded and %d had to be on time: too few for a test", report.Seeds, report.Jobs, report.Succeeded, report.Promised)
	}
	for _, fault := range append(rare,
		"crash before commit", "crash after commit", "crash after publish",
		"store conflict", "true conflict", "store throttled", "store outcome unknown",
		"message delayed", "message repeated", "delivery lost", "acknowledgement lost", "dead letter", "function stalls", "slow operation",
		"no capacity", "no quota", "cloud outage", "cloud throttled", "launch fails", "launch hangs", "launch unseen", "terminate fails", "list fails",
		"spot machine taken", "machine dies", "agent dies", "slow boot", "late request", "task fails", "success reported twice",
		"outbid", "bid too low", "waits for a better price",
	) {
		if report.Faults[fault] == 0 {
			t.Errorf("in %d worlds there was no %s", seeds, fault)
		}
	}
}

func TestSeedDeterminesHistory(t *testing.T) {
	for _, seed := range []uint64{0, 4} {
		var first, second bytes.Buffer
		a := Run(seed, Options{History: &first})
		b := Run(seed, Options{History: &second})
		if a.Violation != nil {
			t.Fatal(a.Violation)
		}
		if a.Steps != b.Steps || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("seed %d: %d steps, then %d; the histories differ from\n%s", seed, a.Steps, b.Steps, firstDifference(first.String(), second.String()))
		}
		if first.Len() == 0 {
			t.Errorf("seed %d has no history", seed)
		}
	}
}

func firstDifference(a, b string) string {
	left, right := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(left), len(right)) {
		if left[i] != right[i] {
			return fmt.Sprintf("line %d:\n%s\n%s", i+1, left[i], right[i])
		}
	}
	return "the end of one"
}

func TestSeedsDiffer(t *testing.T) {
	var first, second bytes.Buffer
	Run(1, Options{History: &first})
	Run(2, Options{History: &second})
	if bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the seed makes no difference")
	}
}

// TestInjectedBugsAreDetected injects one bug after another into the broker. For each, an invariant must fail within
// a number of seeds. This shows that the simulator can find bugs.
func TestInjectedBugsAreDetected(t *testing.T) {
	if testing.Short() {
		t.Skip("plays hundreds of worlds")
	}
	within := map[breaks.Kind]uint64{
		breaks.NoOutbox: 1, breaks.NoSeen: 6, breaks.NoConditions: 3, breaks.NoToken: 12, breaks.NoBlock: 3,
		breaks.NoTerminate: 2, breaks.LossyBus: 3, breaks.NoReconcile: 8, breaks.NoBudget: 8, breaks.Forgetful: 6,
		breaks.Overtaking: 8, breaks.NoPartitions: 16, breaks.NoGang: 10, breaks.NoHold: 6, breaks.OldPrice: 30,
		breaks.Swinging: 24, breaks.Asleep: 8, breaks.NoUploads: 20, breaks.Generous: 12, breaks.Lasting: 10,
		breaks.Hasty: 8, breaks.Stuck: 2, breaks.Homesick: 6, breaks.Careless: 12, breaks.Stale: 40, breaks.Deaf: 24,
		breaks.Loners: 12, breaks.Herd: 6, breaks.Headless: 6, breaks.Restless: 6, breaks.Unmeasured: 6,
		breaks.Fleeting: 8, breaks.Crowding: 12, breaks.Overcommitted: 80, breaks.Circling: 10, breaks.Impatient: 150,
		breaks.Nameless: 6, breaks.Nightless: 10, breaks.Mingling: 8, breaks.Spendthrift: 6, breaks.Hoarding: 6,
		breaks.Abandoned: 12, breaks.Boastful: 12, breaks.Versionless: 16, breaks.Roomless: 50,
		breaks.Tireless: 6, breaks.Hopeful: 40, breaks.Content: 12, breaks.Rushing: 6,
		breaks.Boasting: 12, breaks.Clinging: 12,
		breaks.Unhired: 12, breaks.Haunted: 12, breaks.Squatting: 12, breaks.Communal: 60,
		breaks.Shredding: 12, breaks.Littering: 2, breaks.Chatty: 12, breaks.Hurried: 12,
		breaks.Amnesiac: 2, breaks.Thoughtless: 4, breaks.Reaping: 4, breaks.Ungated: 80,
		breaks.Presuming: 12, breaks.Unlisted: 12,
		breaks.Lingering: 4, breaks.Repeating: 4, breaks.Oblivious: 4, breaks.Undated: 4,
	}
	// The invariant that must detect a bug, for runs that test only one bug.
	by := map[breaks.Kind]string{
		breaks.NoUploads: check.InvUpload, breaks.Generous: check.InvScope, breaks.Lasting: check.InvGrant,
		breaks.Hasty: check.InvObject, breaks.Stuck: check.InvBound, breaks.Homesick: check.InvPlace,
		breaks.Careless: check.InvBooked, breaks.Stale: check.InvHealthy, breaks.Deaf: check.InvNotice,
		breaks.Loners: check.InvJoin, breaks.Herd: check.InvRole, breaks.Headless: check.InvChief,
		breaks.Restless: check.InvSuspended, breaks.Unmeasured: check.InvQuota, breaks.Fleeting: check.InvKept,
		breaks.Crowding: check.InvReserved, breaks.Overcommitted: check.InvReserved,
		breaks.Circling: check.InvCircles, breaks.Impatient: check.InvPatience, breaks.Nameless: check.InvSpace,
		breaks.Nightless: check.InvWindow, breaks.Mingling: check.InvPlaced, breaks.Spendthrift: check.InvMonth,
		breaks.Hoarding: check.InvMonth, breaks.Abandoned: check.InvReplicas, breaks.Boastful: check.InvHandOver,
		breaks.Versionless: check.InvUpdate, breaks.Roomless: check.InvMove, breaks.Tireless: check.InvBound,
		breaks.Hopeful: check.InvLost, breaks.Content: check.InvOwed, breaks.Rushing: check.InvParallel,
		breaks.Boasting: check.InvWorkerSize,
		breaks.Clinging: check.InvWorkerIdle, breaks.Unhired: check.InvWorkerStarved,
		breaks.Haunted: check.InvWorkerGone, breaks.Communal: check.InvWorkerJob,
		breaks.Shredding: check.InvMail, breaks.Littering: check.InvMail, breaks.Chatty: check.InvMail, breaks.Hurried: check.InvOutage,
		breaks.Thoughtless: check.InvUsage, breaks.Reaping: check.InvLiving,
		breaks.Ungated: check.InvLimit, breaks.Presuming: check.InvChunk,
		breaks.Lingering: check.InvOwned, breaks.Repeating: check.InvApp, breaks.Oblivious: check.InvNoticed,
		breaks.Undated: check.InvBooked,
	}
	for _, b := range breaks.All() {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			opt := Options{Break: b}
			switch b { // more of the situations that the bug affects
			case breaks.Asleep, breaks.Overtaking, breaks.Mingling, breaks.Lasting:
				opt.Jobs = 10
			case breaks.Swinging, breaks.NoPartitions: // so that sessions compete for the same machines
				opt.Jobs = 14
			case breaks.Ungated:
				opt.Jobs = 28
			case breaks.Abandoned, breaks.Boastful, breaks.Versionless:
				opt.Jobs = 1 // in addition to the services
			case breaks.Deaf, breaks.Herd:
				opt.Jobs = 4
			case breaks.Circling:
				opt.Jobs, opt.steps = 6, 60_000 // twice the number of steps that these seeds take without the bug
			}
			most := 1
			if by[b] != "" && b != breaks.Ungated { // only the bug's own invariant detects it, in one of ten worlds
				most = 0 // other invariants may detect it, too
			}
			report, err := Chaos(t.Context(), 0, within[b], ChaosOptions{Options: opt, Workers: 1, StopAfter: most}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(report.Violations, func(v Failure) bool { return by[b] == "" || v.Invariant == by[b] }) {
				t.Errorf("no violation of %q in %d seeds", by[b], report.Seeds)
			}
			if len(report.Violations) == 0 {
				t.Fatalf("%d seeds did not detect it", report.Seeds)
			}
			v := report.Violations[0]
			t.Logf("seed %d, step %d: %s", v.Seed, v.Step, v.Invariant)
			if len(v.History) == 0 || !strings.Contains(v.History[len(v.History)-1], v.Invariant) {
				t.Errorf("its history does not end with it: %q", v.History)
			}
		})
	}
}

func TestViolationReplays(t *testing.T) {
	opt := Options{Break: breaks.NoBlock, Keep: 50}
	for seed := range uint64(10) {
		a := Run(seed, opt)
		if a.Violation == nil {
			continue
		}
		b := Run(seed, opt)
		if b.Violation == nil || *a.Violation != *b.Violation {
			t.Fatalf("once %v, then %v", a.Violation, b.Violation)
		}
		return
	}
	t.Fatal("nothing to replay")
}

func TestChaosReportIsIndependentOfWorkers(t *testing.T) {
	opt := Options{Break: breaks.NoSeen}
	one, err := Chaos(t.Context(), 0, 6, ChaosOptions{Options: opt, Workers: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var seeds []uint64
	many, err := Chaos(t.Context(), 0, 6, ChaosOptions{Options: opt, Workers: 4}, func(r Result) { seeds = append(seeds, r.Seed) })
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%+v", one) != fmt.Sprintf("%+v", many) {
		t.Errorf("one worker found\n%+v\nfour found\n%+v", one, many)
	}
	if fmt.Sprint(seeds) != "[0 1 2 3 4 5]" {
		t.Errorf("progress was called for %v", seeds)
	}
}

func TestChaosStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	report, err := Chaos(ctx, 0, 1000, ChaosOptions{Workers: 2}, func(r Result) {
		if r.Seed == 2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if report.Seeds < 3 || report.Seeds > 500 {
		t.Errorf("it played %d seeds", report.Seeds)
	}
	if _, err := Chaos(t.Context(), 5, 5, ChaosOptions{}, nil); !errors.Is(err, ErrSeeds) {
		t.Errorf("no seeds: %v", err)
	}
	opt := ChaosOptions{Options: Options{Break: breaks.NoOutbox}, Workers: 1, StopAfter: 2}
	if report, err := Chaos(t.Context(), 0, 20, opt, nil); err != nil || len(report.Violations) != 2 {
		t.Errorf("after two violations: %d, %v", len(report.Violations), err)
	}
}

// TestOlderVersionChangesNothing simulates the same worlds twice: the second time, a broker of an older version
// rewrites every record. Both must have the same history.
func TestOlderVersionChangesNothing(t *testing.T) {
	for seed := range uint64(3) {
		var alone, between bytes.Buffer
		Run(seed, Options{History: &alone, Jobs: 3})
		Run(seed, Options{History: &between, Jobs: 3, Older: true})
		if alone.Len() == 0 || alone.String() != between.String() {
			t.Errorf("seed %d: %s", seed, firstDifference(alone.String(), between.String()))
		}
	}
}
