package awskit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// answering starts the emulated AWS behind a proxy. For each call, answer may return an answer by the call's action,
// or "" for the emulator's answer.
func answering(t *testing.T, answer func(action string, r *http.Request) string) {
	t.Helper()
	endpoint, err := url.Parse(emulator.Moto(t))
	if err != nil {
		t.Fatal(err)
	}
	behind := httputil.NewSingleHostReverseProxy(endpoint)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		_, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		if action == "" {
			form, _ := url.ParseQuery(string(body))
			action = form.Get("Action")
		}
		if text := answer(action, r); text != "" {
			if strings.Contains(text, "<Error>") {
				w.WriteHeader(http.StatusForbidden)
			}
			_, _ = io.WriteString(w, text)
			return
		}
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	for _, kv := range emulator.Env(server.URL) {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	t.Setenv("AWS_PROFILE", "")
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
}

const (
	oneRegion = `<DescribeRegionsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><regionInfo><item><regionName>us-east-1</regionName><optInStatus>opt-in-not-required</optInStatus></item></regionInfo></DescribeRegionsResponse>`
	noVPC     = `<DescribeVpcsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><vpcSet/></DescribeVpcsResponse>`
	// moto does not know these calls
	noReservation = `<DescribeCapacityReservationsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><capacityReservationSet/></DescribeCapacityReservationsResponse>`
	noInstances   = `<DescribeReservedInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservedInstancesSet/></DescribeReservedInstancesResponse>`

	unauthorized = `<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>You are not authorized to perform this operation.</Message></Error></Errors></Response>`

	someQuota = `{"Quotas":[{"QuotaCode":"L-1216C47A","Value":64},{"QuotaCode":"L-34B43A08","Value":64}]}`
	noProfile = `<Response><Errors><Error><Code>InvalidParameterValue</Code><Message>Value (tasks) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name</Message></Error></Errors></Response>`

	noGPU  = `{"Quotas":[{"QuotaCode":"L-1216C47A","Value":64},{"QuotaCode":"L-DB2E81BA","Value":0}]}`
	noSpot = `{"Quotas":[{"QuotaCode":"L-1216C47A","Value":64},{"QuotaCode":"L-34B43A08","Value":0}]}`
	fresh  = `{"Quotas":[{"QuotaCode":"L-1216C47A","Value":5},{"QuotaCode":"L-34B43A08","Value":64}]}`
)

// For each problem of an account, the check must print one line with the command that fixes it.
//
// Sources: Amazon VPC User Guide, "Default VPCs"; Service Quotas, Amazon EC2 (new accounts have no GPU quota and 5
// vCPUs of standard machines); AWS Billing and Cost Management API reference, GetAccountPlanState.
func TestCheckReportsEachLackInOneLine(t *testing.T) {
	for name, c := range map[string]struct {
		answers map[string]string
		want    []driver.Lack
		profile string
	}{
		"nothing": {},
		"no instance profile": {map[string]string{"RunInstances": noProfile}, []driver.Lack{
			{What: "the account has no instance profile tasks", Mend: "aws iam create-instance-profile --instance-profile-name tasks", Fatal: true},
		}, "tasks"},
		"no right to pass the instance profile's role": {map[string]string{"RunInstances": unauthorized}, []driver.Lack{
			{What: "or iam:PassRole for --instance-profile", Mend: `"iam:PassRole"`, Fatal: true},
		}, "arn:aws:iam::123456789012:instance-profile/tasks"},
		"no VPC": {map[string]string{"DescribeVpcs": noVPC}, []driver.Lack{
			{What: "eu-west-1: there is no default VPC", Mend: "aws ec2 create-default-vpc --region eu-west-1"},
			{What: "us-east-1: there is no default VPC", Mend: "aws ec2 create-default-vpc --region us-east-1"},
		}, ""},
		// EC2 API reference, RunInstances, DryRun: UnauthorizedOperation if the caller lacks the right.
		"no right to launch": {map[string]string{"RunInstances": unauthorized}, []driver.Lack{
			{What: "the credentials may not launch machines", Mend: `aws iam put-user-policy --user-name`, Fatal: true},
		}, ""},
		"no right to see networks": {map[string]string{"DescribeVpcs": unauthorized}, []driver.Lack{
			{What: "UnauthorizedOperation", Mend: `"ec2:RunInstances"`, Fatal: true},
		}, ""},
		"a region that is off": {map[string]string{"DescribeRegions": oneRegion}, []driver.Lack{
			{What: "region eu-west-1 is not enabled for this account", Mend: "aws account enable-region --region-name eu-west-1"},
		}, ""},
		"no GPUs": {map[string]string{"ListServiceQuotas": noGPU}, []driver.Lack{
			{What: "the account may run no vCPUs of g machines on demand in eu-west-1, us-east-1",
				Mend: "for r in eu-west-1 us-east-1; do aws service-quotas request-service-quota-increase --service-code ec2 " +
					"--quota-code L-DB2E81BA --desired-value 64 --region $r; done"},
		}, ""},
		"no spot": {map[string]string{"ListServiceQuotas": noSpot}, []driver.Lack{
			{What: "the account may run no vCPUs of standard machines as spot in eu-west-1, us-east-1", Mend: "L-34B43A08"},
		}, ""},
		"a fresh account": {map[string]string{"ListServiceQuotas": fresh}, []driver.Lack{
			{What: "the account may run at most 5 vCPUs of standard machines on demand in", Mend: "L-1216C47A"},
		}, ""},
		"the free plan": {map[string]string{"GetAccountPlanState": `{"accountPlanType":"FREE","accountPlanStatus":"ACTIVE"}`},
			[]driver.Lack{{What: "the account is on the free plan", Mend: "aws freetier upgrade-account-plan --account-plan-type PAID"}}, ""},
		"a paid plan": {map[string]string{"GetAccountPlanState": `{"accountPlanType":"PAID","accountPlanStatus":"ACTIVE"}`}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			answering(t, func(action string, _ *http.Request) string {
				if text := c.answers[action]; text != "" {
					return text
				}
				return map[string]string{"ListServiceQuotas": someQuota, "GetAccountPlanState": `{"accountPlanType":"PAID"}`,
					"DescribeCapacityReservations": noReservation, "DescribeReservedInstances": noInstances}[action]
			})
			r := check(t, cloudkit.Settings{Regions: []string{"us-east-1", "eu-west-1"}, InstanceProfile: c.profile})
			var got []driver.Lack
			for _, l := range r.Missing {
				if !strings.Contains(l.What, "the list of the account's Savings Plans is unknown") { // moto has no Savings Plans
					got = append(got, l)
				}
			}
			if len(got) != len(c.want) {
				t.Fatalf("%+v", got)
			}
			for i, l := range got {
				if !strings.Contains(l.What, c.want[i].What) || !strings.Contains(l.Mend, c.want[i].Mend) || l.Fatal != c.want[i].Fatal ||
					strings.Contains(l.What+l.Mend, "\n") {
					t.Errorf("%+v", l)
				}
			}
		})
	}
}

// The check must ask all regions at the same time. Each takes seconds, and API Gateway answers only within 29
// seconds.
func TestCheckAsksAllRegionsAtOnce(t *testing.T) {
	regions := []string{"us-east-1", "us-east-2", "us-west-1", "us-west-2", "eu-west-1", "eu-central-1"}
	var mu sync.Mutex
	all, seen, late := make(chan struct{}), map[string]bool{}, false
	answering(t, func(action string, r *http.Request) string {
		if action != "DescribeVpcs" {
			return ""
		}
		mu.Lock()
		if seen[r.Header.Get("Authorization")] = true; len(seen) == len(regions) {
			close(all)
		}
		mu.Unlock()
		select {
		case <-all:
		case <-time.After(5 * time.Second):
			mu.Lock()
			late = true
			mu.Unlock()
		}
		return ""
	})
	r := check(t, cloudkit.Settings{Regions: regions})
	if late || len(r.Regions) != len(regions) {
		t.Errorf("a region waits for another; checked %v", r.Regions)
	}
}
