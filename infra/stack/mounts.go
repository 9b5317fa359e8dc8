package stack

import (
	"path/filepath"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/tradewind-broker/tradewind/events"
)

// mountable returns the ARNs of the buckets that tasks may mount, and of their objects: the buckets named with
// -data-buckets and -make-buckets. The work bucket is not one of them.
func (d *deployment) mountable() (buckets, objects []string) {
	for _, b := range append(append([]string{}, d.DataBuckets...), d.MakeBuckets...) {
		arn := "arn:" + *d.stack.Partition() + ":s3:::" + b
		buckets, objects = append(buckets, arn), append(objects, arn+"/*")
	}
	return buckets, objects
}

// mountsRole is the part of the role whose credentials are lent to machines.
const mountsRole = "mounts"

// addMountsRole adds a role that the API may assume for at most one hour. The API lends a machine credentials of this
// role, limited to one prefix by a session policy; the role's own rights are the upper limit. The API also signs
// requests for objects of these buckets. When a job file arrives in the DAG bucket, submit checks that the inputs it
// names exist and that credentials for its mounts can be lent: it reads the buckets and assumes the role once as a
// test.
func (d *deployment) addMountsRole() {
	buckets, objects := d.mountable()
	if len(buckets) == 0 {
		return
	}
	role := awsiam.NewRole(d.stack, jsii.String("MountsRole"), &awsiam.RoleProps{
		RoleName: d.roleName(mountsRole), AssumedBy: awsiam.NewCompositePrincipal(
			awsiam.NewArnPrincipal(d.roles[fnAPI].RoleArn()), awsiam.NewArnPrincipal(d.roles[events.FnSubmit].RoleArn())),
		Description: jsii.String("Tradewind: buckets that tasks mount, lent one prefix at a time"),
	})
	d.mounts = role
	role.AddToPolicy(allow("MountsList", []string{"s3:ListBucket"}, buckets...))
	role.AddToPolicy(allow("Mounts", []string{
		"s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts",
	}, objects...))
	// A separate policy: added to the policy of the API's role it would exceed the size limit, and the CDK would
	// split it.
	awsiam.NewPolicy(d.stack, jsii.String("NamedBuckets"), &awsiam.PolicyProps{
		Roles: &[]awsiam.IRole{d.roles[fnAPI]}, Statements: &[]awsiam.PolicyStatement{
			allow("NamedData", []string{"s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"}, objects...),
			allow("NamedLists", []string{"s3:ListBucket"}, buckets...),
			allow("LendForMounts", []string{"sts:AssumeRole"}, *role.RoleArn()),
		},
	})
	d.grant(events.FnSubmit, "LookForInputs", []string{"s3:ListBucket"}, buckets...)
	d.grant(events.FnSubmit, "LookAtInputs", []string{"s3:GetObject"}, objects...)
	d.grant(events.FnSubmit, "TryToLend", []string{"sts:AssumeRole"}, *role.RoleArn())
}

// grantMakeBuckets allows provision to create the buckets that jobs request, and reconcile to remove the temporary
// ones. The rights are limited to the configured names.
func (d *deployment) grantMakeBuckets() {
	var buckets, objects []string
	for _, b := range d.MakeBuckets {
		arn := "arn:" + *d.stack.Partition() + ":s3:::" + b
		buckets, objects = append(buckets, arn), append(objects, arn+"/*")
	}
	if len(buckets) == 0 {
		return
	}
	d.grant(events.FnProvision, "MakeBuckets", []string{"s3:CreateBucket", "s3:ListBucket"}, buckets...)
	d.grant(events.FnReconcile, "RemoveBuckets",
		[]string{"s3:DeleteBucket", "s3:ListBucket", "s3:ListBucketMultipartUploads"}, buckets...)
	d.grant(events.FnReconcile, "EmptyBuckets", []string{"s3:DeleteObject", "s3:AbortMultipartUpload"}, objects...)
}

// rcloneObjects returns the keys of rclone's binaries as the API reads them: comma-separated ARCH=KEY, or empty if the
// binaries were not built.
func (d *deployment) rcloneObjects() string {
	var out []string
	for _, arch := range agentArchs() {
		digest, err := digestOf(filepath.Join(d.Assets, "agent", arch, "rclone"))
		if err != nil {
			return ""
		}
		out = append(out, arch+"="+prefixAgent+digest+"/rclone")
	}
	return strings.Join(out, ",")
}
