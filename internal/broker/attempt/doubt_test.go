package attempt_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func TestDoubtChecksMachineIdentity(t *testing.T) {
	bought := record.Cluster{
		State: record.ClusterBooting, Account: "42", Nodes: []record.Node{{Machine: "i-0"}, {Machine: "i-1"}},
		Offer: apitypes.Offer{Cloud: "aws", Region: "eu-west-1"},
	}
	// The task runs on a machine that was bought for another attempt. The machine proved its identity when it joined
	// the pool.
	onPool := func(cl *record.Cluster) {
		cl.Offer, cl.Nodes = apitypes.Offer{Cloud: apitypes.PoolCloud}, make([]record.Node, 2)
	}
	itself := wire.Machine{Cloud: "aws", Account: "42", Region: "eu-west-1", ID: "i-1"}
	for name, c := range map[string]struct {
		cluster func(*record.Cluster)
		proof   func(*wire.Machine)
		without bool // the machine has sent no proof
		need    []string
		want    error
		why     string
	}{
		"itself":                       {},
		"itself, of another cloud":     {proof: func(m *wire.Machine) { m.Cloud = "gcp" }, want: record.ErrMachine, why: "machine of gcp"},
		"another rank's":               {proof: func(m *wire.Machine) { m.ID = "i-0" }, want: record.ErrMachine, why: "it is i-0, but i-1 was launched"},
		"another region's":             {proof: func(m *wire.Machine) { m.Region = "us-east-1" }, want: record.ErrMachine, why: "it is in region us-east-1"},
		"another account's":            {proof: func(m *wire.Machine) { m.Account = "43" }, want: record.ErrMachine, why: "account 43"},
		"no region said":               {proof: func(m *wire.Machine) { m.Region = "" }},
		"no account recorded":          {cluster: func(cl *record.Cluster) { cl.Account = "" }},
		"a proof that is not good":     {proof: func(m *wire.Machine) { *m = wire.Machine{Fault: "forged"} }, want: record.ErrMachine, why: "forged"},
		"a bad proof, none needed":     {proof: func(m *wire.Machine) { *m = wire.Machine{Fault: "forged"} }, need: []string{}, want: record.ErrMachine},
		"no proof":                     {without: true, want: record.ErrMachine, why: "did not prove its identity"},
		"no proof, none needed":        {without: true, need: []string{"gcp"}},
		"no proof, on a pool's":        {without: true, cluster: func(cl *record.Cluster) { cl.Offer.Cloud = apitypes.PoolCloud }, need: []string{apitypes.PoolCloud}},
		"a proof, on a worker":         {cluster: onPool},
		"a bad proof, on a worker":     {proof: func(m *wire.Machine) { *m = wire.Machine{Fault: "forged"} }, cluster: onPool},
		"before the launch is known":   {cluster: func(cl *record.Cluster) { cl.State, cl.Nodes = record.ClusterLaunching, make([]record.Node, 2) }, want: record.ErrEarly},
		"no known machine":             {cluster: func(cl *record.Cluster) { cl.Nodes = make([]record.Node, 2) }, want: record.ErrMachine, why: "no known machine"},
		"forged, before it is known":   {proof: func(m *wire.Machine) { *m = wire.Machine{Fault: "forged"} }, cluster: func(cl *record.Cluster) { cl.State = record.ClusterLaunching }, want: record.ErrMachine},
		"no name, and none is known":   {proof: func(m *wire.Machine) { m.ID = "" }, want: record.ErrMachine},
		"no proof, before it is known": {without: true, cluster: func(cl *record.Cluster) { cl.State = record.ClusterLaunching }, want: record.ErrMachine},
	} {
		t.Run(name, func(t *testing.T) {
			cl, m, cfg := bought, itself, config.Config{Proven: []string{"aws"}}
			if c.need != nil {
				cfg.Proven = c.need
			}
			if c.cluster != nil {
				c.cluster(&cl)
			}
			proof := &m
			if c.proof != nil {
				c.proof(proof)
			}
			if c.without {
				proof = nil
			}
			err := (&attempt.Arriving{Cluster: cl, Rank: 1}).Doubt(cfg, proof)
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || err != nil && !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v, want %v with %q", err, c.want, c.why)
			}
		})
	}
}

func TestDoubtIsTruncated(t *testing.T) {
	d := attempt.DecideDoubt(apitypes.Attempt{}, 1, errors.New(strings.Repeat("é", 1000)), time.Time{})
	kept, _ := d.Writes[0].Value.(apitypes.Attempt)
	if len(kept.Doubt) > 300 || len(kept.Doubt) < 200 || strings.ContainsRune(kept.Doubt, '\uFFFD') {
		t.Errorf("%d bytes: %q", len(kept.Doubt), kept.Doubt)
	}
}
