// Package policies has the IAM policies of the roles that EMR and EMR Serverless work with, for the command that
// creates the roles and for the template of a deployment.
package policies

import (
	"encoding/json"
	"net/url"
	"reflect"
)

// tagDeployment is the tag of everything that a deployment makes.
const tagDeployment = "tradewind:deployment"

// Document is an IAM policy.
type Document struct {
	Version   string
	Statement []Statement
}

// Statement is a statement of a policy, with the fields of IAM.
type Statement struct {
	Effect    string
	Principal any      `json:",omitempty"`
	Action    []string `json:",omitempty"`
	Resource  []string `json:",omitempty"`
	Condition any      `json:",omitempty"`
}

func policyOf(all ...Statement) Document { return Document{Version: "2012-10-17", Statement: all} }

// Text returns the policy as JSON.
func (d Document) Text() string {
	body, err := json.Marshal(d)
	if err != nil {
		panic(err) // it has only strings, lists and maps
	}
	return string(body)
}

// Is reports whether a policy from IAM, which encodes policies as in a URL, is this policy.
func (d Document) Is(returned string) bool {
	plain, err := url.QueryUnescape(returned)
	var now, want any
	return err == nil && json.Unmarshal([]byte(plain), &now) == nil &&
		json.Unmarshal([]byte(d.Text()), &want) == nil && reflect.DeepEqual(now, want)
}

type values = map[string]any

func equals(key string, value any) values { return values{"StringEquals": values{key: value}} }

// Trust allows a service of AWS to assume a role. With an account, it allows this only for resources of that account.
func Trust(service, account string) Document {
	s := Statement{Effect: "Allow", Principal: values{"Service": service}, Action: []string{"sts:AssumeRole"}}
	if account != "" {
		s.Condition = equals("aws:SourceAccount", account)
	}
	return policyOf(s)
}

// Data allows applications to read and write the buckets of the deployment: code, inputs, outputs and logs.
func Data(buckets []string) Document {
	var all, objects []string
	for _, b := range buckets {
		all = append(all, "arn:aws:s3:::"+b)
		objects = append(objects, "arn:aws:s3:::"+b+"/*")
	}
	return policyOf(
		Statement{Effect: "Allow", Resource: all, Action: []string{"s3:ListBucket", "s3:GetBucketLocation",
			"s3:ListBucketMultipartUploads"}},
		Statement{Effect: "Allow", Resource: objects, Action: []string{"s3:GetObject", "s3:PutObject",
			"s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"}},
	)
}

// Buyer describes what EMR may buy.
type Buyer struct {
	Deployment, Account string
	// NodesRole is the name of the role that EMR gives its machines.
	NodesRole string
	Regions   []string
}

// Service allows EMR to buy the machines of the deployment's clusters. It follows AWS's managed policy
// AmazonEMRServicePolicy_v2, without the rights for private subnets, placement groups and custom scaling, which the
// driver does not use. Two things differ: the tag is the deployment's, which EMR copies from the cluster to its
// machines, disks and launch templates; and networks need no tag, so that EMR can use the default network.
func Service(of Buyer) Document {
	made := equals("aws:RequestTag/"+tagDeployment, of.Deployment)
	mine := equals("aws:ResourceTag/"+tagDeployment, of.Deployment)
	ec2 := func(kinds ...string) (all []string) {
		for _, region := range of.Regions {
			for _, kind := range kinds {
				all = append(all, "arn:aws:ec2:"+region+":*:"+kind+"/*")
			}
		}
		return all
	}
	var images []string
	for _, region := range of.Regions {
		images = append(images, "arn:aws:ec2:"+region+"::image/*")
	}
	launch := []string{"ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate",
		"ec2:CreateLaunchTemplateVersion"}
	allow := func(condition any, resources []string, actions ...string) Statement {
		return Statement{Effect: "Allow", Action: actions, Resource: resources, Condition: condition}
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
			[]string{"arn:aws:iam::" + of.Account + ":role/" + of.NodesRole}, "iam:PassRole"),
	)
}
