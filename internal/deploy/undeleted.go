package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// ErrUndeleted means that CloudFormation could not delete resources of a stack. The error names them and the next
// steps.
var ErrUndeleted = errors.New("deploy: the stack could not be deleted")

// undeleted describes why the deletion of a stack failed, from the state of its resources. It returns failure if these
// do not say.
func (t *Target) undeleted(ctx context.Context, name, id string, failure error) error {
	if !errors.Is(failure, ErrFailed) {
		return failure
	}
	out, err := t.cfn.DescribeStackResources(ctx, &cloudformation.DescribeStackResourcesInput{StackName: &id})
	if err != nil {
		return failure
	}
	var lines, left []string
	for i := range out.StackResources {
		if r := &out.StackResources[i]; r.ResourceStatus == types.ResourceStatusDeleteFailed {
			lines = append(lines, t.obstacle(r))
			left = append(left, aws.ToString(r.LogicalResourceId))
		}
	}
	if len(lines) == 0 {
		return failure
	}
	return fmt.Errorf("%w: %s in %s:\n  %s\nthen run --destroy again; or keep what is left: aws cloudformation "+
		"delete-stack --stack-name %s --region %s --retain-resources %s", ErrUndeleted, name, t.Region,
		strings.Join(lines, "\n  "), name, t.Region, strings.Join(left, " "))
}

// obstacle describes a resource that remains: its name, the reason, and the step that the user has to take.
func (t *Target) obstacle(r *types.StackResource) string {
	physical := aws.ToString(r.PhysicalResourceId)
	reason := strings.TrimSpace(aws.ToString(r.ResourceStatusReason))
	if text, _, cut := strings.Cut(reason, " (Service: "); cut { // the service's request ID and status say nothing more
		reason = strings.TrimPrefix(text, "Resource handler returned message: \"")
	}
	return fmt.Sprintf("%s (%s): %s; %s", physical, aws.ToString(r.ResourceType), reason,
		t.remedy(aws.ToString(r.ResourceType), physical))
}

// remedy is the step that makes a resource of a type deletable.
func (t *Target) remedy(typ, physical string) string {
	switch typ {
	case "AWS::S3::Bucket":
		return fmt.Sprintf(
			"empty it: aws s3 rm s3://%s --recursive --region %s (docs/aws.md empties one with versions)",
			physical,
			t.Region,
		)
	case "AWS::DynamoDB::Table":
		return fmt.Sprintf("aws dynamodb update-table --table-name %s --no-deletion-protection-enabled --region %s",
			physical, t.Region)
	case "AWS::IAM::Role":
		return "detach the policies that were added to it: aws iam list-attached-role-policies --role-name " + physical
	case "AWS::EC2::SecurityGroup":
		return "end the machines and network interfaces that use it"
	}
	return "remove what uses it, or what was added to it by hand"
}
