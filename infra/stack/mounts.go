package stack

import (
	"path/filepath"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/tradewind-broker/tradewind/events"
)

// mountable are the ARNs of the buckets that tasks may mount, and of what lies in them: those that are named for the
// purpose. The work bucket is not among them.
func (d *deployment) mountable() (buckets, objects []string) {
	for _, b := range append(append([]string{}, d.DataBuckets...), d.MakeBuckets...) {
		arn := "arn:" + *d.stack.Partition() + ":s3:::" + b
		buckets, objects = append(buckets, arn), append(objects, arn+"/*")
	}
	return buckets, objects
}

// mountsRole is the name of the role whose credentials are lent.
func (d *deployment) mountsRole() string { return d.named("mounts") }

// mounts is a role that the API may assume, for an hour at most, and of which it lends a machine credentials for
// one prefix, by a session policy. What the role may do is the most that is ever lent. The API also signs for objects of
// these buckets. Submit looks, when a file comes in by the bucket of DAGs, whether what it names is there and would be
// lent: it reads there, and tries.
func (d *deployment) mounts() {
	buckets, objects := d.mountable()
	if len(buckets) == 0 {
		return
	}
	role := awsiam.NewRole(d.stack, jsii.String("MountsRole"), &awsiam.RoleProps{
		RoleName: jsii.String(d.mountsRole()), AssumedBy: awsiam.NewCompositePrincipal(
			awsiam.NewArnPrincipal(d.roles[fnAPI].RoleArn()), awsiam.NewArnPrincipal(d.roles[events.FnSubmit].RoleArn())),
		Description: jsii.String("Tradewind: what tasks mount, lent one prefix at a time"),
	})
	role.AddToPolicy(allow("MountsList", []string{"s3:ListBucket"}, buckets...))
	role.AddToPolicy(allow("Mounts", []string{
		"s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts",
	}, objects...))
	// A policy of its own: the one that the API's role has would be too long with it for the CDK, which would make it two.
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

// makeBuckets is making the buckets that jobs ask for, and removing those that were made for a time: by their names, and
// no others.
func (d *deployment) makeBuckets() {
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

// rcloneObjects are the keys of rclone's binaries, as the API reads them: ARCH=KEY by comma; empty where they were not
// built.
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
