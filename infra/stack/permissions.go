package stack

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/cloud/push"
)

// rights gives each function what its adapters call, and nothing else. What a function needs follows from what it
// does: all keep records; the ones that act reach outside.
func (d *deployment) rights() {
	for _, fn := range events.Functions() {
		d.records(fn)
		d.consume(fn)
		d.publish(fn)
	}
	d.records(fnAPI)
	d.publish(fnAPI)
	d.relay()
	d.toggle(events.FnSubmit)
	d.secrets(events.FnSubmit)
	d.toggle(fnAPI)
	d.grant(events.FnSubmit, "DagFiles", []string{"s3:GetObject"}, *d.dags.BucketArn()+"/*")
	d.grant(events.FnSubmit, "RemarksOfJobs", []string{"s3:DeleteObject"}, *d.dags.BucketArn()+"/*"+push.RemarkSuffix)
	d.grant(events.FnSubmit, "DagFileMissing", []string{"s3:ListBucket"}, *d.dags.BucketArn())
	d.serve()
	d.data()
	d.mounts()
	d.makeBuckets()
	d.buy()
	d.far()
	d.grant(events.FnHook, "Tell", []string{"sns:Publish"}, *d.topic.TopicArn())
	d.grant(events.FnHook, "Remarks", []string{"s3:PutObject"}, *d.dags.BucketArn()+"/*")
	if d.TraceHeaders != "" {
		d.grant(events.FnHook, "TraceHeaders", []string{"ssm:GetParameter"}, d.arn("ssm", "parameter"+d.TraceHeaders))
	}
	d.settle()
	d.prices()
	d.packs()
	if d.Policy { // those that run sessions, or say what one would do
		for _, fn := range []string{events.FnSchedule, fnAPI} {
			d.grant(fn, "Policy", []string{"s3:GetObject"}, *d.work.BucketArn()+"/"+policyKey)
		}
	}
}

func (d *deployment) grant(fn, sid string, actions []string, resources ...string) {
	d.roles[fn].AddToPolicy(allow(sid, actions, resources...))
}

// records are read and written in transactions, whose parts IAM counts one by one. Nobody scans, and nobody describes
// or changes the table.
func (d *deployment) records(fn string) {
	d.grant(fn, "Records", []string{
		"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query", "dynamodb:PutItem", "dynamodb:UpdateItem",
		"dynamodb:DeleteItem", "dynamodb:BatchWriteItem", "dynamodb:ConditionCheckItem",
	}, *d.table.TableArn())
}

// consume is what a function may do to its own queue: Lambda polls with the function's role.
func (d *deployment) consume(fn string) {
	d.grant(fn, "Queue", []string{
		"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes",
		"sqs:GetQueueUrl", "sqs:SendMessage", // what came before its time goes back with the rest of its delay
	}, *d.queues[fn].QueueArn())
	d.grant(fn, "DeadLetters", []string{"sqs:SendMessage", "sqs:GetQueueUrl"}, *d.dead[fn].QueueArn())
	d.grant(fn, "LargePayloads", []string{"s3:GetObject"}, *d.work.BucketArn()+"/"+prefixEvents+"*")
}

// relay reads the outbox alone, and publishes. Lambda reads the stream for it, with its role: without these rights the
// mapping cannot be made, and with it the stack.
func (d *deployment) relay() {
	d.grant(fnRelay, "Stream", []string{"dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"},
		*d.table.TableStreamArn())
	d.grant(fnRelay, "FindStream", []string{"dynamodb:ListStreams"}, "*") // lists cannot be bounded
	d.roles[fnRelay].AddToPolicy(allowIf("Outbox",
		[]string{"dynamodb:Query", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem",
			"dynamodb:BatchWriteItem"},
		map[string]interface{}{
			"ForAllValues:StringLike": map[string]interface{}{"dynamodb:LeadingKeys": []string{"outbox#*"}}},
		*d.table.TableArn()))
	d.publish(fnRelay)
}

// publish is sending events to the queues, and putting on the bus what others hear of: the relay what was committed,
// every function what goes with no record.
func (d *deployment) publish(fn string) {
	d.grant(fn, "Publish", []string{"events:PutEvents"}, *d.bus.EventBusArn())
	d.grant(fn, "PublishLarge", []string{"s3:PutObject"}, *d.work.BucketArn()+"/"+prefixEvents+"*")
	var queues []string
	for _, name := range events.Functions() {
		queues = append(queues, *d.queues[name].QueueArn())
	}
	d.grant(fn, "PublishToQueues", []string{"sqs:SendMessage", "sqs:GetQueueUrl"},
		append(queues, *d.dead[unrouted].QueueArn())...)
}

// settle is what reconcile does beside looking after jobs: switch off when nothing is open and every queue is empty.
func (d *deployment) settle() {
	d.toggle(events.FnReconcile)
	var queues []string
	for _, fn := range events.Functions() {
		queues = append(queues, *d.queues[fn].QueueArn())
	}
	d.grant(events.FnReconcile, "Depths", []string{"sqs:GetQueueAttributes", "sqs:GetQueueUrl"}, queues...)
}

// toggle is switching the schedules and the polling of queues on and off. The functions by which work comes in wake
// what sleeps while there is none; reconcile puts it to sleep.
func (d *deployment) toggle(fn string) {
	var schedules, functions []string
	for _, s := range activitySchedules() {
		schedules = append(schedules, d.arn("scheduler", "schedule/"+d.Name+"/"+s))
	}
	for _, name := range idleMappings() {
		functions = append(functions, d.arn("lambda", "function:"+d.named(name))) // by name: reconcile toggles itself
	}
	d.grant(fn, "Schedules", []string{"scheduler:GetSchedule", "scheduler:UpdateSchedule"}, schedules...)
	d.roles[fn].AddToPolicy(allowIf("ScheduleRole", []string{"iam:PassRole"},
		equals("iam:PassedToService", "scheduler.amazonaws.com"), d.global("iam", "role/"+d.named("scheduler"))))
	// A mapping is named by a number that AWS makes up: whose it is, the condition says. Lists cannot be bounded.
	d.grant(fn, "FindPolling", []string{"lambda:ListEventSourceMappings"}, "*")
	d.roles[fn].AddToPolicy(
		allowIf("Polling", []string{"lambda:UpdateEventSourceMapping", "lambda:GetEventSourceMapping"},
			map[string]interface{}{"StringLike": map[string]interface{}{"lambda:FunctionArn": functions}},
			d.arn("lambda", "event-source-mapping:*")))
}

// serve is what the API does beside keeping records: check tokens, keep logs, show and send back dead letters.
func (d *deployment) serve() {
	d.secrets(fnAPI)
	work := *d.work.BucketArn()
	d.grant(fnAPI, "Logs", []string{"s3:GetObject", "s3:PutObject"}, work+"/"+prefixLogs+"*")
	d.grant(fnAPI, "LargePayloads", []string{"s3:GetObject"}, work+"/"+prefixEvents+"*")
	var queues, dead []string
	for _, fn := range events.Functions() {
		queues, dead = append(queues, *d.queues[fn].QueueArn()), append(dead, *d.dead[fn].QueueArn())
	}
	dead = append(dead, *d.dead[unrouted].QueueArn())
	d.grant(fnAPI, "ShowDeadLetters", []string{
		"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes",
		"sqs:GetQueueUrl", "sqs:SendMessage",
	}, dead...)
	d.grant(fnAPI, "Redrive", []string{"sqs:SendMessage", "sqs:GetQueueUrl", "sqs:GetQueueAttributes"}, queues...)
}

// data is what the API may grant to machines, which have no rights: what it signs, S3 looks at as if it asked itself.
// So it is the same for every job, and must not reach the places of the work bucket that are the control plane's own;
// what a single attempt may reach, the broker checks before it signs (pkg/grant.Scope), which leaves out logs and
// events too. Provision ends the uploads that machines leave behind. Submit looks whether the buckets that a file names
// are there.
func (d *deployment) data() {
	work := *d.work.BucketArn()
	buckets, objects := []string{work}, []string{work + "/*"}
	for _, region := range d.Regions {
		arn := d.bucketArn(d.regionalBucket(region))
		buckets, objects = append(buckets, arn), append(objects, arn+"/*")
	}
	d.grant(fnAPI, "Data", []string{"s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"}, objects...)
	d.grant(fnAPI, "DataLists", []string{"s3:ListBucket"}, buckets...)
	d.grant(events.FnSubmit, "DataLists", []string{"s3:ListBucket"}, buckets...)
	d.grant(fnAPI, "OldCheckpoints", []string{"s3:DeleteObject"}, objects...)
	d.roles[fnAPI].AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("NotTheBrokers"), Effect: awsiam.Effect_DENY,
		Actions:   jsii.Strings("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"),
		Resources: jsii.Strings(work+"/"+prefixAgent+"*", work+"/"+prefixCatalog+"*", work+"/"+prefixPolicy+"*"),
	}))
	_, named := d.mountable()
	d.grant(events.FnProvision, "LeftUploads", []string{"s3:AbortMultipartUpload"}, append(named, objects...)...)
}

// tokens is reading the key that signs agents' tokens, and making it once. SSM encrypts it with its own key, which
// needs no grant.
func (d *deployment) tokens(fn string) {
	d.grant(fn, "TokenKey", []string{"ssm:GetParameter", "ssm:PutParameter"},
		d.arn("ssm", "parameter"+d.tokenParameter()))
}

func (d *deployment) bucketArn(name string) string {
	return "arn:" + *d.stack.Partition() + ":s3:::" + name
}

// secretPaths are the paths below which jobs may refer to parameters and secrets.
func (d *deployment) secretPaths() []string {
	return append([]string{"/" + d.Name + "/secrets/"}, d.Secrets...)
}

// secrets is sealing and opening the secrets of jobs with the key of tokens, and reading those that are kept where the
// deployment may. SSM hands secrets of the Secrets Manager out to who may read them there.
func (d *deployment) secrets(fn string) {
	d.tokens(fn)
	var parameters, secrets []string
	for _, path := range d.secretPaths() {
		parameters = append(parameters, d.arn("ssm", "parameter"+path+"*"),
			d.arn("ssm", "parameter/aws/reference/secretsmanager"+path+"*"))
		secrets = append(secrets, d.arn("secretsmanager", "secret:"+strings.TrimPrefix(path, "/")+"*"))
	}
	d.grant(fn, "SecretParameters", []string{"ssm:GetParameter"}, parameters...)
	d.grant(fn, "Secrets", []string{"secretsmanager:GetSecretValue"}, secrets...)
}

// buy is what provision, interrupt and reconcile do on EC2, in whichever region.
func (d *deployment) buy() {
	d.tokens(events.FnProvision)
	d.launch(events.FnProvision)
	for _, fn := range []string{events.FnProvision, events.FnReconcile} {
		d.roles[fn].AddToPolicy(allowIf("Terminate", []string{"ec2:TerminateInstances"},
			equals("aws:ResourceTag/"+TagDeployment, d.Name), d.anyRegion("ec2", *d.stack.Account(), "instance/*")))
	}
	for _, fn := range []string{events.FnProvision, events.FnReconcile, events.FnInterrupt, events.FnTick} {
		// EC2 has no narrower resource for its Describe calls.
		d.grant(fn, "Machines",
			[]string{"ec2:DescribeInstances", "ec2:DescribeRegions", "ec2:DescribeAvailabilityZones"}, "*")
	}
}

// launch is RunInstances, whose parts IAM looks at one by one: what it makes has to bear the deployment's tag, what it
// uses may be any.
func (d *deployment) launch(fn string) {
	mine := *d.stack.Account()
	tagged := equals("aws:RequestTag/"+TagDeployment, d.Name)
	role := d.roles[fn]
	role.AddToPolicy(allowIf("Launch", []string{"ec2:RunInstances"}, tagged,
		d.anyRegion("ec2", mine, "instance/*"), d.anyRegion("ec2", mine, "volume/*"),
		d.anyRegion("ec2", mine, "spot-instances-request/*")))
	role.AddToPolicy(allow("LaunchWith", []string{"ec2:RunInstances"},
		d.anyRegion("ec2", mine, "subnet/*"), d.anyRegion("ec2", mine, "security-group/*"),
		d.anyRegion("ec2", mine, "network-interface/*"),
		d.anyRegion("ec2", "*", "capacity-reservation/*"), // one that is shared is its owner's
		d.anyRegion("ec2", "", "image/*"), d.anyRegion("ec2", "", "snapshot/*")))
	role.AddToPolicy(allowIf("TagLaunched", []string{"ec2:CreateTags"},
		map[string]interface{}{"StringEquals": map[string]interface{}{
			"ec2:CreateAction": "RunInstances", "aws:RequestTag/" + TagDeployment: d.Name,
		}}, d.anyRegion("ec2", mine, "instance/*"), d.anyRegion("ec2", mine, "volume/*"),
		d.anyRegion("ec2", mine, "spot-instances-request/*")))
	// Machines of several are told apart once they are there: RunInstances gives all of them the same tags.
	role.AddToPolicy(allowIf("TagRank", []string{"ec2:CreateTags"}, map[string]interface{}{
		"StringEquals":              map[string]interface{}{"aws:ResourceTag/" + TagDeployment: d.Name},
		"ForAllValues:StringEquals": map[string]interface{}{"aws:TagKeys": []string{tagRank}},
	}, d.anyRegion("ec2", mine, "instance/*")))
	d.groups(role)
	// EC2 makes its own role for spot at an account's first request, if whoever asks may.
	role.AddToPolicy(allowIf("SpotRole", []string{"iam:CreateServiceLinkedRole"},
		equals("iam:AWSServiceName", "spot.amazonaws.com"),
		d.global("iam", "role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot")))
	// EC2 has no narrower resource for its Describe calls.
	d.grant(fn, "Offers", []string{
		"ec2:DescribeAvailabilityZones", "ec2:DescribeInstanceTypes", "ec2:DescribeInstanceTypeOfferings",
		"ec2:DescribeImages", "ec2:DescribeSubnets", "ec2:DescribeVpcs", "ec2:DescribeSecurityGroups",
	}, "*")
	// Public parameters, which name AWS's own images.
	d.grant(fn, "Images", []string{"ssm:GetParameter", "ssm:GetParameters"},
		d.anyRegion("ssm", "", "parameter/aws/service/*"))
}

// far is what buying on other clouds needs here: those that buy, free and list machines call the functions that do it
// there. These keep in the table which clusters they have ended, and nothing else; the key of Lambda Cloud, which has
// no other way, lies in SSM.
func (d *deployment) far() {
	var functions, signing []string
	for _, name := range slices.Sorted(maps.Keys(d.Clouds)) {
		fn := cloudPrefix + name
		functions = append(functions, *d.functions[fn].FunctionArn())
		if len(storesOf(name, d.Clouds[name])) > 0 || hasSecrets(d.Clouds[name]) {
			signing = append(signing, *d.functions[fn].FunctionArn())
		}
		if dagBucket(d.Clouds[name]) != "" { // its function reads job files, and leaves remarks beside them
			for _, reads := range []string{events.FnSubmit, events.FnHook} {
				d.grant(reads, "FarDagFiles", []string{"lambda:InvokeFunction"}, *d.functions[fn].FunctionArn())
			}
		}
		d.roles[fn].AddToPolicy(allowIf("Ended", []string{"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:UpdateItem"},
			map[string]interface{}{"ForAllValues:StringLike": map[string]interface{}{
				"dynamodb:LeadingKeys": []string{"grave#" + name + "#*"}}},
			*d.table.TableArn()))
		if name == "azure" { // AWS signs who the function is, for Azure to trust; it says for whom
			d.roles[fn].AddToPolicy(allowIf("SayWho", []string{"sts:GetWebIdentityToken"},
				map[string]interface{}{"ForAllValues:StringEquals": map[string]interface{}{
					"sts:IdentityTokenAudience": []string{"api://AzureADTokenExchange"}}}, "*"))
		}
		if pushes(d.Clouds[name]) { // its function reads what is pushed to the API
			d.grant(fnAPI, "Pushed", []string{"lambda:InvokeFunction"}, *d.functions[fn].FunctionArn())
		}
		if name == "lambda" {
			d.grant(fn, "Key", []string{"ssm:GetParameter"}, d.arn("ssm", "parameter"+d.lambdaKey()))
		}
	}
	if len(functions) > 0 {
		for _, fn := range []string{events.FnProvision, events.FnReconcile, events.FnRefresh} {
			d.grant(fn, "Clouds", []string{"lambda:InvokeFunction"}, functions...)
		}
	}
	if len(signing) > 0 { // they sign for the stores of their clouds, and fetch secrets
		d.grant(fnAPI, "Stores", []string{"lambda:InvokeFunction"}, signing...)
		d.grant(events.FnSubmit, "Stores", []string{"lambda:InvokeFunction"}, signing...)
	}
}

// lambdaKey names the parameter with the key of Lambda Cloud.
func (c Config) lambdaKey() string { return "/" + c.Name + "/clouds/lambda-key" }

// groups is making the security group of the machines in a region where there is none yet, and opening it to itself. Of
// others it touches none: what it opens has to bear the deployment's tag.
func (d *deployment) groups(role awsiam.Role) {
	mine := *d.stack.Account()
	group := d.anyRegion("ec2", mine, "security-group/*")
	role.AddToPolicy(allowIf("Group", []string{"ec2:CreateSecurityGroup"},
		equals("aws:RequestTag/"+TagDeployment, d.Name), group))
	role.AddToPolicy(allow("GroupIn", []string{"ec2:CreateSecurityGroup"}, d.anyRegion("ec2", mine, "vpc/*")))
	role.AddToPolicy(allowIf("TagGroup", []string{"ec2:CreateTags"},
		map[string]interface{}{"StringEquals": map[string]interface{}{
			"ec2:CreateAction": "CreateSecurityGroup", "aws:RequestTag/" + TagDeployment: d.Name,
		}}, group))
	role.AddToPolicy(allowIf("OpenGroup", []string{"ec2:AuthorizeSecurityGroupIngress"},
		equals("aws:ResourceTag/"+TagDeployment, d.Name), group))
}

// prices is what tick and refresh read of the market, and the catalogue that refresh keeps for optimize.
func (d *deployment) prices() {
	d.grant(events.FnTick, "SpotPrices", []string{"ec2:DescribeSpotPriceHistory"}, "*")
	// For `tradewind cloud check`: api has no rights at any cloud, and asks the function that has those to look.
	d.grant(fnAPI, "Check", []string{"lambda:InvokeFunction"}, *d.functions[events.FnRefresh].FunctionArn())
	d.grant(events.FnRefresh, "Check", []string{"ec2:DescribeVpcs", "ec2:DescribeInstances"}, "*")
	d.grant(events.FnRefresh, "Catalogue", []string{
		"ec2:DescribeRegions", "ec2:DescribeAvailabilityZones", "ec2:DescribeInstanceTypes",
		"ec2:DescribeInstanceTypeOfferings", "ec2:DescribeCapacityReservations", "ec2:DescribeReservedInstances",
		"ec2:DescribeSpotPriceHistory", "pricing:GetProducts", "servicequotas:ListServiceQuotas",
		"savingsplans:DescribeSavingsPlans", "savingsplans:DescribeSavingsPlanRates",
	}, "*")
	catalog := *d.work.BucketArn() + "/" + prefixCatalog + "*"
	d.grant(events.FnRefresh, "CatalogueKept", []string{"s3:GetObject", "s3:PutObject"}, catalog)
	d.grant(events.FnOptimize, "CatalogueRead", []string{"s3:GetObject"}, catalog)
	// There is none before the first refresh; without it S3 says of what is not there that it is forbidden.
	d.grant(events.FnOptimize, "CatalogueMissing", []string{"s3:ListBucket"}, *d.work.BucketArn())
}

// global is the ARN of something that belongs to no region.
func (d *deployment) global(service, resource string) string {
	return "arn:" + *d.stack.Partition() + ":" + service + "::" + *d.stack.Account() + ":" + resource
}
