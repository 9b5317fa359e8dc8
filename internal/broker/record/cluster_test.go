package record

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// TestLargestClusterFitsRecord, with every field of its nodes at its maximum length: machines of a pool have the
// longest names. The rest is reserved for fields of later versions.
func TestLargestClusterFitsRecord(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 123456789, time.UTC)
	host := strings.Repeat("m", 63)
	long := strings.Repeat("x", readable.MaxClip)
	cl := Cluster{
		ID: ClusterID("a-job-of-a-long-name-0123456789ab", 99_999, 9999), Job: "a-job-of-a-long-name-0123456789ab", Task: 99_999, Attempt: 9999,
		Queue: long[:128], State: ClusterReleasing, Account: long, Store: long, Reason: long, Refused: cloud.Capacity, Reached: long,
		Unready: long, Market: long, Intended: now, Launched: now, Since: now, Until: now, LeaseUntil: now, KeptUntil: now, Up: now,
		Running: now, Ended: now, PricedAt: now, Ready: now, Started: true,
		Offer: apitypes.Offer{Cloud: long, Region: long, Zone: long, InstanceType: long, Accelerator: long, Reservation: long},
	}
	for range dag.MaxNodes {
		cl.Hosts = append(cl.Hosts, host)
		cl.Nodes = append(cl.Nodes, Node{
			Machine: host, Address: "2001:0db8:85a3:0000:0000:8a2e:0370:7334", Hello: ShortHash("nonce"), Seen: now, Started: true,
			Done: true, Stopped: true, Keeps: true, EgressUSD: 0.12345678901234567,
		})
	}
	body, err := json.Marshal(cl)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d nodes are %d bytes of %d", dag.MaxNodes, len(body), store.MaxItemBytes)
	if most := store.MaxItemBytes * 9 / 10; len(body) > most {
		t.Errorf("%d nodes are %d bytes, more than %d", dag.MaxNodes, len(body), most)
	}
}
