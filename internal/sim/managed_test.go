package sim

import "testing"

// Managed services refuse requests, are late, lose answers and clusters, and end idle clusters. Every invariant must
// hold.
func TestWorldsWithServicesKeepInvariants(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() || raceDetector {
		seeds = 6
	}
	report, err := Chaos(t.Context(), 0, seeds, ChaosOptions{Options: Options{Services: true, Keep: 30}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range report.Violations {
		t.Errorf("seed %d: %s: %s", v.Seed, v.Invariant, v.Detail)
	}
	if report.Faults["application succeeds"] < int(seeds)/2 {
		t.Errorf("%d applications succeeded: too few for a test", report.Faults["application succeeds"])
	}
	for _, kind := range []string{"place lost", "place unseen", "place hangs", "submitted again", "late refusal",
		"end fails", "no capacity of a service"} {
		if report.Faults[kind] == 0 && seeds == 40 {
			t.Errorf("no world has the fault %q", kind)
		}
	}
}
