package refresh_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/cloud/aws"
	"github.com/tradewind-broker/tradewind/pkg/cloud/aws/refresh"
)

// having answers as EC2 does for an account that has reserved some: the emulator knows neither call.
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
			reserved("r5.large", "", "active", "Linux/UNIX", 1) + "</reservedInstancesSet>",
		"DescribeInstances": "<reservationSet><item><instancesSet>" +
			machine("p3.2xlarge", "us-east-1a", "<capacityReservationId>cr-1</capacityReservationId>"+ours) +
			machine("p3.2xlarge", "us-east-1a", "<capacityReservationId>cr-1</capacityReservationId>"+theirs) +
			strings.Repeat(machine("m5.large", "us-east-1b", ""), 4) + // one more than the zone's
			machine("m5.large", "us-east-1a", ours) +
			machine("m5.large", "us-east-1a", "<instanceLifecycle>spot</instanceLifecycle>") +
			machine("r5.large", "us-east-1a", theirs) + "</instancesSet></item></reservationSet>",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		action := r.Form.Get("Action")
		_, _ = fmt.Fprintf(w, "<%[1]sResponse>%[2]s</%[1]sResponse>", action, answers[action])
	}))
	t.Cleanup(server.Close)
	sdk := emulator.Config(server.URL)
	return aws.New(sdk, aws.Config{Deployment: "tw"})
}

// Counted is what nobody else uses: machines of this deployment run on what they were planned on, those of others take
// it away, in the zone's first.
func TestWhatAnAccountHasReservedIsFound(t *testing.T) {
	got, err := refresh.Reserved(t.Context(), having(t), "us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, r := range got {
		said = append(said, fmt.Sprintf("%s: %d %s in %s by %s at %v", r.ID, r.Count, r.InstanceType, r.Where(), r.By, r.USDPerHour))
		if err := r.Check(); err != nil {
			t.Error(err)
		}
	}
	want := []string{
		"cr-1: 3 p3.2xlarge in us-east-1/use1-az6 by capacity reservation at 0",
		"ri-m5.large-us-east-1: 3 m5.large in us-east-1 by reserved instances at 0",
	}
	if !slices.Equal(said, want) {
		t.Errorf("found\n%s", strings.Join(said, "\n"))
	}
}

// What the account has stays known where it is not told, here by an emulator that lacks the call.
func TestWhatWasReservedIsKeptWhereNobodyTells(t *testing.T) {
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
	if !slices.ContainsFunc(res.Kept, func(s string) bool { return strings.Contains(s, "capacity that the account has in us-east-1") }) {
		t.Errorf("it does not say so: %v", res.Kept)
	}
}
