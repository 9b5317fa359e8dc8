package roles

import (
	"encoding/json"
	"net/url"
	"reflect"

	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
)

// document is an IAM policy.
type document struct {
	Version   string
	Statement []statement
}

type statement struct {
	Effect    string
	Principal any      `json:",omitempty"`
	Action    []string `json:",omitempty"`
	Resource  []string `json:",omitempty"`
	Condition any      `json:",omitempty"`
}

func policyOf(all ...statement) document { return document{Version: "2012-10-17", Statement: all} }

func (d document) text() string {
	body, err := json.Marshal(d)
	if err != nil {
		panic(err) // it has only strings, lists and maps
	}
	return string(body)
}

// is reports whether a policy from IAM, which encodes policies as in a URL, is this policy.
func (d document) is(returned string) bool {
	plain, err := url.QueryUnescape(returned)
	var now, want any
	return err == nil && json.Unmarshal([]byte(plain), &now) == nil &&
		json.Unmarshal([]byte(d.text()), &want) == nil && reflect.DeepEqual(now, want)
}

type values = map[string]any

func equals(key string, value any) values { return values{"StringEquals": values{key: value}} }

// trust allows a service of AWS to assume a role. With an account, it allows this only for resources of that account.
func trust(service, account string) document {
	s := statement{Effect: "Allow", Principal: values{"Service": service}, Action: []string{"sts:AssumeRole"}}
	if account != "" {
		s.Condition = equals("aws:SourceAccount", account)
	}
	return policyOf(s)
}

// dataPolicy allows applications to read and write the buckets of the deployment: code, inputs, outputs and logs.
func dataPolicy(buckets []string) document {
	var all, objects []string
	for _, b := range buckets {
		all = append(all, "arn:aws:s3:::"+b)
		objects = append(objects, "arn:aws:s3:::"+b+"/*")
	}
	return policyOf(
		statement{Effect: "Allow", Resource: all, Action: []string{"s3:ListBucket", "s3:GetBucketLocation",
			"s3:ListBucketMultipartUploads"}},
		statement{Effect: "Allow", Resource: objects, Action: []string{"s3:GetObject", "s3:PutObject",
			"s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"}},
	)
}

// servicePolicy allows EMR to buy the machines of the deployment's clusters. It follows AWS's managed policy
// AmazonEMRServicePolicy_v2, without the rights for private subnets, placement groups and custom scaling, which the
// driver does not use. Two things differ: the tag is the deployment's, which EMR copies from the cluster to its
// machines, disks and launch templates; and networks need no tag, so that EMR can use the default network.
func (r *Roles) servicePolicy() document {
	made := equals("aws:RequestTag/"+aws.TagDeployment, r.cfg.Deployment)
	mine := equals("aws:ResourceTag/"+aws.TagDeployment, r.cfg.Deployment)
	ec2 := func(kinds ...string) (all []string) {
		for _, region := range r.cfg.Regions {
			for _, kind := range kinds {
				all = append(all, "arn:aws:ec2:"+region+":*:"+kind+"/*")
			}
		}
		return all
	}
	var images []string
	for _, region := range r.cfg.Regions {
		images = append(images, "arn:aws:ec2:"+region+"::image/*")
	}
	launch := []string{"ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate",
		"ec2:CreateLaunchTemplateVersion"}
	allow := func(condition any, resources []string, actions ...string) statement {
		return statement{Effect: "Allow", Action: actions, Resource: resources, Condition: condition}
	}
	return policyOf(
		allow(made, ec2("instance", "volume"), "ec2:RunInstances", "ec2:CreateFleet"),
		allow(made, ec2("launch-template"), "ec2:CreateLaunchTemplate"),
		allow(mine, ec2("launch-template"), "ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplateVersion",
			"ec2:DeleteLaunchTemplate"),
		allow(nil, append(ec2("subnet", "security-group", "network-interface", "fleet", "capacity-reservation"),
			images...), launch...),
		allow(mine, ec2("instance"), "ec2:TerminateInstances", "ec2:ModifyInstanceAttribute"),
		allow(values{"StringEquals": values{"ec2:CreateAction": []string{"RunInstances", "CreateFleet",
			"CreateLaunchTemplate", "CreateSecurityGroup"}}},
			ec2("instance", "volume", "network-interface", "launch-template", "security-group"), "ec2:CreateTags"),
		allow(mine, ec2("instance", "volume", "launch-template"), "ec2:CreateTags", "ec2:DeleteTags"),
		// EMR makes one security group for primary nodes and one for the others in each network, shared by clusters.
		allow(nil, ec2("security-group", "vpc"), "ec2:CreateSecurityGroup", "ec2:AuthorizeSecurityGroupIngress",
			"ec2:AuthorizeSecurityGroupEgress", "ec2:RevokeSecurityGroupIngress", "ec2:RevokeSecurityGroupEgress"),
		// EC2 has no narrower resource for its Describe calls.
		allow(nil, []string{"*"}, "ec2:DescribeAccountAttributes", "ec2:DescribeCapacityReservations",
			"ec2:DescribeDhcpOptions", "ec2:DescribeImages", "ec2:DescribeInstances",
			"ec2:DescribeInstanceTypeOfferings", "ec2:DescribeLaunchTemplates", "ec2:DescribeNetworkAcls",
			"ec2:DescribeNetworkInterfaces", "ec2:DescribeRouteTables", "ec2:DescribeSecurityGroups",
			"ec2:DescribeSubnets", "ec2:DescribeVolumes", "ec2:DescribeVolumeStatus", "ec2:DescribeVpcAttribute",
			"ec2:DescribeVpcEndpoints", "ec2:DescribeVpcs"),
		allow(values{"StringLike": values{"iam:PassedToService": "ec2.amazonaws.com*"}}, //nolint:gosec // no secret
			[]string{"arn:aws:iam::" + r.account + ":role/" + r.nodesRole()}, "iam:PassRole"),
	)
}

// nodesRole is the role that EMR gives its machines. If an instance profile is named, its role is assumed to have the
// same name, as for EMR's own profile.
func (r *Roles) nodesRole() string {
	if r.named.InstanceProfile != "" {
		return nameOf(r.named.InstanceProfile)
	}
	return r.nodesName()
}
