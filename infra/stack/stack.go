package stack

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"github.com/tradewind-broker/tradewind/events"
)

// TagDeployment is the tag of every resource. It is used for cost allocation and to limit roles.
const TagDeployment = "tradewind:deployment"

// tagRank is the tag that distinguishes the machines of a cluster for users.
const tagRank = "tradewind:rank"

// AssetBucket is the bucket for the binaries of the functions. It belongs to the account, not to the stack, because it
// must exist before the stack does.
const AssetBucket = "tradewind-assets-${AWS::AccountId}-${AWS::Region}"

// deployment is the state while a stack is built.
type deployment struct {
	Config
	stack awscdk.Stack

	table      awsdynamodb.Table
	bus        awsevents.EventBus
	dags, work awss3.Bucket
	topic      awssns.Topic
	alarms     awssns.Topic
	api        awsapigatewayv2.HttpApi

	queues    map[string]awssqs.Queue // by function
	dead      map[string]awssqs.Queue // by function, and unrouted
	functions map[string]awslambda.IFunction
	roles     map[string]awsiam.Role
	mounts    awsiam.Role // lent to machines; nil without named buckets
	// sparkRoles are the roles of applications on managed services of AWS.
	sparkRoles []awsiam.IRole
}

// Synthesise writes the cloud assembly.
func Synthesise(cfg Config) {
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: &cfg.Out, AnalyticsReporting: jsii.Bool(false)})
	New(app, cfg)
	for _, region := range cfg.Regions {
		newNotices(app, cfg, region)
	}
	app.Synth(nil)
}

// New adds the stack of a deployment to an app.
func New(app awscdk.App, cfg Config) awscdk.Stack {
	d := &deployment{
		Config: cfg,
		stack: awscdk.NewStack(app, &cfg.Name, &awscdk.StackProps{
			StackName:             &cfg.Name,
			Description:           jsii.String("Tradewind, a serverless broker for batch work on many clouds"),
			TerminationProtection: jsii.Bool(cfg.KeepData),
			Synthesizer: awscdk.NewCliCredentialsStackSynthesizer(&awscdk.CliCredentialsStackSynthesizerProps{
				FileAssetsBucketName: jsii.String(AssetBucket), BucketPrefix: jsii.String("lambda/"),
			}),
		}),
		queues: map[string]awssqs.Queue{}, dead: map[string]awssqs.Queue{},
		functions: map[string]awslambda.IFunction{}, roles: map[string]awsiam.Role{},
	}
	quietLint(d.stack)
	awscdk.Tags_Of(d.stack).Add(jsii.String(TagDeployment), &cfg.Name, nil)
	d.storage()
	d.messaging()
	for _, fn := range d.functionNames() {
		d.function(fn)
	}
	d.httpAPI()
	d.schedules()
	d.environment()
	d.grantAll()
	d.addEventSources()
	d.addMonitoring()
	d.outputs()
	return d.stack
}

// outputs adds the stack outputs that `tradewind deploy` and users need.
func (d *deployment) outputs() {
	for name, value := range map[string]*string{
		"Api": d.endpoint(), "DagBucket": d.dags.BucketName(), "WorkBucket": d.work.BucketName(),
		"Table": d.table.TableName(),
		"Bus":   d.bus.EventBusArn(), "News": d.topic.TopicArn(), "Alarms": d.alarms.TopicArn(),
		"TokenParameter": jsii.String(d.tokenParameter()),
		"Regions":        jsii.String(strings.Join(append([]string{*d.stack.Region()}, d.Regions...), ",")),
	} {
		o := awscdk.NewCfnOutput(d.stack, jsii.String("Output"+name), &awscdk.CfnOutputProps{Value: value})
		o.OverrideLogicalId(jsii.String(name))
	}
}

// deadNames names all dead-letter queues: of each function, of the relay's stream, and of events that reached no queue.
func deadNames() []string { return append(events.Functions(), fnRelay, unrouted) }
