package broker_test

import (
	"strings"
	"testing"

	"github.com/aws/smithy-go"

	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// A cloud refuses the launches of a new account for a reason that the account's owner can remove. `explain` must show
// the command for that, not only the cloud's code.
//
// Sources: EC2 API reference, "Error codes" (OptInRequired, PendingVerification); the refusal of the free plan:
// github.com/splunk/attack_range issue 1302.
func TestExplainNamesNextStepOfRefusedNewAccount(t *testing.T) {
	for code, c := range map[string]struct{ message, next string }{
		"InvalidParameterCombination": {"The specified instance type is not eligible for Free Tier.",
			"aws freetier upgrade-account-plan --account-plan-type PAID"},
		"OptInRequired":       {"You are not subscribed to this service.", "tradewind cloud check aws"},
		"PendingVerification": {"Your request is being validated.", "--regions"},
	} {
		t.Run(code, func(t *testing.T) {
			p := newAgentBench(t, "{first: {run: x, time: 1h, resources: {cloud: gcp}}}", nil)
			p.cloud["aws"].refuse = func(cloud.LaunchSpec) error {
				return aws.Typed(&smithy.GenericAPIError{Code: code, Message: c.message})
			}
			p.submit("{t: {run: x, time: 1h, resources: {cloud: aws, region: us-east-1, instanceType: m5.xlarge}}}", "2")
			p.deliverAll()
			shown := ""
			for _, e := range p.story() {
				shown += e.Text + "\n"
			}
			if !strings.Contains(shown, c.message) || !strings.Contains(shown, c.next) {
				t.Errorf("explain shows:\n%s", shown)
			}
			if d := p.detail(); d.State.Finished() {
				t.Errorf("the job is %s: %s", d.State, d.Reason)
			}
		})
	}
}
