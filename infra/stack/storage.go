package stack

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"
)

// Prefixes of the work bucket. All other keys belong to jobs: <job>/<task>/….
const (
	prefixAgent   = "agent/"   // binaries, by digest
	prefixEvents  = "events/"  // payloads too large for the bus, by digest
	prefixLogs    = "logs/"    // output of tasks
	prefixCatalog = "catalog/" // prices that refresh has read
	prefixPolicy  = "policy/"  // scheduling policy of sessions
)

// policyKey is the object with the scheduling policy of sessions.
const policyKey = prefixPolicy + "scheduling.yaml"

// eventDays is how long a large payload is kept: longer than a queue and its dead-letter queue together keep the
// message that refers to the payload.
const eventDays = 2*deadDays + 2

// storage adds the table and the two buckets: all persistent data.
func (d *deployment) storage() {
	policy := d.removal()
	d.table = awsdynamodb.NewTable(d.stack, jsii.String("Table"), &awsdynamodb.TableProps{
		TableName:    &d.Name,
		PartitionKey: &awsdynamodb.Attribute{Name: jsii.String("pk"), Type: awsdynamodb.AttributeType_STRING},
		SortKey:      &awsdynamodb.Attribute{Name: jsii.String("sk"), Type: awsdynamodb.AttributeType_STRING},
		BillingMode:  awsdynamodb.BillingMode_PAY_PER_REQUEST, TimeToLiveAttribute: jsii.String("ttl"),
		Stream: awsdynamodb.StreamViewType_NEW_IMAGE,
		PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{
			PointInTimeRecoveryEnabled: jsii.Bool(true),
		},
		DeletionProtection: jsii.Bool(d.KeepData), RemovalPolicy: policy,
	})
	skip(d.table, "CKV_AWS_119",
		"it is encrypted with AWS's own key; a customer's key costs 1 USD a month and a request for each read")
	d.dags = d.bucket("Dags", "dags", policy, true, nil)
	// A property override, because an L2 notification would add a CDK function with wide rights.
	cfn(d.dags).AddPropertyOverride(
		jsii.String("NotificationConfiguration.EventBridgeConfiguration.EventBridgeEnabled"), true)
	d.work = d.bucket("Work", "work", policy, false, &[]*awss3.LifecycleRule{{
		Id: jsii.String("large-payloads"), Prefix: jsii.String(prefixEvents), Expiration: days(eventDays),
	}, packRule()})
}

// removal is the removal policy of persistent data when its stack is deleted.
func (c Config) removal() awscdk.RemovalPolicy {
	if c.KeepData {
		return awscdk.RemovalPolicy_RETAIN
	}
	return awscdk.RemovalPolicy_DESTROY
}

// bucket adds a private bucket.
func (d *deployment) bucket(id, suffix string, policy awscdk.RemovalPolicy, versioned bool,
	rules *[]*awss3.LifecycleRule) awss3.Bucket {
	name := awscdk.Fn_Sub(jsii.String(d.Name+"-"+suffix+"-${AWS::AccountId}-${AWS::Region}"), nil)
	return newBucket(d.stack, id, name, policy, versioned, rules)
}

// regionalBucket names the bucket in another region in which jobs store data.
func (c Config) regionalBucket(region string) string {
	return c.Name + "-work-" + c.Account + "-" + region
}

// newBucket adds a private bucket. Only users' job files are versioned. Jobs write a checkpoint over and over and the
// broker removes the old ones: versions of those would be kept and paid for after that. A bucket that was versioned
// keeps its old versions for one more day.
func newBucket(s awscdk.Stack, id string, name *string, policy awscdk.RemovalPolicy, versioned bool,
	rules *[]*awss3.LifecycleRule) awss3.Bucket {
	keep := 1
	if versioned {
		keep = 30
	}
	all := []*awss3.LifecycleRule{{
		Id: jsii.String("unfinished-uploads"), AbortIncompleteMultipartUploadAfter: days(7),
	}, {
		Id: jsii.String("old-versions"), NoncurrentVersionExpiration: days(keep),
	}}
	if rules != nil {
		all = append(all, *rules...)
	}
	b := awss3.NewBucket(s, jsii.String(id), &awss3.BucketProps{
		BucketName: name,
		Encryption: awss3.BucketEncryption_S3_MANAGED, BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(),
		EnforceSSL: jsii.Bool(true), MinimumTLSVersion: jsii.Number(1.2), Versioned: jsii.Bool(versioned),
		ObjectOwnership: awss3.ObjectOwnership_BUCKET_OWNER_ENFORCED, LifecycleRules: &all, RemovalPolicy: policy,
	})
	reasons := []string{"CKV_AWS_18", "the records show each writer; server access logs need a third bucket, and " +
		"CloudTrail data events are the account's choice"}
	if !versioned {
		reasons = append(reasons, "CKV_AWS_21", "removed checkpoints would stay and be paid for")
	}
	skip(b, reasons...)
	return b
}
