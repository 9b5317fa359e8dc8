package stack

import (
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"
)

// machines is what a machine that the deployment launches may do: fetch the agent, and work with the data of jobs. It
// is the same for every job, so it must not reach the table, the queues, the API's key, or the places of the work
// bucket that are the control plane's own.
func (d *deployment) machines() {
	d.agent = awsiam.NewRole(d.stack, jsii.String("AgentRole"), &awsiam.RoleProps{
		RoleName:    jsii.String(d.named("agent")),
		AssumedBy:   awsiam.NewServicePrincipal(jsii.String("ec2.amazonaws.com"), nil),
		Description: jsii.String("Tradewind: machines"),
	})
	work := *d.work.BucketArn()
	d.agent.AddToPolicy(allow("Agent", []string{"s3:GetObject"}, work+"/"+prefixAgent+"*"))
	d.agent.AddToPolicy(
		allow("JobData", []string{"s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"},
			work+"/*"))
	d.agent.AddToPolicy(allow("JobLists", []string{"s3:ListBucket"}, work))
	d.agent.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("NotTheBrokers"), Effect: awsiam.Effect_DENY,
		Actions: jsii.Strings("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"),
		Resources: jsii.Strings(work+"/"+prefixAgent+"*", work+"/"+prefixEvents+"*", work+"/"+prefixLogs+"*",
			work+"/"+prefixCatalog+"*", work+"/"+prefixPolicy+"*"),
	}))
	d.agent.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("NorTheirs"), Effect: awsiam.Effect_DENY, Actions: jsii.Strings("s3:GetObject"),
		Resources: jsii.Strings(work+"/"+prefixEvents+"*", work+"/"+prefixLogs+"*"),
	}))
	for i, b := range d.DataBuckets {
		arn := "arn:" + *d.stack.Partition() + ":s3:::" + b
		d.agent.AddToPolicy(allow("Data"+strconv.Itoa(i),
			[]string{"s3:GetObject", "s3:PutObject", "s3:ListBucket", "s3:GetBucketLocation"}, arn, arn+"/*"))
	}
	awsiam.NewCfnInstanceProfile(d.stack, jsii.String("AgentProfile"), &awsiam.CfnInstanceProfileProps{
		InstanceProfileName: jsii.String(d.named("agent")), Roles: jsii.Strings(*d.agent.RoleName()),
	})
}
