package host_test

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// ask sends a request as a user does.
func ask[T any](t *testing.T, h *host.Host, method, path, body string) (v T) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, h.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.Token())
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(res.Body)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d, %v: %s", method, path, res.StatusCode, err, text)
	}
	return v
}

// within returns a deadline in a number of hours, as a field of a job file.
func within(hours float64) string {
	return (time.Duration(math.Ceil(hours*3600)) * time.Second).String()
}

func TestHostChecksCloudsAndComputesFrontier(t *testing.T) {
	h, _ := serve(t, host.Options{State: t.TempDir()})
	clouds := ask[apitypes.CloudReports](t, h, "GET", "/v1/clouds", "").Clouds
	if len(clouds) < 3 {
		t.Errorf("%d clouds", len(clouds))
	}
	for _, c := range clouds {
		if !c.Played || len(c.Missing) > 0 || c.Machines != 0 {
			t.Errorf("a cloud that is played tells %+v", c)
		}
	}
	const file = "apiVersion: tradewind/v1\nname: two\ntasks:\n" +
		"  one: {run: 'true', resources: {accelerators: 'V100:1'}, time: 3h, checkpoint: {path: c, every: 10m}}\n" +
		"  two: {run: 'true', after: [one], time: 1h}\n"
	f := ask[apitypes.FrontierView](t, h, "POST", "/v1/frontiers?points=5", file)
	if len(f.Points) < 2 || f.Points[0].USD <= f.Points[len(f.Points)-1].USD || f.Points[0].Tasks != 2 {
		t.Fatalf("the frontier is %+v", f)
	}
	// A plan whose deadline is the time of one of the points must cost as much as that point.
	first := f.Points[0]
	plan := ask[apitypes.PlanView](t, h, "POST", "/v1/plans?deadline="+within(first.Hours), file)
	if plan.Status != "optimal" || plan.USD > first.USD*1.000001 || plan.USD < first.USD*0.999999 {
		t.Errorf("a deadline of %s costs %g (%s), the frontier said %g", within(first.Hours), plan.USD, plan.Status, first.USD)
	}
	if none := ask[apitypes.FrontierView](t, h, "POST", "/v1/frontiers?budget=0.0000001", file); len(none.Points) > 0 {
		t.Errorf("for nothing there are %d plans", len(none.Points))
	}
}
