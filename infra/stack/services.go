package stack

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cloud/aws/roles/policies"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
)

// The functions of a deployment that buys managed services: one watches the attempts on all of them, and one has the
// drivers of those of AWS. The function of another cloud has the drivers of that cloud's services.
const (
	fnServices = record.FnServices
	fnCloudAWS = cloudPrefix + "aws"
)

// The managed services of AWS.
const (
	emr           = "emr"
	emrServerless = "emr-serverless"
)

// The roles with which EMR and EMR Serverless work, and which the stack creates.
const (
	roleEMR      = "emr"       // of EMR itself, which buys machines
	roleEMRNodes = "emr-nodes" // of the machines, also the name of the instance profile
	roleSpark    = "spark"     // of EMR Serverless's job runs
)

// allServices are the managed services that the deployment buys, of AWS and of other clouds.
func (c Config) allServices() []string {
	all := slices.Clone(c.Services)
	settings, _ := driver.ParseSettings(c.Clouds["gcp"]) // checked by Validate
	return append(all, strings.FieldsFunc(settings["services"], func(r rune) bool { return r == '+' })...)
}

// serviceFunctions are the functions that only a deployment with managed services has.
func (c Config) serviceFunctions() (names []string) {
	if len(c.Services) > 0 {
		names = append(names, fnCloudAWS)
	}
	if len(c.allServices()) > 0 {
		names = append(names, fnServices)
	}
	return names
}

// awsServiceSettings are the settings of the function with AWS's services, as cloudkit.FromPairs reads them.
func (d *deployment) awsServiceSettings() string {
	regions := append([]string{*d.stack.Region()}, d.Regions...)
	stores := []string{*d.stack.Region() + ":" + *d.work.BucketName()}
	for _, region := range d.Regions {
		stores = append(stores, region+":"+d.regionalBucket(region))
	}
	all := []string{"services=" + strings.Join(d.Services, "+"), "regions=" + strings.Join(regions, "+"),
		"stores=" + strings.Join(stores, "+")}
	if slices.Contains(d.Services, emr) {
		all = append(all, "emrRole="+*d.roleName(roleEMR), "emrProfile="+*d.roleName(roleEMRNodes))
	}
	if slices.Contains(d.Services, emrServerless) {
		all = append(all, "jobRole="+d.roleARN(roleSpark))
	}
	return strings.Join(all, ",")
}

// addServices adds the roles of AWS's managed services, and gives the functions the rights to use the services.
func (d *deployment) addServices() {
	if len(d.allServices()) > 0 {
		d.grantServices()
	}
	if len(d.Services) == 0 {
		return
	}
	d.grantEnded("aws")
	buckets := d.storeBuckets()
	var logs []string
	for _, bucket := range buckets {
		logs = append(logs, bucket+"/*/service-logs/*")
	}
	d.grant(fnCloudAWS, "Logs", []string{"s3:GetObject"}, logs...)
	d.grant(fnCloudAWS, "LogMissing", []string{"s3:ListBucket"}, buckets...)
	if slices.Contains(d.Services, emr) {
		d.addEMR()
	}
	if slices.Contains(d.Services, emrServerless) {
		d.addEMRServerless()
	}
}

// grantServices gives the function that watches services the rights of the broker's API for agents, in whose place it
// acts: it records starts and ends, stores logs, and writes packed files to the stores of jobs.
func (d *deployment) grantServices() {
	d.grantRecords(fnServices)
	d.grantPublish(fnServices)
	work := *d.work.BucketArn()
	d.grant(fnServices, "TaskLogs", []string{"s3:GetObject", "s3:PutObject"}, work+"/"+prefixLogs+"*")
	d.grant(fnServices, "Packs", []string{"s3:GetObject"}, work+"/"+prefixPacks+"*")
	var code []string
	for _, bucket := range d.storeBuckets() {
		code = append(code, bucket+"/*/service-code/*")
	}
	d.grant(fnServices, "Code", []string{"s3:PutObject"}, code...)
}

// storeBuckets returns the ARNs of the buckets that the deployment made for the data of jobs.
func (d *deployment) storeBuckets() []string {
	buckets := []string{*d.work.BucketArn()}
	for _, region := range d.Regions {
		buckets = append(buckets, d.bucketArn(d.regionalBucket(region)))
	}
	return buckets
}

// addEMR adds EMR's roles, and lets the function use EMR. It may change and end only clusters with the deployment's tag.
// EMR has no narrower resource for a request of a new cluster, whose policies and tags need rights of their own
// (Service Authorization Reference, "Amazon Elastic MapReduce"; EMR Management Guide, "Using managed scaling").
func (d *deployment) addEMR() {
	d.serviceRole(roleEMR, "elasticmapreduce.amazonaws.com", policies.Service(policies.Buyer{
		Deployment: d.Name, Account: *d.stack.Account(), NodesRole: *d.roleName(roleEMRNodes),
		Regions: append([]string{*d.stack.Region()}, d.Regions...),
	}))
	nodes := d.serviceRole(roleEMRNodes, "ec2.amazonaws.com", d.dataPolicy())
	d.sparkRole(nodes)
	awsiam.NewCfnInstanceProfile(d.stack, jsii.String("EmrNodesProfile"), &awsiam.CfnInstanceProfileProps{
		InstanceProfileName: d.roleName(roleEMRNodes), Roles: &[]*string{nodes.RoleName()},
	})
	policy := []string{"elasticmapreduce:PutAutoTerminationPolicy", "elasticmapreduce:PutManagedScalingPolicy"}
	clusters := d.anyRegion("elasticmapreduce", *d.stack.Account(), "cluster/*")
	role := d.roles[fnCloudAWS]
	role.AddToPolicy(allowIf("RequestCluster", append(policy, "elasticmapreduce:RunJobFlow", "elasticmapreduce:AddTags"),
		equals("aws:RequestTag/"+TagDeployment, d.Name), "*"))
	role.AddToPolicy(allowIf("Cluster", append(policy, "elasticmapreduce:DescribeCluster", "elasticmapreduce:ListSteps",
		"elasticmapreduce:AddJobFlowSteps", "elasticmapreduce:CancelSteps", "elasticmapreduce:TerminateJobFlows"),
		equals("aws:ResourceTag/"+TagDeployment, d.Name), clusters))
	role.AddToPolicy(allow("Clusters", []string{"elasticmapreduce:ListClusters"}, "*")) // list calls cannot be restricted
	d.passRole("PassEMR", "elasticmapreduce.amazonaws.com", roleEMR)
	d.passRole("PassEMRNodes", "ec2.amazonaws.com", roleEMRNodes)
	d.linkedRole("EMRLink", "elasticmapreduce.amazonaws.com", "AWSServiceRoleForEMRCleanup")
}

// addEMRServerless adds the role of EMR Serverless's job runs, and lets the function use EMR Serverless (Service
// Authorization Reference, "Amazon EMR Serverless"; EMR Serverless User Guide, "Tag-based access control").
func (d *deployment) addEMRServerless() {
	d.sparkRole(d.serviceRole(roleSpark, "emr-serverless.amazonaws.com", d.dataPolicy()))
	applications := d.anyRegion("emr-serverless", *d.stack.Account(), "/applications/*")
	role := d.roles[fnCloudAWS]
	role.AddToPolicy(allowIf("RequestApplication", []string{"emr-serverless:CreateApplication", "emr-serverless:TagResource"},
		equals("aws:RequestTag/"+TagDeployment, d.Name), "*"))
	role.AddToPolicy(allowIf("Application", []string{
		"emr-serverless:GetApplication", "emr-serverless:StopApplication", "emr-serverless:DeleteApplication",
		"emr-serverless:StartJobRun", "emr-serverless:ListJobRuns",
	}, equals("aws:ResourceTag/"+TagDeployment, d.Name), applications))
	// Job runs have no tags, and only this role can start those of the deployment's applications.
	role.AddToPolicy(allow("Runs", []string{"emr-serverless:GetJobRun", "emr-serverless:CancelJobRun"}, applications))
	role.AddToPolicy(allow("Applications", []string{"emr-serverless:ListApplications"}, "*"))
	d.passRole("PassSpark", "emr-serverless.amazonaws.com", roleSpark)
	d.linkedRole("EMRServerlessLink", "ops.emr-serverless.amazonaws.com", "AWSServiceRoleForAmazonEMRServerless")
}

// dataPolicy is the policy of the roles of Spark's applications: all buckets of jobs.
func (d *deployment) dataPolicy() policies.Document {
	buckets := []string{*d.work.BucketName()}
	for _, region := range d.Regions {
		buckets = append(buckets, d.regionalBucket(region))
	}
	return policies.Data(append(buckets, d.DataBuckets...))
}

// serviceRole adds a role that a service of AWS assumes.
func (d *deployment) serviceRole(part, service string, rights policies.Document) awsiam.Role {
	var statements map[string]interface{}
	if err := json.Unmarshal([]byte(rights.Text()), &statements); err != nil {
		panic(err) // it was JSON just now
	}
	trusted := &awsiam.ServicePrincipalOpts{}
	if service != "ec2.amazonaws.com" { // EC2 names no source account
		trusted.Conditions = &map[string]interface{}{
			"StringEquals": map[string]interface{}{"aws:SourceAccount": d.stack.Account()}}
	}
	return awsiam.NewRole(d.stack, jsii.String(title(part)+"Role"), &awsiam.RoleProps{
		RoleName: d.roleName(part), AssumedBy: awsiam.NewServicePrincipal(&service, trusted),
		Description:    jsii.String("Tradewind: Spark on managed services, " + part),
		InlinePolicies: &map[string]awsiam.PolicyDocument{"tradewind": awsiam.PolicyDocument_FromJson(statements)},
	})
}

// sparkRole denies a role of Spark's applications the broker's own objects in the work bucket.
func (d *deployment) sparkRole(role awsiam.Role) {
	d.sparkRoles = append(d.sparkRoles, role)
	var own []*string
	for _, prefix := range []string{prefixAgent, prefixEvents, prefixLogs, prefixCatalog, prefixPolicy, prefixPacks} {
		own = append(own, jsii.String(*d.work.BucketArn()+"/"+prefix+"*"))
	}
	role.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("NotTheBrokers"), Effect: awsiam.Effect_DENY, Resources: &own,
		Actions: jsii.Strings("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"),
	}))
}

// passRole allows the function with AWS's services to give a role of the stack to a service.
func (d *deployment) passRole(sid, service, part string) {
	d.roles[fnCloudAWS].AddToPolicy(allowIf(sid, []string{"iam:PassRole"},
		equals("iam:PassedToService", service), d.roleARN(part)))
}

// linkedRole allows a service to create its service-linked role at the account's first use of the service.
func (d *deployment) linkedRole(sid, service, name string) {
	d.roles[fnCloudAWS].AddToPolicy(allowIf(sid, []string{"iam:CreateServiceLinkedRole"},
		equals("iam:AWSServiceName", service), d.global("iam", "role/aws-service-role/"+service+"/"+name+"*")))
}

// cloudCallers are the functions that call the functions of clouds: those that buy, release, list and check.
func (d *deployment) cloudCallers() []string {
	callers := []string{events.FnProvision, events.FnReconcile, events.FnRefresh}
	if len(d.allServices()) > 0 {
		callers = append(callers, fnServices)
	}
	return callers
}
