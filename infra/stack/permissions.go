package stack

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cloud/push"
)

// grantAll gives each function the rights for the calls of its adapters, and no more: all functions use the records,
// and some of them also call other services.
func (d *deployment) grantAll() {
	for _, fn := range events.Functions() {
		d.grantRecords(fn)
		d.grantQueue(fn)
		d.grantPublish(fn)
	}
	d.grantRecords(fnAPI)
	d.grantPublish(fnAPI)
	d.relay()
	d.grant(fnAuthorizer, "Tokens", []string{"ssm:GetParameter"}, d.arn("ssm", "parameter"+d.tokenParameter()))
	d.grantSwitching(events.FnSubmit)
	d.grantSecrets(events.FnSubmit)
	d.grantSwitching(fnAPI)
	d.grant(events.FnSubmit, "DagFiles", []string{"s3:GetObject"}, *d.dags.BucketArn()+"/*")
	d.grant(events.FnSubmit, "RemarksOfJobs", []string{"s3:DeleteObject"}, *d.dags.BucketArn()+"/*"+push.ErrorSuffix)
	d.grant(events.FnSubmit, "DagFileMissing", []string{"s3:ListBucket"}, *d.dags.BucketArn())
	d.grantAPI()
	d.grantData()
	d.addMountsRole()
	d.grantMakeBuckets()
	d.grantMachines()
	d.grantClouds()
	d.addServices()
	d.grant(events.FnHook, "Tell", []string{"sns:Publish"}, *d.topic.TopicArn())
	d.grantMail()
	d.grant(events.FnHook, "Remarks", []string{"s3:PutObject"}, *d.dags.BucketArn()+"/*")
	if d.TraceHeaders != "" {
		d.grant(events.FnHook, "TraceHeaders", []string{"ssm:GetParameter"}, d.arn("ssm", "parameter"+d.TraceHeaders))
	}
	d.grantReconcile()
	d.grantPrices()
	d.grantPacks()
	d.addKeys()
	if d.Policy { // functions that run sessions, or explain what a session would do
		for _, fn := range []string{events.FnSchedule, fnAPI} {
			d.grant(fn, "Policy", []string{"s3:GetObject"}, *d.work.BucketArn()+"/"+policyKey)
		}
	}
}

func (d *deployment) grant(fn, sid string, actions []string, resources ...string) {
	d.roles[fn].AddToPolicy(allow(sid, actions, resources...))
}

// grantRecords allows reading records, and writing those of the function, in transactions, for which IAM checks each
// operation separately. No function may scan, describe or change the table.
func (d *deployment) grantRecords(fn string) {
	d.grant(fn, "Records", []string{
		"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query", "dynamodb:ConditionCheckItem",
	}, *d.table.TableArn())
	keys := append(record.Writers(fn), "outbox#*")
	switch fn {
	case fnAPI: // the logs of tasks and the tunnels to machines
		keys = append(keys, "logs/*", "visit#*")
	case fnServices: // the logs of applications
		keys = append(keys, "logs/*")
	case events.FnReconcile: // removes the logs of expired jobs, and records which clusters it has ended
		keys = append(keys, "logs/*", "grave#aws#*")
	case events.FnProvision, events.FnInterrupt:
		keys = append(keys, "grave#aws#*")
	case events.FnHook: // what it has told
		keys = append(keys, "told#*")
	}
	d.roles[fn].AddToPolicy(allowIf("OwnRecords",
		[]string{"dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:BatchWriteItem"},
		all("StringLike", "dynamodb:LeadingKeys", keys...), *d.table.TableArn()))
}

// grantMail allows the hook to send e-mail from the deployment's sender. SES has verified its address or its domain.
func (d *deployment) grantMail() {
	if d.MailFrom == "" {
		return
	}
	_, domain, _ := strings.Cut(d.MailFrom, "@")
	d.roles[events.FnHook].AddToPolicy(allowIf("Mail", []string{"ses:SendEmail"},
		equals("ses:FromAddress", d.MailFrom), d.arn("ses", "identity/"+d.MailFrom), d.arn("ses", "identity/"+domain)))
}

// grantQueue allows a function to use its own queue: Lambda polls with the function's role.
func (d *deployment) grantQueue(fn string) {
	d.grant(fn, "Queue", []string{
		"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes",
		"sqs:GetQueueUrl", "sqs:SendMessage", // a message that arrives early is sent again with the remaining delay
	}, *d.queues[fn].QueueArn())
	d.grant(fn, "DeadLetters", []string{"sqs:SendMessage", "sqs:GetQueueUrl"}, *d.dead[fn].QueueArn())
	d.grant(fn, "LargePayloads", []string{"s3:GetObject"}, *d.work.BucketArn()+"/"+prefixEvents+"*")
}

// relay may only read the outbox and publish. Lambda reads the stream with the relay's role: without these rights the
// mapping, and so the stack, cannot be created.
func (d *deployment) relay() {
	d.grant(fnRelay, "Stream", []string{"dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"},
		*d.table.TableStreamArn())
	d.grant(fnRelay, "FindStream", []string{"dynamodb:ListStreams"}, "*") // list calls cannot be restricted
	d.roles[fnRelay].AddToPolicy(allowIf("Outbox",
		[]string{"dynamodb:Query", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem",
			"dynamodb:BatchWriteItem"},
		all("StringLike", "dynamodb:LeadingKeys", "outbox#*"), *d.table.TableArn()))
	d.grantPublish(fnRelay)
}

// grantPublish allows sending events to the queues and publishing announced ones on the bus: the relay publishes
// committed events, every function those without a record.
func (d *deployment) grantPublish(fn string) {
	d.grant(fn, "Publish", []string{"events:PutEvents"}, *d.bus.EventBusArn())
	d.grant(fn, "PublishLarge", []string{"s3:PutObject"}, *d.work.BucketArn()+"/"+prefixEvents+"*")
	var queues []string
	for _, name := range events.Functions() {
		queues = append(queues, *d.queues[name].QueueArn())
	}
	d.grant(fn, "PublishToQueues", []string{"sqs:SendMessage", "sqs:GetQueueUrl"},
		append(queues, *d.dead[unrouted].QueueArn())...)
}

// grantReconcile allows reconcile to switch the deployment off when no work is open and every queue is empty.
func (d *deployment) grantReconcile() {
	d.grantSwitching(events.FnReconcile)
	d.grant(events.FnReconcile, "ExpirySchedule", []string{"scheduler:GetSchedule", "scheduler:UpdateSchedule"},
		d.arn("scheduler", "schedule/"+d.Name+"/"+expirySchedule))
	var queues []string
	for _, fn := range events.Functions() {
		queues = append(queues, *d.queues[fn].QueueArn())
	}
	d.grant(events.FnReconcile, "Depths", []string{"sqs:GetQueueAttributes", "sqs:GetQueueUrl"}, queues...)
}

// grantSwitching allows switching the schedules and the polling of queues on and off. The functions that accept work
// switch them on; reconcile switches them off when no work is left.
func (d *deployment) grantSwitching(fn string) {
	var schedules, functions []string
	for _, s := range d.activitySchedules() {
		schedules = append(schedules, d.arn("scheduler", "schedule/"+d.Name+"/"+s))
	}
	for _, name := range idleMappings() {
		functions = append(functions, d.arn("lambda", "function:"+d.named(name))) // by name: reconcile toggles itself
	}
	d.grant(fn, "Schedules", []string{"scheduler:GetSchedule", "scheduler:UpdateSchedule"}, schedules...)
	d.roles[fn].AddToPolicy(allowIf("ScheduleRole", []string{"iam:PassRole"},
		equals("iam:PassedToService", "scheduler.amazonaws.com"), d.roleARN(schedulerRole)))
	// AWS names a mapping with a generated ID, so a condition limits it to our functions. List calls cannot be
	// restricted.
	d.grant(fn, "FindPolling", []string{"lambda:ListEventSourceMappings"}, "*")
	d.roles[fn].AddToPolicy(
		allowIf("Polling", []string{"lambda:UpdateEventSourceMapping", "lambda:GetEventSourceMapping"},
			map[string]interface{}{"StringLike": map[string]interface{}{"lambda:FunctionArn": functions}},
			d.arn("lambda", "event-source-mapping:*")))
}

// grantAPI allows what the API does in addition to keeping records: to check tokens, store logs, and show and redrive
// dead letters.
func (d *deployment) grantAPI() {
	d.grantSecrets(fnAPI)
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

// grantData allows the data access that the API passes on to machines. Machines have no rights in AWS: they get signed
// requests, which S3 treats like requests of the API. So these rights are the same for every job, and must exclude the
// control plane's prefixes of the work bucket. Before it signs a request, the broker checks that the attempt may reach
// the object (pkg/grant.Scope); this also excludes logs and events. Provision aborts uploads that machines left
// unfinished. Submit checks whether the buckets that a file names exist. Reconcile removes the data of jobs that have
// expired.
func (d *deployment) grantData() {
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
	d.grant(events.FnReconcile, "OldJobs", []string{"s3:DeleteObject"}, objects...)
	d.grant(events.FnReconcile, "DataLists", []string{"s3:ListBucket"}, buckets...)
	for _, fn := range []string{fnAPI, events.FnReconcile} {
		d.roles[fn].AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Sid: jsii.String("NotTheBrokers"), Effect: awsiam.Effect_DENY,
			Actions:   jsii.Strings("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"),
			Resources: jsii.Strings(work+"/"+prefixAgent+"*", work+"/"+prefixCatalog+"*", work+"/"+prefixPolicy+"*"),
		}))
	}
	_, named := d.mountable()
	d.grant(events.FnProvision, "LeftUploads", []string{"s3:AbortMultipartUpload"}, append(named, objects...)...)
}

// grantTokenKey allows reading the key that signs agents' tokens, and creating it once. SSM encrypts it with its own
// key, which needs no grant.
func (d *deployment) grantTokenKey(fn string) {
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

// grantSecrets allows sealing and opening the secrets of jobs with the token key, and reading the secrets stored below
// secretPaths. SSM returns secrets of the Secrets Manager to callers that may read them there.
func (d *deployment) grantSecrets(fn string) {
	d.grantTokenKey(fn)
	var parameters, secrets []string
	for _, path := range d.secretPaths() {
		parameters = append(parameters, d.arn("ssm", "parameter"+path+"*"),
			d.arn("ssm", "parameter/aws/reference/secretsmanager"+path+"*"))
		secrets = append(secrets, d.arn("secretsmanager", "secret:"+strings.TrimPrefix(path, "/")+"*"))
	}
	d.grant(fn, "SecretParameters", []string{"ssm:GetParameter"}, parameters...)
	d.grant(fn, "Secrets", []string{"secretsmanager:GetSecretValue"}, secrets...)
}

// grantMachines allows the EC2 calls that provision, reconcile, interrupt and tick make in all regions.
func (d *deployment) grantMachines() {
	d.grantTokenKey(events.FnProvision)
	d.grantLaunch(events.FnProvision)
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

// grantLaunch allows RunInstances. IAM checks each resource of the call: those that the call creates must carry the
// deployment's tag, and it may use any existing ones.
func (d *deployment) grantLaunch(fn string) {
	mine := *d.stack.Account()
	tagged := equals("aws:RequestTag/"+TagDeployment, d.Name)
	role := d.roles[fn]
	role.AddToPolicy(allowIf("Launch", []string{"ec2:RunInstances"}, tagged,
		d.anyRegion("ec2", mine, "instance/*"), d.anyRegion("ec2", mine, "volume/*"),
		d.anyRegion("ec2", mine, "spot-instances-request/*")))
	role.AddToPolicy(allow("LaunchWith", []string{"ec2:RunInstances"},
		d.anyRegion("ec2", mine, "subnet/*"), d.anyRegion("ec2", mine, "security-group/*"),
		d.anyRegion("ec2", mine, "network-interface/*"),
		d.anyRegion("ec2", "*", "capacity-reservation/*"), // a shared reservation belongs to its owner
		d.anyRegion("ec2", "", "image/*"), d.anyRegion("ec2", "", "snapshot/*")))
	role.AddToPolicy(allowIf("TagLaunched", []string{"ec2:CreateTags"},
		map[string]interface{}{"StringEquals": map[string]interface{}{
			"ec2:CreateAction": "RunInstances", "aws:RequestTag/" + TagDeployment: d.Name,
		}}, d.anyRegion("ec2", mine, "instance/*"), d.anyRegion("ec2", mine, "volume/*"),
		d.anyRegion("ec2", mine, "spot-instances-request/*")))
	// Machines of a cluster get their rank tags after launch: RunInstances gives all of them the same tags.
	ranks := all("StringEquals", "aws:TagKeys", tagRank)
	ranks["StringEquals"] = map[string]interface{}{"aws:ResourceTag/" + TagDeployment: d.Name}
	role.AddToPolicy(allowIf("TagRank", []string{"ec2:CreateTags"}, ranks, d.anyRegion("ec2", mine, "instance/*")))
	d.grantSecurityGroups(role)
	// EC2 creates its service-linked role for spot at an account's first spot request, if the caller has this right.
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

// grantClouds allows what buying on other clouds needs in this account: the functions that buy, release and list
// machines may call the clouds' functions. In the table, a cloud's function may only record which clusters it has
// ended. The key of Lambda Cloud, which supports no other credentials, is an SSM parameter.
func (d *deployment) grantClouds() {
	var functions, signing []string
	for _, name := range slices.Sorted(maps.Keys(d.Clouds)) {
		fn := cloudPrefix + name
		functions = append(functions, *d.functions[fn].FunctionArn())
		if len(storesOf(name, d.Clouds[name])) > 0 || hasSecrets(d.Clouds[name]) {
			signing = append(signing, *d.functions[fn].FunctionArn())
		}
		if announces(name, d.Clouds[name]) { // its function publishes the end of jobs on the topics that they name
			d.grant(events.FnHook, "Announce", []string{"lambda:InvokeFunction"}, *d.functions[fn].FunctionArn())
		}
		if dagBucket(d.Clouds[name]) != "" { // its function reads job files and writes error files next to them
			for _, reads := range []string{events.FnSubmit, events.FnHook} {
				d.grant(reads, "FarDagFiles", []string{"lambda:InvokeFunction"}, *d.functions[fn].FunctionArn())
			}
		}
		d.grantEnded(name)
		if name == "azure" { // AWS signs the function's identity for Azure, for this audience
			d.roles[fn].AddToPolicy(allowIf("SayWho", []string{"sts:GetWebIdentityToken"},
				all("StringEquals", "sts:IdentityTokenAudience", "api://AzureADTokenExchange"), "*"))
		}
		if pushes(d.Clouds[name]) { // its function verifies notices that are pushed to the API
			d.grant(fnAPI, "Pushed", []string{"lambda:InvokeFunction"}, *d.functions[fn].FunctionArn())
		}
		if name == "lambda" {
			d.grant(fn, "Key", []string{"ssm:GetParameter"}, d.arn("ssm", "parameter"+d.lambdaKey()))
		}
	}
	if len(d.Services) > 0 {
		functions = append(functions, *d.functions[fnCloudAWS].FunctionArn())
	}
	if len(functions) > 0 {
		for _, fn := range d.cloudCallers() {
			d.grant(fn, "Clouds", []string{"lambda:InvokeFunction"}, functions...)
		}
	}
	if len(signing) > 0 { // they sign requests for the stores of their clouds and fetch secrets
		d.grant(fnAPI, "Stores", []string{"lambda:InvokeFunction"}, signing...)
		d.grant(events.FnSubmit, "Stores", []string{"lambda:InvokeFunction"}, signing...)
	}
}

// grantEnded allows the function of a cloud to record which clusters and places it has ended.
func (d *deployment) grantEnded(name string) {
	d.roles[cloudPrefix+name].AddToPolicy(allowIf("Ended",
		[]string{"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:UpdateItem"},
		all("StringLike", "dynamodb:LeadingKeys", "grave#"+name+"#*"), *d.table.TableArn()))
}

// lambdaKey names the parameter with the key of Lambda Cloud.
func (c Config) lambdaKey() string { return "/" + c.Name + "/clouds/lambda-key" }

// grantSecurityGroups allows creating the machines' security group in a region that has none yet, and opening it to
// itself. It cannot change other groups: a group that it opens must have the deployment's tag.
func (d *deployment) grantSecurityGroups(role awsiam.Role) {
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

// grantPrices allows tick and refresh to read prices and offers, refresh to store the catalogue, and optimize to read
// it.
func (d *deployment) grantPrices() {
	d.grant(events.FnTick, "SpotPrices", []string{"ec2:DescribeSpotPriceHistory"}, "*")
	// For `tradewind cloud check`: the API has no rights at any cloud, so it calls refresh.
	d.grant(fnAPI, "Check", []string{"lambda:InvokeFunction"}, *d.functions[events.FnRefresh].FunctionArn())
	d.grant(events.FnRefresh, "Check", []string{"ec2:DescribeVpcs", "ec2:DescribeInstances", "freetier:GetAccountPlanState"}, "*")
	d.grant(events.FnRefresh, "Catalogue", []string{
		"ec2:DescribeRegions", "ec2:DescribeAvailabilityZones", "ec2:DescribeInstanceTypes",
		"ec2:DescribeInstanceTypeOfferings", "ec2:DescribeCapacityReservations", "ec2:DescribeReservedInstances",
		"ec2:DescribeSpotPriceHistory", "pricing:GetProducts", "servicequotas:ListServiceQuotas",
		"savingsplans:DescribeSavingsPlans", "savingsplans:DescribeSavingsPlanRates",
	}, "*")
	catalog := *d.work.BucketArn() + "/" + prefixCatalog + "*"
	d.grant(events.FnRefresh, "CatalogueKept", []string{"s3:GetObject", "s3:PutObject"}, catalog)
	d.grant(events.FnOptimize, "CatalogueRead", []string{"s3:GetObject"}, catalog)
	// No catalogue exists before the first refresh; without ListBucket, S3 answers "forbidden" for a missing object.
	d.grant(events.FnOptimize, "CatalogueMissing", []string{"s3:ListBucket"}, *d.work.BucketArn())
}

// roleName is the name of the role of a part. Names of roles are unique in an account, not in a region, so they contain
// the region (IAM API reference, CreateRole, RoleName).
func (d *deployment) roleName(part string) *string {
	return awscdk.Fn_Sub(jsii.String(d.named(part)+"-${AWS::Region}"), nil)
}

// roleARN is the ARN of that role.
func (d *deployment) roleARN(part string) string {
	return d.global("iam", "role/"+d.named(part)+"-"+*d.stack.Region())
}

// global is the ARN of something that belongs to no region.
func (d *deployment) global(service, resource string) string {
	return "arn:" + *d.stack.Partition() + ":" + service + "::" + *d.stack.Account() + ":" + resource
}
