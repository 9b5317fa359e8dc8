package sim

import "testing"

// Brokers without an address use mailboxes in a bucket. Here they are killed and restarted, the bucket refuses
// requests, and messages are lost, late and repeated. Every invariant must hold.
func TestWorldsWithoutAddressKeepInvariants(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() || raceDetector {
		seeds = 6
	}
	report, err := Chaos(t.Context(), 0, seeds, ChaosOptions{Options: Options{Mail: true, Keep: 30}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range report.Violations {
		t.Errorf("seed %d: %s: %s", v.Seed, v.Invariant, v.Detail)
	}
	for _, kind := range []string{"broker away", "bucket refuses", "late letter", "repeated letter"} {
		if report.Faults[kind] == 0 {
			t.Errorf("no world has the fault %q", kind)
		}
	}
}
