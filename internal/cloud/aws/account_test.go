package aws_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// A refused launch must name the scope of the refusal and a next step for the user. Sources: the refusal of the free
// plan, github.com/splunk/attack_range issue 1302 and github.com/aws/karpenter-provider-aws pull request 9004;
// OptInRequired, PendingVerification, VcpuLimitExceeded and MaxSpotInstanceCountExceeded, EC2 API reference, "Error
// codes"; the quota of P types on demand, Service Quotas, "Running On-Demand P instances".
func TestRefusedLaunchNamesScopeAndNextStep(t *testing.T) {
	const freeTier = "The specified instance type is not eligible for Free Tier. For a list of Free Tier instance types, " +
		"run 'describe-instance-types' with the filter 'free-tier-eligible=true'."
	w := newWorld(t, nil)
	const own = "ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
	for name, c := range map[string]struct {
		code, message, image string
		kind                 cloud.Kind
		scope                cloud.Scope
		class, next          string
	}{
		"free plan": {code: "InvalidParameterCombination", message: freeTier, kind: cloud.Capacity,
			scope: cloud.ScopeType, next: "aws freetier upgrade-account-plan"},
		"no subscription": {code: "OptInRequired", message: "You are not subscribed to this service.", kind: cloud.Auth,
			next: "cloud check aws"},
		"verification": {code: "PendingVerification", message: "Your request is being validated.", kind: cloud.Quota,
			scope: cloud.ScopeRegion, next: "--regions"},
		"on-demand quota": {code: "VcpuLimitExceeded", message: "You have requested more vCPU capacity.", kind: cloud.Quota,
			class: "standard", next: "aws service-quotas"},
		"a combination that another type may accept": {code: "InvalidParameterCombination", message: "ENA is missing.",
			kind: cloud.Capacity},
		"the task's image": {code: "InvalidAMIID.NotFound", message: "The image does not exist.", image: own,
			kind: cloud.Invalid},
		"a combination with the task's image": {code: "InvalidParameterValue", message: "Not this type.", image: own,
			kind: cloud.Capacity},
		"no instance profile": {code: "InvalidParameterValue", kind: cloud.Auth, next: "aws iam create-instance-profile",
			message: "Value (tasks) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"},
		"no spot capacity": {code: "UnfulfillableCapacity", message: "Unable to fulfill capacity.", kind: cloud.Capacity},
		"a policy":         {code: "TagPolicyViolation", message: "The tag is missing.", kind: cloud.Capacity},
	} {
		t.Run(name, func(t *testing.T) {
			w.proxy.refuse("RunInstances", 1, c.code, c.message, http.StatusBadRequest, nil)
			spec := w.spec("refused-"+strings.ReplaceAll(strings.ReplaceAll(name, "'", ""), " ", "-"), onDemand, 1)
			spec.Image = c.image
			_, err := w.aws.Launch(t.Context(), spec)
			var e *cloud.Error
			if !errors.As(err, &e) || e.Kind != c.kind || e.Scope != c.scope || e.Class != c.class ||
				!strings.Contains(e.Error(), c.message) || !strings.Contains(e.Error(), c.next) {
				t.Errorf("%+v", e)
			}
		})
	}
}
