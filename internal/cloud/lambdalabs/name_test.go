package lambdalabs_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/lambdalabs"
)

var names = rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._:/=+@-]{0,254}`)

// TestNameRoundTrip: names of machines must fit the API's limit, and it must be possible to parse them.
func TestNameRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		deployment, cluster, other := names.Draw(t, "deployment"), names.Draw(t, "cluster"), names.Draw(t, "other")
		rank := rapid.IntRange(0, 4095).Draw(t, "rank")
		at := time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "at"))
		name := lambdalabs.NameOf(deployment, cluster, rank, at)
		if len(name) > 64 {
			t.Fatalf("%q has %d characters", name, len(name))
		}
		short, got, of, ok := lambdalabs.ReadName(deployment, name)
		if !ok || got != rank || !of(cluster) || (other != cluster && of(other)) {
			t.Fatalf("%q is parsed as rank %d of %q (%v)", name, got, short, ok)
		}
		if _, _, _, ok := lambdalabs.ReadName(deployment+"x", name); ok {
			t.Fatalf("%q is accepted by another deployment too", name)
		}
	})
}

func TestNameContainsClusterName(t *testing.T) {
	const cluster = "dag-20261122-0123456789abcdef.12.3"
	if short, _, _, _ := lambdalabs.ReadName("d", lambdalabs.NameOf("d", cluster, 1, time.Now())); short != cluster {
		t.Errorf("parsed %q", short)
	}
}

func FuzzReadName(f *testing.F) {
	for _, s := range []string{"", "tw-", lambdalabs.NameOf("d", "c", 1, time.Now()), "tw-aaaaaaaa-zz-1-", "tw-aaaaaaaa--1-c", "My Instance"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		cluster, rank, of, ok := lambdalabs.ReadName("d", name)
		if ok && (rank < 0 || cluster == "" || (driver.ValidCluster(cluster) && !of(cluster))) {
			t.Errorf("%q is parsed as rank %d of %q", name, rank, cluster)
		}
	})
}
