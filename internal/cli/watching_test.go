package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func TestMarketsShowsBids(t *testing.T) {
	p, w := poolProgram(t)
	if r := p.ok(t, "markets"); r.out != "" || !strings.Contains(r.err, "there is no data about spot markets yet") {
		t.Errorf("before anything is known: %q, %q", r.out, r.err)
	}
	if r := p.ok(t, "markets", "-o", "json"); !strings.Contains(r.out, `"markets": []`) {
		t.Errorf("before anything is known: %s", r.out)
	}
	const market, other = "aws/us-east-2/use2-az3/c7i.2xlarge", "gcp/europe-west4/europe-west4-a/n2-standard-8"
	w.Tick(events.PriceTick{Offer: market, USD: 0.31}, events.PriceTick{Offer: other, USD: 0.2})
	job := w.Submit(apitest.Wide("mosaic", 3))
	all := p.ok(t, "markets").out
	if !strings.Contains(all, "n2-standard-8") || !strings.Contains(all, "IN 6 H") {
		t.Errorf("markets:\n%s", all)
	}
	mine := p.ok(t, "markets", "--bids").out
	if strings.Contains(mine, "n2-standard-8") || !strings.Contains(mine, "0.31") || !strings.Contains(mine, job+" up to ") {
		t.Errorf("those with bids:\n%s", mine)
	}
	if l := answer[apitypes.MarketList](t, p.ok(t, "markets", "--only", "gcp/", "-o", "json")); len(l.Markets) != 1 || l.Markets[0].Offer != other {
		t.Errorf("of Google: %+v", l.Markets)
	}
	if r := p.ok(t, "markets", "--only", "mars"); r.out != "" || !strings.Contains(r.err, "no market matches (of 2)") {
		t.Errorf("of nobody: %q, %q", r.out, r.err)
	}
}

func TestUsageDrawsGraph(t *testing.T) {
	p, w := poolProgram(t)
	w.Clock.Advance(24 * time.Hour)
	job := w.Submit(apitest.Wide("mosaic", 2))
	w.Clock.Advance(6 * time.Hour)
	w.Node(job, "split", 0).Start().Succeed()
	r := p.ok(t, "usage", "--last", "12h")
	if fields := strings.Fields(strings.Split(r.out, "\n")[1]); strings.Join(fields[:5], " ") != "default 0.5 1 4 8" {
		t.Errorf("half of the time one task of 8 vCPUs:\n%s", r.out)
	}
	if !strings.Contains(r.out, "               ███████████████") {
		t.Errorf("nothing, then all:\n%s", r.out)
	}
	if u := answer[apitypes.UsageView](t, p.ok(t, "usage", "-o", "json")); len(u.Queues) != 1 {
		t.Errorf("%+v", u)
	}
	if bad := p.run("usage", "--last", "9999h"); bad.code != command.ExitBadInput || !strings.Contains(bad.err, "744h") {
		t.Errorf("too long: %d, %s", bad.code, bad.err)
	}
}

func TestRerunSubmitsNewJob(t *testing.T) {
	p, w := poolProgram(t)
	job := w.Submit(apitest.Training())
	again := strings.TrimSpace(p.ok(t, "rerun", "last", "--key", "a").out)
	if again == "" || again == job {
		t.Fatalf("the new job is %q, of %s", again, job)
	}
	if twice := answer[apitypes.JobView](t, p.ok(t, "rerun", job, "--key", "a", "-o", "json")); twice.ID != again {
		t.Errorf("the same key made another job: %s and %s", again, twice.ID)
	}
	if r := p.run("rerun", job, again, "--key", "a"); r.code != command.ExitBadInput {
		t.Errorf("one key for two: %d, %s", r.code, r.err)
	}
}
