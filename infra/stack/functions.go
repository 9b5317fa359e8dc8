package stack

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
)

// Functions without a queue.
const (
	fnAPI   = "api"   // HTTP
	fnRelay = "relay" // the table's stream

	fnAuthorizer = "authorizer" // API Gateway, for requests of agents
)

// functionNames are the Lambda functions that every deployment has.
func functionNames() []string { return append(events.Functions(), fnAPI, fnRelay, fnAuthorizer) }

// cloudPrefix is the prefix of the functions for other clouds, which contain their drivers (internal/lambdahost).
const cloudPrefix = "cloud-"

// functionNames are all Lambda functions of this deployment.
func (c Config) functionNames() []string {
	names := functionNames()
	for _, cloud := range slices.Sorted(maps.Keys(c.Clouds)) {
		names = append(names, cloudPrefix+cloud)
	}
	return append(names, c.serviceFunctions()...)
}

// size is the resources of a function and how it receives events.
type size struct {
	memory  int // MiB; Lambda gives processor time in proportion
	seconds int // time limit of a batch
	batch   int // maximum number of messages in a batch
	// parallel is the maximum number of concurrent batches of the queue; at least 2, SQS's minimum.
	parallel int
	// door is set if EventBridge invokes the function directly: by a schedule, or with AWS events that arrive while
	// nothing is open and no queue is polled.
	invokedDirectly bool
	// keep is how long a message is useful, in seconds; 0 means SQS's maximum.
	retentionSeconds int
}

// sizeOf returns the size of a function. Functions that share transactions over a batch take large batches and run few
// at a time, since they update the same records; functions that wait for a cloud run many at a time.
func sizeOf(fn string) size {
	switch fn {
	case events.FnSubmit:
		return size{memory: 512, seconds: 60, batch: 1, parallel: 10, invokedDirectly: true}
	case events.FnOptimize:
		return size{memory: 512, seconds: 120, batch: 1, parallel: 20}
	case events.FnProvision:
		return size{memory: 256, seconds: 120, batch: 10, parallel: 50}
	case events.FnInterrupt:
		// An older notice is useless: by then reconcile has noticed that the machine is gone.
		return size{memory: 256, seconds: 30, batch: 10, parallel: 10, retentionSeconds: 3600}
	case events.FnTick:
		return size{memory: 512, seconds: 300, batch: 1, parallel: 10, retentionSeconds: 3600, invokedDirectly: true}
	case events.FnRefresh: // handles the event of the last daily schedule when work arrives; it queries every cloud
		return size{memory: 512, seconds: 600, batch: 1, parallel: 2, retentionSeconds: 25 * 3600}
	case events.FnReconcile:
		return size{memory: 256, seconds: 300, batch: 1, parallel: 10, retentionSeconds: 3600, invokedDirectly: true}
	case events.FnHook:
		return size{memory: 128, seconds: 60, batch: 10, parallel: 5}
	case fnAPI:
		return size{memory: 256, seconds: 29} // API Gateway waits for 30
	case fnRelay:
		return size{memory: 256, seconds: 60, batch: 100}
	case fnAuthorizer:
		return size{memory: 128, seconds: 10}
	case fnServices: // it checks for almost a minute, and a call of a cloud's function may follow
		return size{memory: 256, seconds: 120}
	case fnCloudAWS: // as long as the functions that call it
		return size{memory: 256, seconds: 300}
	case cloudPrefix + "gcp", cloudPrefix + "azure", cloudPrefix + "lambda": // as long as the functions that call them
		return size{memory: 512, seconds: 300} // refresh holds a catalogue
	default: // bid, advance, schedule, execute: they share records: few at a time, in large batches
		return size{memory: 256, seconds: 60, batch: 10, parallel: 2}
	}
}

// Lambda's handling of an event whose invocation failed: it retries after one and after two minutes, and then stores
// the event as a dead letter. If the function is throttled, it retries for longer.
const (
	doorRetries = 2
	doorSeconds = 6 * 3600
)

// visibility is how long a message that a function received is hidden from others, in seconds. Lambda wants at least
// the function's timeout and recommends six times as much, so that a throttled batch is not delivered twice. In a new
// account, whose functions throttle each other, a throttled batch comes back only after this time, so it is shorter for
// short functions: a second delivery changes nothing.
func visibility(s size) int {
	if s.seconds <= 60 {
		return 2 * s.seconds
	}
	return 6 * s.seconds
}

// function adds a function with its role and its log group. At first, the role may only write that log.
func (d *deployment) function(fn string) {
	s, name := sizeOf(fn), d.named(fn)
	if fn == events.FnHook && d.Traces != "" {
		s.memory *= 2 // for traces, hook reads whole jobs
	}
	if fn == events.FnOptimize && d.PlannerMemory > 0 {
		s.memory = d.PlannerMemory
	}
	logs := awslogs.NewLogGroup(d.stack, jsii.String(title(fn)+"Log"), &awslogs.LogGroupProps{
		LogGroupName: jsii.String("/aws/lambda/" + name), Retention: awslogs.RetentionDays(retention(d.LogDays)),
		RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	})
	skip(logs, "CKV_AWS_158",
		"logs hold no payloads or secrets; a customer's key costs 1 USD a month and an idle deployment costs nothing",
		"CKV_AWS_338",
		"how long logs are kept is the deployer's choice (-log-days); records, not logs, are the history of jobs")
	role := awsiam.NewRole(d.stack, jsii.String(title(fn)+"Role"), &awsiam.RoleProps{
		RoleName: d.roleName(fn), AssumedBy: awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		Description: jsii.String("Tradewind: function " + fn),
	})
	role.AddToPolicy(allow("Log", []string{"logs:CreateLogStream", "logs:PutLogEvents"}, *logs.LogGroupArn()))
	props := &awslambda.FunctionProps{
		FunctionName: jsii.String(name), Description: jsii.String(describe(fn)),
		Runtime: awslambda.Runtime_PROVIDED_AL2023(), Handler: jsii.String("bootstrap"),
		Architecture: architecture(d.Architecture), Code: awslambda.Code_FromAsset(jsii.String(d.code(fn)), nil),
		MemorySize: num(s.memory), Timeout: seconds(s.seconds), Role: role, LogGroup: logs,
		// Lambda's own log lines, three for each invocation, would cost more than some functions do.
		LoggingFormat: awslambda.LoggingFormat_JSON, SystemLogLevelV2: awslambda.SystemLogLevel_WARN,
		ApplicationLogLevelV2: awslambda.ApplicationLogLevel_INFO,
	}
	reasons := []string{
		"CKV_AWS_115",
		"the queue's maximum concurrency bounds it; reserving would take from the account's other functions",
		"CKV_AWS_117",
		"it talks to AWS's public endpoints only; a VPC would need a NAT gateway, which costs while idle",
		"CKV_AWS_173", "its environment holds names only, which the template shows as well; the token key is in SSM",
		"CKV_AWS_272",
		"the user who deploys builds the binaries; there is no third party whose signature could be checked",
	}
	if s.invokedDirectly {
		props.RetryAttempts, props.MaxEventAge = num(doorRetries), seconds(doorSeconds)
	} else {
		reasons = append(reasons, "CKV_AWS_116", "it is invoked by a queue with a dead-letter queue, a stream with "+
			"an on-failure destination, HTTP or another function that waits; never asynchronously")
	}
	f := awslambda.NewFunction(d.stack, jsii.String(title(fn)), props)
	if s.invokedDirectly { // its role may send to all dead-letter queues of the deployment (permissions.go)
		cfn(f).AddPropertyOverride(jsii.String("DeadLetterConfig.TargetArn"), d.dead[fn].QueueArn())
	}
	skip(f, reasons...)
	d.functions[fn], d.roles[fn] = f, role
}

// environment sets the environment that internal/lambdahost reads, the same for every function.
func (d *deployment) environment() {
	env := map[string]*string{
		"TRADEWIND_DEPLOYMENT": &d.Name, "TRADEWIND_TABLE": d.table.TableName(), "TRADEWIND_BUS": jsii.String(d.Name),
		"TRADEWIND_QUEUE_PREFIX": jsii.String(d.Name + "-"),
		"TRADEWIND_QUEUE_URLS": jsii.String("https://sqs." + *d.stack.Region() + "." + *d.stack.UrlSuffix() + "/" +
			*d.stack.Account() + "/"),
		"TRADEWIND_DAG_BUCKET": d.dags.BucketName(), "TRADEWIND_WORK_BUCKET": d.work.BucketName(),
		"TRADEWIND_API": d.endpoint(), "TRADEWIND_TOKEN_PARAMETER": jsii.String(d.tokenParameter()),
		"TRADEWIND_SCHEDULES":       jsii.String(strings.Join(d.activitySchedules(), ",")),
		"TRADEWIND_EXPIRY_SCHEDULE": jsii.String(expirySchedule),
		"TRADEWIND_MAPPINGS":        jsii.String(strings.Join(idleMappings(), ",")),
		"TRADEWIND_TOPIC":           d.topic.TopicArn(),
		"TRADEWIND_AGENT_KEY":       jsii.String(d.agentObjects()),
		"TRADEWIND_SECRETS":         jsii.String(strings.Join(d.secretPaths(), ",")),
		"TRADEWIND_STORES":          d.stores(),
		"TRADEWIND_REGIONS":         jsii.String(strings.Join(append([]string{*d.stack.Region()}, d.Regions...), ",")),
	}
	if buckets, _ := d.mountable(); len(buckets) > 0 {
		env["TRADEWIND_MOUNTS_ROLE"] = jsii.String(d.roleARN(mountsRole))
	}
	if keys := d.rcloneObjects(); keys != "" {
		env["TRADEWIND_RCLONE_KEY"] = &keys
	}
	if len(d.Announce) > 0 {
		env["TRADEWIND_ANNOUNCE"] = jsii.String(strings.Join(d.Announce, ","))
	}
	if d.Webhook != "" {
		env["TRADEWIND_WEBHOOK"] = &d.Webhook
	}
	if d.MailFrom != "" {
		env["TRADEWIND_MAIL_FROM"] = &d.MailFrom
	}
	if d.Unproven {
		env["TRADEWIND_MACHINE_PROOF"] = jsii.String("optional")
	}
	if d.Keep != "" {
		env["TRADEWIND_KEEP"] = jsii.String(d.Keep)
	}
	if d.LimitMachines != 0 {
		env["TRADEWIND_LIMIT_MACHINES"] = jsii.String(strconv.Itoa(d.LimitMachines))
	}
	if d.LimitUSD != 0 {
		env["TRADEWIND_LIMIT_USD_PER_HOUR"] = jsii.String(strconv.FormatFloat(d.LimitUSD, 'g', -1, 64))
	}
	if d.AgentsCall != 0 {
		env["TRADEWIND_AGENTS_CALL"] = jsii.String(d.AgentsCall.String())
	}
	if d.Policy {
		env["TRADEWIND_POLICY"] = jsii.String(policyKey)
	}
	if services := d.allServices(); len(services) > 0 {
		env["TRADEWIND_SERVICES"] = jsii.String(strings.Join(services, ","))
	}
	if len(d.Clouds) > 0 {
		names := append([]string{"aws"}, slices.Sorted(maps.Keys(d.Clouds))...)
		env["TRADEWIND_CLOUDS"] = jsii.String(strings.Join(names, ","))
		read := slices.DeleteFunc(names[1:], func(c string) bool { return !hasSecrets(d.Clouds[c]) })
		if len(read) > 0 {
			env["TRADEWIND_SECRET_CLOUDS"] = jsii.String(strings.Join(read, ","))
		}
		if pushing := d.pushing(); len(pushing) > 0 {
			env["TRADEWIND_PUSH_CLOUDS"] = jsii.String(strings.Join(pushing, ","))
		}
		if announces("gcp", d.Clouds["gcp"]) {
			env["TRADEWIND_TOPIC_CLOUD"] = jsii.String("gcp")
		}
		if buckets := d.dagBuckets(); len(buckets) > 0 {
			env["TRADEWIND_DAG_BUCKETS"] = jsii.String(strings.Join(buckets, ","))
		}
		env["TRADEWIND_CLOUD_REGIONS"] = jsii.String(strings.Join(d.cloudRegions(), ","))
		if settings, bought := d.Clouds["gcp"]; bought {
			if s, _ := driver.ParseSettings(settings); s["tpus"] != "true" {
				env["TRADEWIND_WITHOUT"] = jsii.String("gcp/tpu-") // their API may be off
			}
		}
	}
	if d.Traces != "" {
		hook := d.functions[events.FnHook].(awslambda.Function)
		hook.AddEnvironment(jsii.String("OTEL_EXPORTER_OTLP_ENDPOINT"), &d.Traces, nil)
		if d.TraceHeaders != "" {
			hook.AddEnvironment(jsii.String("TRADEWIND_TRACE_HEADERS"), &d.TraceHeaders, nil)
		}
	}
	for _, fn := range d.functionNames() {
		for name, value := range env {
			d.functions[fn].(awslambda.Function).AddEnvironment(jsii.String(name), value, nil)
		}
		if settings, ok := d.Clouds[strings.TrimPrefix(fn, cloudPrefix)]; ok && settings != "" {
			d.functions[fn].(awslambda.Function).AddEnvironment(jsii.String("TRADEWIND_CLOUD"), &settings, nil)
		}
	}
	if len(d.Services) > 0 {
		own := d.functions[fnCloudAWS].(awslambda.Function)
		own.AddEnvironment(jsii.String("TRADEWIND_CLOUD"), jsii.String(d.awsServiceSettings()), nil)
	}
}

// cloudRegions are the regions of other clouds, as CLOUD:REGION.
func (c Config) cloudRegions() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(c.Clouds)) {
		settings, _ := driver.ParseSettings(c.Clouds[name]) // checked by Validate
		for region := range strings.SplitSeq(settings["regions"], "+") {
			out = append(out, name+":"+region)
		}
	}
	return out
}

// stores are the buckets of the other regions, REGION=BUCKET, and of other clouds, CLOUD:REGION=URL, comma-separated.
func (d *deployment) stores() *string {
	var out []string
	for _, region := range d.Regions {
		out = append(out, region+"="+d.regionalBucket(region))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Clouds)) {
		urls := storesOf(name, d.Clouds[name])
		for _, place := range slices.Sorted(maps.Keys(urls)) {
			out = append(out, place+"="+urls[place])
		}
	}
	return jsii.String(strings.Join(out, ","))
}

// hasSecrets reports whether the settings of a cloud name secrets for jobs.
func hasSecrets(text string) bool {
	settings, _ := driver.ParseSettings(text) // checked by Validate
	return settings["secrets"] != ""
}

// announces reports whether the function of a cloud publishes on the topics that jobs name.
func announces(name, text string) bool {
	settings, _ := driver.ParseSettings(text) // checked by Validate
	return name == "gcp" && settings["announce"] == "true"
}

// dagBucket is the bucket of a cloud for job files; empty if there is none. Validate has checked it.
func dagBucket(text string) string {
	settings, _ := driver.ParseSettings(text)
	bucket, _, _ := driver.DAGPlace(settings["dags"])
	return bucket
}

// dagBuckets are the buckets for job files in all clouds, as CLOUD=URL.
func (d *deployment) dagBuckets() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(d.Clouds)) {
		if bucket := dagBucket(d.Clouds[name]); bucket != "" {
			out = append(out, name+"="+bucket)
		}
	}
	return out
}

// pushes reports whether a cloud pushes notices.
func pushes(text string) bool {
	settings, _ := driver.ParseSettings(text) // checked by Validate
	return settings["pushAccount"] != ""
}

// pushing are the clouds that push notices.
func (d *deployment) pushing() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(d.Clouds)), func(c string) bool { return !pushes(d.Clouds[c]) })
}

// storesOf are the URLs of a cloud's stores, by place. Validate has checked them.
func storesOf(cloud, text string) map[string]string {
	settings, _ := driver.ParseSettings(text)
	urls, _ := driver.StoreURLs(cloud, settings)
	return urls
}

// agentObjects are the keys of the agents' binaries, as internal/cloud/aws reads them: comma-separated ARCH=KEY.
func (d *deployment) agentObjects() string {
	keys, err := d.agentKeys()
	if err != nil {
		panic(err) // checked by Validate
	}
	var out []string
	for _, arch := range agentArchs() {
		out = append(out, arch+"="+keys[arch])
	}
	return strings.Join(out, ",")
}

// tokenParameter names the SSM parameter with the key that signs agents' tokens; the functions that use it create it.
func (d *deployment) tokenParameter() string { return "/" + d.Name + "/token-key" }

// idleMappings are the functions whose queues are polled only while work is open, because polling an empty queue costs
// money: all functions.
func idleMappings() []string { return events.Functions() }

func architecture(name string) awslambda.Architecture {
	if name == "x86_64" {
		return awslambda.Architecture_X86_64()
	}
	return awslambda.Architecture_ARM_64()
}

// describe is a function's description in the console.
func describe(fn string) string {
	switch fn {
	case fnAPI:
		return "Tradewind: the HTTP API"
	case fnRelay:
		return "Tradewind: publishes the outbox"
	case fnAuthorizer:
		return "Tradewind: checks the tokens of agents"
	case fnServices:
		return "Tradewind: watches Spark applications on managed services"
	case fnCloudAWS:
		return "Tradewind: buys and ends managed services of AWS"
	case cloudPrefix + "gcp", cloudPrefix + "azure", cloudPrefix + "lambda":
		return "Tradewind: buys and releases machines of the cloud " + strings.TrimPrefix(fn, cloudPrefix)
	default:
		return "Tradewind: the broker's function " + fn
	}
}
