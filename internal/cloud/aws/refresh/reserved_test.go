package refresh_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/internal/cloud/aws/refresh"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// having simulates EC2 for an account with reserved capacity, because the emulator lacks the calls.
func having(t *testing.T) *aws.Cloud {
	t.Helper()
	reservation := func(id, kind, state, platform, tenancy string, free int) string {
		return fmt.Sprintf("<item><capacityReservationId>%s</capacityReservationId><instanceType>%s</instanceType>"+
			"<instancePlatform>%s</instancePlatform><availabilityZone>us-east-1a</availabilityZone><tenancy>%s</tenancy>"+
			"<state>%s</state><totalInstanceCount>9</totalInstanceCount><availableInstanceCount>%d</availableInstanceCount></item>",
			id, kind, platform, tenancy, state, free)
	}
	reserved := func(kind, zone, state, product string, n int) string {
		if zone != "" {
			zone = "<availabilityZone>" + zone + "</availabilityZone>"
		}
		return fmt.Sprintf("<item><reservedInstancesId>x</reservedInstancesId><instanceType>%s</instanceType>%s"+
			"<end>2027-03-01T00:00:00Z</end><instanceCount>%d</instanceCount><productDescription>%s</productDescription>"+
			"<state>%s</state><instanceTenancy>default</instanceTenancy></item>", kind, zone, n, product, state)
	}
	machine := func(kind, zone, more string) string {
		return "<item><instanceId>i-1</instanceId><instanceType>" + kind + "</instanceType><placement><availabilityZone>" +
			zone + "</availabilityZone></placement>" + more + "</item>"
	}
	const ours = "<tagSet><item><key>tradewind:deployment</key><value>tw</value></item></tagSet>"
	const theirs = "<tagSet><item><key>tradewind:deployment</key><value>other</value></item></tagSet>"
	answers := map[string]string{
		"DescribeAvailabilityZones": "<availabilityZoneInfo><item><zoneName>us-east-1a</zoneName><zoneId>use1-az6</zoneId></item>" +
			"<item><zoneName>us-east-1b</zoneName><zoneId>use1-az1</zoneId></item></availabilityZoneInfo>",
		"DescribeCapacityReservations": "<capacityReservationSet>" +
			reservation("cr-1", "p3.2xlarge", "active", "Linux/UNIX", "default", 2) +
			reservation("cr-2", "p3.2xlarge", "expired", "Linux/UNIX", "default", 2) +
			reservation("cr-3", "p3.2xlarge", "active", "Windows", "default", 2) +
			reservation("cr-4", "p3.2xlarge", "active", "Linux/UNIX", "dedicated", 2) +
			reservation("cr-5", "p3.2xlarge", "active", "Linux/UNIX", "default", 0) + "</capacityReservationSet>",
		"DescribeReservedInstances": "<reservedInstancesSet>" +
			reserved("m5.large", "us-east-1b", "active", "Linux/UNIX (Amazon VPC)", 2) +
			reserved("m5.large", "us-east-1b", "active", "Linux/UNIX", 1) +
			reserved("m5.large", "", "active", "Linux/UNIX", 4) +
			reserved("m5.large", "", "retired", "Linux/UNIX", 8) +
			reserved("c5.large", "", "active", "Windows", 8) +
			reserved("g4dn.xlarge", "", "active", "Linux/UNIX", 2) + reserved("t3.nano", "", "active", "Linux/UNIX (Amazon VPC)", 6) +
			reserved("r5.large", "", "active", "Linux/UNIX", 1) + "</reservedInstancesSet>",
		"DescribeInstances": "<reservationSet><item><instancesSet>" +
			machine("p3.2xlarge", "us-east-1a", "<capacityReservationId>cr-1</capacityReservationId>"+ours) +
			machine("p3.2xlarge", "us-east-1a", "<capacityReservationId>cr-1</capacityReservationId>"+theirs) +
			strings.Repeat(machine("m5.large", "us-east-1b", ""), 4) + // one more than the zone has reserved
			machine("m5.large", "us-east-1a", ours) +
			machine("m5.large", "us-east-1a", "<instanceLifecycle>spot</instanceLifecycle>") +
			machine("c5.large", "us-east-1a", theirs) + machine("c5.large", "us-east-1a", ours) +
			machine("r5.large", "us-east-1a", theirs) + "</instancesSet></item></reservationSet>",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/DescribeSavingsPlan") {
			plans(w, r)
			return
		}
		_ = r.ParseForm()
		action := r.Form.Get("Action")
		_, _ = fmt.Fprintf(w, "<%[1]sResponse>%[2]s</%[1]sResponse>", action, answers[action])
	}))
	t.Cleanup(server.Close)
	sdk := emulator.Config(server.URL)
	return aws.New(sdk, aws.Config{Deployment: "tw"})
}

// Reserved capacity counts unless machines of others use it, the zonal capacity first. Machines of this deployment do
// not reduce it.
func TestReserved(t *testing.T) {
	known, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	got, err := refresh.Reserved(t.Context(), having(t), "us-east-1", known)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(got, func(r catalog.Reserved) bool {
		return r.ID == "cr-5" && r.Count == 0 && r.Total == catalog.Machines(9)
	}) {
		t.Errorf("used-up capacity is not reported: %+v", got)
	}
	got = renew.Usable(got)
	var said []string
	for _, r := range got {
		said = append(said, fmt.Sprintf("%s: %s of %s in %s by %s at %v", r.ID, r.Has(), r.What(), r.Where(), r.By, r.USDPerHour))
		if err := r.Check(); err != nil {
			t.Error(err)
		}
	}
	want := []string{
		"cr-1: 3 machines of p3.2xlarge in us-east-1/use1-az6 by capacity reservation at 0",
		"ri-m5-us-east-1: 12 normalised units of m5 machines in us-east-1 by reserved instances at 0",
		"ri-g4dn.xlarge-us-east-1: 2 machines of g4dn.xlarge in us-east-1 by reserved instances at 0",
		"ri-t3-us-east-1: 1.5 normalised units of t3 machines in us-east-1 by reserved instances at 0",
	}
	if !slices.Equal(said, want) {
		t.Fatalf("found\n%s", strings.Join(said, "\n"))
	}
	for kind, takes := range map[string]int64{"m5.large": 400, "m5.24xlarge": 19200, "m5.metal": 0, "m5d.large": 0, "t3.nano": 0} {
		o := catalog.Offer{Cloud: "aws", Region: "us-east-1", Zone: "use1-az1", InstanceType: kind}
		if a, ok := got[1].Takes(&o); a.CentiUnits != takes || ok != (takes > 0) {
			t.Errorf("%s takes %v, %v", kind, a, ok)
		}
		o.Region = "us-west-2"
		if got[1].Covers(&o) {
			t.Errorf("%s is covered in another region", kind)
		}
	}
}

// A reserved instance pays for only a part of another user's machine. That machine then uses up the whole part.
// Regional reserved instances also pay for capacity reservations.
func TestReservedInstancesOfFamilyCoverAllSizes(t *testing.T) {
	for name, c := range map[string]struct {
		reserved, running, capacity string
		left, unpaid                string
	}{
		"nothing runs":              {"c5.xlarge*2", "", "", "16 normalised units", ""},
		"smaller ones":              {"c5.xlarge*2", "c5.large*3", "", "4 normalised units", ""},
		"a larger one, in part":     {"c5.xlarge*2", "c5.9xlarge", "", "", "c5.9xlarge"},
		"several sizes are one sum": {"c5.xlarge c5.large*2", "c5.2xlarge", "", "", ""},
		"what is reserved":          {"c5.xlarge*2", "c5.large", "c5.large*2", "4 normalised units", ""},
		"another family":            {"c5.xlarge", "c5d.xlarge c5n.xlarge", "c5a.xlarge", "8 normalised units", "c5d.xlarge c5n.xlarge c5a.xlarge"},
		"of one size alone":         {"g5.xlarge*2", "g5.2xlarge g5.xlarge", "", "1 machine", "g5.2xlarge"},
		"bare metal":                {"c5.metal*2", "c5.large c5.metal", "", "1 machine", "c5.large"},
	} {
		left, unpaid := refresh.Left(strings.Fields(c.reserved), strings.Fields(c.running), strings.Fields(c.capacity))
		if left != c.left || unpaid != c.unpaid {
			t.Errorf("%s: %q remains, and %q is unpaid", name, left, unpaid)
		}
	}
}

// The cloud cannot list the reserved capacity (the emulator lacks the call). The catalogue must keep the capacity
// that it had.
func TestRefreshKeepsReservedCapacityIfCallFails(t *testing.T) {
	r, b := newRefresher(t, listings{})
	base, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	before := catalog.Reserved{Cloud: "aws", ID: "cr-9", Region: "us-east-1", InstanceType: "m5.large", Count: 2}
	if r.Base, err = base.WithReserved(func(*catalog.Reserved) bool { return true }, []catalog.Reserved{before}); err != nil {
		t.Fatal(err)
	}
	c, res := refreshed(t, r, b)
	if got := c.Reserved(); len(got) != 1 || got[0] != before {
		t.Errorf("%+v", got)
	}
	if !slices.ContainsFunc(res.Kept, func(s string) bool { return strings.Contains(s, "capacity that the account has in us-east-1") }) ||
		!slices.ContainsFunc(res.Kept, func(s string) bool { return strings.Contains(s, "the list of the account's Savings Plans") }) {
		t.Errorf("Kept does not list it: %v", res.Kept)
	}
}

// plans simulates the Savings Plans of an account, one on each page.
func plans(w http.ResponseWriter, r *http.Request) {
	var in struct{ SavingsPlanID, NextToken string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	plan := func(id, kind, more, usd, state string) string {
		return fmt.Sprintf(`{"savingsPlanId": %q, "savingsPlanType": %q, %s "commitment": %q, "currency": "USD",
			"state": %q, "end": "2099-01-01T00:00:00.000Z"}`, id, kind, more, usd, state)
	}
	rate := func(region, kind, usage, product, tenancy, usd string) string {
		return fmt.Sprintf(`{"rate": %q, "currency": "USD", "unit": "Hrs", "productType": "EC2", "usageType": %q, "properties": [
			{"name": "region", "value": %q}, {"name": "instanceType", "value": %q},
			{"name": "productDescription", "value": %q}, {"name": "tenancy", "value": %q}]}`, usd, usage, region, kind, product, tenancy)
	}
	const family = `"ec2InstanceFamily": "p3", "region": "us-east-1",`
	what, pages := "savingsPlans", []string{
		plan("all", "Compute", "", "1.50000001", "active"), plan("p3", "EC2Instance", family, "40.0", "active"),
		plan("old", "Compute", "", "9", "retired"), plan("ml", "SageMaker", "", "9", "active"),
		plan("far", "EC2Instance", strings.ReplaceAll(family, "us-east-1", "eu-west-1"), "9", "active"),
		plan("small", "EC2Instance", strings.ReplaceAll(family, "p3", "r5"), "0", "active"),
	}
	if r.URL.Path == "/DescribeSavingsPlanRates" {
		what = "searchResults"
		pages = map[string][]string{
			"all": {rate("us-east-1", "m5.large", "BoxUsage:m5.large", "Linux/UNIX", "shared", "0.0700001"),
				rate("us-east-1", "m5.large", "UnusedBox:m5.large", "Linux/UNIX", "shared", "0.01"),
				rate("us-east-1", "m5.large", "BoxUsage:m5.large", "Windows", "shared", "0.16"),
				rate("us-east-1", "c5.large", "BoxUsage:c5.large", "Linux/UNIX", "shared", "0.06"),
				rate("us-east-1", "c5.large", "BoxUsage:c5.large", "Linux/UNIX", "dedicated", "0.07"),
				rate("us-east-1", "p3.2xlarge", "BoxUsage:p3.2xlarge", "Linux/UNIX", "shared", "1.2")},
			"p3": {rate("us-east-1", "p3.2xlarge", "BoxUsage:p3.2xlarge", "Linux/UNIX", "shared", "1.0")},
		}[in.SavingsPlanID]
	}
	at, _ := strconv.Atoi(in.NextToken)
	next := ""
	if at+1 < len(pages) {
		next = strconv.Itoa(at + 1)
	}
	if at >= len(pages) {
		http.Error(w, "{}", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{%q: [%s], "nextToken": %q}`, what, pages[at], next)
}

// A plan counts with the part that others do not use. The plan of a family pays for capacity reservations, and the
// plan for all machines pays for on-demand machines. These do not use a plan: machines paid by reserved instances,
// spot machines, and machines of this deployment.
func TestCommitted(t *testing.T) {
	got, err := refresh.Committed(t.Context(), having(t), []string{"us-east-1"}, time.Unix(1_800_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	if total := got[0].Total; total != catalog.SupplyUSD(40) {
		t.Errorf("total is %v", total)
	}
	got = renew.Usable(got)
	var said []string
	for _, r := range got {
		said = append(said, fmt.Sprintf("%s: %s for %s in %s by %s", r.ID, r.Has(), r.What(), r.Where(), r.By))
		for _, what := range slices.Sorted(maps.Keys(r.Commitment.Takes)) {
			said = append(said, fmt.Sprintf("  %s takes %s", what, r.Commitment.Takes[what]))
		}
		if err := r.Check(); err != nil {
			t.Error(err)
		}
	}
	want := []string{
		"sp-p3: 22 USD an hour for p3 machines in us-east-1 by savings plan",
		"  us-east-1/p3.2xlarge takes 1 USD an hour",
		"sp-all: 1.44 USD an hour for machines of any type in all regions by savings plan",
		"  us-east-1/c5.large takes 0.06 USD an hour",
		"  us-east-1/m5.large takes 0.070001 USD an hour",
		"  us-east-1/p3.2xlarge takes 1.2 USD an hour",
	}
	if !slices.Equal(said, want) {
		t.Errorf("found\n%s", strings.Join(said, "\n"))
	}
}
