package stack

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"
)

// newNotices adds a small stack for another region in which machines are bought. What tasks leave there stays in a bucket
// of that region. EventBridge tells of a machine's interruption in the machine's own region; this passes it on to the
// deployment's bus. Everything else that the broker does in another region it does from home.
func newNotices(app awscdk.App, cfg Config, region string) awscdk.Stack {
	name := cfg.Name + "-notices-" + region
	s := awscdk.NewStack(app, &name, &awscdk.StackProps{
		StackName: &name, Env: &awscdk.Environment{Account: &cfg.Account, Region: &region},
		Description: jsii.String("Tradewind: keeps what tasks leave in this region, passes its spot notices on to " + cfg.Region),
		Synthesizer: awscdk.NewCliCredentialsStackSynthesizer(&awscdk.CliCredentialsStackSynthesizerProps{
			FileAssetsBucketName: jsii.String(AssetBucket), BucketPrefix: jsii.String("lambda/"),
		}),
	})
	awscdk.Tags_Of(s).Add(jsii.String(TagDeployment), &cfg.Name, nil)
	newBucket(s, "Work", jsii.String(cfg.regionalBucket(region)), cfg.removal(), nil)
	home := s.FormatArn(&awscdk.ArnComponents{
		Service: jsii.String("events"), Region: &cfg.Region, Resource: jsii.String("event-bus"),
		ResourceName: &cfg.Name,
	})
	role := awsiam.NewRole(s, jsii.String("Role"), &awsiam.RoleProps{
		AssumedBy:   awsiam.NewServicePrincipal(jsii.String("events.amazonaws.com"), nil),
		Description: jsii.String("Tradewind: spot notices"),
	})
	awsevents.NewRule(s, jsii.String("Rule"), &awsevents.RuleProps{
		Description: jsii.String("Tradewind: spot notices"),
		EventPattern: &awsevents.EventPattern{Source: jsii.Strings("aws.ec2"),
			DetailType: jsii.Strings(ec2Notices()...)},
		Targets: &[]awsevents.IRuleTarget{awseventstargets.NewEventBus(
			awsevents.EventBus_FromEventBusArn(s, jsii.String("Home"), home),
			&awseventstargets.EventBusProps{Role: role},
		)},
	})
	return s
}
