package stack

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

func num(n int) *float64 { return jsii.Number(float64(n)) }

func seconds(n int) awscdk.Duration { return awscdk.Duration_Seconds(num(n)) }

func days(n int) awscdk.Duration { return awscdk.Duration_Days(num(n)) }

// title capitalises the first letter, as in a logical ID.
func title(s string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(s, "-") {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

// retention is the CDK's name for a number of days.
func retention(days int) string {
	switch days {
	case 1:
		return "ONE_DAY"
	case 3:
		return "THREE_DAYS"
	case 5:
		return "FIVE_DAYS"
	case 7:
		return "ONE_WEEK"
	case 14:
		return "TWO_WEEKS"
	case 30:
		return "ONE_MONTH"
	case 60:
		return "TWO_MONTHS"
	case 90:
		return "THREE_MONTHS"
	case 120:
		return "FOUR_MONTHS"
	case 150:
		return "FIVE_MONTHS"
	case 180:
		return "SIX_MONTHS"
	case 365:
		return "ONE_YEAR"
	case 400:
		return "THIRTEEN_MONTHS"
	case 545:
		return "EIGHTEEN_MONTHS"
	default:
		return "TWO_YEARS"
	}
}

// allow is a statement of a policy.
func allow(sid string, actions []string, resources ...string) awsiam.PolicyStatement {
	return allowIf(sid, actions, nil, resources...)
}

// allowIf is a policy statement with conditions, by operator and key.
func allowIf(sid string, actions []string, conditions map[string]interface{},
	resources ...string) awsiam.PolicyStatement {
	p := &awsiam.PolicyStatementProps{Sid: &sid, Actions: jsii.Strings(actions...),
		Resources: jsii.Strings(resources...)}
	if conditions != nil {
		p.Conditions = &conditions
	}
	return awsiam.NewPolicyStatement(p)
}

// equals is the condition that a key has a value.
func equals(key string, value ...string) map[string]interface{} {
	return map[string]interface{}{"StringEquals": map[string]interface{}{key: value}}
}

// all is the condition that every value of a key with several values matches one of some values. ForAllValues also holds
// for a request without the key, which Null rejects (IAM User Guide, "Multivalued context keys").
func all(operator, key string, values ...string) map[string]interface{} {
	return map[string]interface{}{
		"ForAllValues:" + operator: map[string]interface{}{key: values}, "Null": map[string]interface{}{key: "false"},
	}
}

// arn returns the ARN of a resource in this account and region.
func (d *deployment) arn(service, resource string) string {
	return *d.stack.FormatArn(&awscdk.ArnComponents{
		Service: &service, Resource: &resource, ArnFormat: awscdk.ArnFormat_NO_RESOURCE_NAME,
	})
}

// anyRegion is an ARN of this account, or of another owner, in every region.
func (d *deployment) anyRegion(service, owner, resource string) string {
	return *d.stack.FormatArn(&awscdk.ArnComponents{
		Service: &service, Region: jsii.String("*"), Account: &owner, Resource: &resource,
		ArnFormat: awscdk.ArnFormat_NO_RESOURCE_NAME,
	})
}

// cfn is the resource behind a construct.
func cfn(c constructs.IConstruct) awscdk.CfnResource {
	if r, ok := c.(awscdk.CfnResource); ok {
		return r
	}
	return c.Node().DefaultChild().(awscdk.CfnResource)
}

// skip lists checkov checks that do not apply to a resource, each followed by the reason.
func skip(c constructs.IConstruct, idsAndReasons ...string) {
	list := make([]interface{}, 0, len(idsAndReasons)/2)
	for i := 0; i+1 < len(idsAndReasons); i += 2 {
		list = append(list, map[string]interface{}{"id": idsAndReasons[i], "comment": idsAndReasons[i+1]})
	}
	cfn(c).AddMetadata(jsii.String("checkov"), map[string]interface{}{"skip": list})
}

// quietLint disables cfn-lint rules that do not apply.
func quietLint(s awscdk.Stack) {
	s.AddMetadata(jsii.String("cfn-lint"), map[string]interface{}{
		"config": map[string]interface{}{"ignore_checks": []interface{}{"W3005"}},
		"reason": "the CDK says twice that a function needs its role; saying so is harmless",
	})
}
