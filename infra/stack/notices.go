package stack

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"
)

// newNotices adds a small stack for an additional region in which machines are bought. It has a bucket for the
// outputs of the tasks that run there. EventBridge reports a machine's interruption only in the machine's region, so
// the stack forwards these events to the deployment's bus. The broker does everything else from its home region.
func newNotices(app awscdk.App, cfg Config, region string) awscdk.Stack {
	name := cfg.Name + "-notices-" + region
	s := awscdk.NewStack(app, &name, &awscdk.StackProps{
		StackName: &name, Env: &awscdk.Environment{Account: &cfg.Account, Region: &region},
		Description:           jsii.String("Tradewind: stores task outputs in this region and forwards its spot notices to " + cfg.Region),
		TerminationProtection: jsii.Bool(cfg.KeepData), // its bucket has outputs of tasks
		Synthesizer: awscdk.NewCliCredentialsStackSynthesizer(&awscdk.CliCredentialsStackSynthesizerProps{
			FileAssetsBucketName: jsii.String(AssetBucket), BucketPrefix: jsii.String("lambda/"),
		}),
	})
	awscdk.Tags_Of(s).Add(jsii.String(TagDeployment), &cfg.Name, nil)
	newBucket(s, "Work", jsii.String(cfg.regionalBucket(region)), cfg.removal(), false, nil)
	home := s.FormatArn(&awscdk.ArnComponents{
		Service: jsii.String("events"), Region: &cfg.Region, Resource: jsii.String("event-bus"),
		ResourceName: &cfg.Name,
	})
	role := awsiam.NewRole(s, jsii.String("Role"), &awsiam.RoleProps{
		AssumedBy:   awsiam.NewServicePrincipal(jsii.String("events.amazonaws.com"), nil),
		Description: jsii.String("Tradewind: spot notices"),
	})
	bus := awsevents.EventBus_FromEventBusArn(s, jsii.String("Home"), home)
	for id, pattern := range map[string]*awsevents.EventPattern{"Rule": noticePattern(), "TakenRule": takenPattern()} {
		awsevents.NewRule(s, &id, &awsevents.RuleProps{
			Description: jsii.String("Tradewind: spot notices"), EventPattern: pattern,
			Targets: &[]awsevents.IRuleTarget{
				awseventstargets.NewEventBus(bus, &awseventstargets.EventBusProps{Role: role})},
		})
	}
	return s
}
