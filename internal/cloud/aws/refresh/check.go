package refresh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/tradewind-broker/tradewind/internal/base/parallel"
	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Checker reports what an AWS account may do: its identity, regions, quotas and missing rights.
type Checker struct {
	SDK     awssdk.Config
	Cloud   *aws.Cloud
	Regions []string
	// Deployment is the tag value of the deployment's networks.
	Deployment string
	// Buys means that these credentials buy machines, so their right to buy is checked.
	Buys bool
}

// Check implements driver.Checker.
func (c *Checker) Check(ctx context.Context) (driver.Report, error) {
	var r driver.Report
	call, cancel := context.WithTimeout(ctx, regionWithin)
	defer cancel()
	who, err := sts.NewFromConfig(c.SDK).GetCallerIdentity(call, &sts.GetCallerIdentityInput{})
	if err != nil {
		r.Missing = append(r.Missing, lack(err))
		return r, ctx.Err()
	}
	r.Identity, r.Account = awssdk.ToString(who.Arn), awssdk.ToString(who.Account)
	if r.Regions, err = c.Cloud.Regions(call); err != nil {
		r.Missing = append(r.Missing, lack(err))
		return r, ctx.Err()
	}
	for _, region := range c.Regions {
		if !slices.Contains(r.Regions, region) {
			r.Missing = append(r.Missing, driver.Lack{What: "region " + region + " is not enabled for this account",
				Mend: "aws account enable-region --region-name " + region})
		}
	}
	if err := c.checkRegions(ctx, &r); err != nil {
		return r, err
	}
	return r, ctx.Err()
}

// Limits of a check. It must answer within the 29 seconds of API Gateway, even if a region does not answer. So
// regions are checked in parallel, each within regionWithin.
const (
	checkRegionsAtOnce = 20
	regionWithin       = 9 * time.Second
)

// part has the results of the check of one region.
type part struct {
	missing  []driver.Lack
	limits   []limit
	reserved []catalog.Reserved
}

// checkRegions checks the regions, and the payments to which the account has committed itself in all of them.
func (c *Checker) checkRegions(ctx context.Context, r *driver.Report) error {
	known, err := catalog.Default() // for the types of each family
	if err != nil {
		return err
	}
	n := len(r.Regions)
	parts := make([]part, n+2)
	parallel.Each(checkRegionsAtOnce, len(parts), func(i int) {
		call, cancel := context.WithTimeout(ctx, regionWithin)
		defer cancel()
		switch i {
		case n:
			parts[i] = part{missing: c.plan(call)}
		case n + 1:
			parts[i] = c.commitments(call, r)
		default:
			parts[i] = c.region(call, r.Regions[i], r.Identity, known)
		}
	})
	var limits []limit
	for _, p := range parts {
		for _, l := range p.missing {
			switch l.Mend {
			case mendRights:
				l.Mend = grant("tradewind", r.Identity, buying())
			case mendPass:
				l.Mend = grant("tradewind", r.Identity, append(buying(), "iam:PassRole"))
			}
			if !slices.Contains(r.Missing, l) { // a right is missing in all regions alike
				r.Missing = append(r.Missing, l)
			}
		}
		limits = append(limits, p.limits...)
		r.Reserved = append(r.Reserved, renew.Reported(p.reserved)...)
	}
	for _, l := range limits {
		r.Quotas = append(r.Quotas, driver.Quota{Name: l.name(), Region: l.region, Limit: l.vcpus})
	}
	r.Missing = append(r.Missing, lowQuotas(limits)...)
	return nil
}

// region checks one region.
func (c *Checker) region(ctx context.Context, region, identity string, known *catalog.Catalog) (p part) {
	err := c.network(ctx, region)
	if ctx.Err() != nil {
		p.missing = []driver.Lack{{What: fmt.Sprintf("%s did not answer within %v", region, regionWithin),
			Mend: "leave it out of --regions until it answers: https://health.aws.amazon.com/health/status"}}
		return p
	}
	if errors.Is(err, errNoNetwork) {
		p.missing = append(p.missing, driver.Lack{What: region + ": " + err.Error(),
			Mend: "aws ec2 create-default-vpc --region " + region + ", or tag one: tradewind:deployment=" +
				c.Deployment})
	} else if err != nil {
		p.missing = append(p.missing, lack(err))
	}
	if c.Buys {
		p.missing = append(p.missing, c.mayLaunch(ctx, region)...)
	}
	if p.limits, err = c.limitsOf(ctx, region); err != nil { // buying does not need the quotas
		l := lack(err)
		l.Fatal, l.What = false, fmt.Sprintf("the quotas of %s are unknown: %s", region, l.What)
		p.missing = append(p.missing, l)
	}
	if p.reserved, err = Reserved(ctx, c.Cloud, region, known); err != nil { // then the broker does not use it
		p.missing = append(p.missing, unknown("the reserved capacity of the account in "+region, identity, err,
			"ec2:DescribeCapacityReservations", "ec2:DescribeReservedInstances", "ec2:DescribeInstances",
			"ec2:DescribeAvailabilityZones"))
	}
	return p
}

// dryRunImage is an image of every region, by a public parameter.
const dryRunImage = "resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"

// mayLaunch reports missing rights to launch and tag machines. It launches none: a dry run ends with DryRunOperation if
// the caller has the rights, and with UnauthorizedOperation otherwise (EC2 API reference, RunInstances, DryRun). Other
// answers say nothing of rights.
func (c *Checker) mayLaunch(ctx context.Context, region string) []driver.Lack {
	one := int32(1)
	tags := []types.Tag{{Key: awssdk.String("tradewind:deployment"), Value: &c.Deployment}}
	_, err := c.Cloud.EC2(region).RunInstances(ctx, &ec2.RunInstancesInput{
		DryRun: awssdk.Bool(true), MinCount: &one, MaxCount: &one, ImageId: awssdk.String(dryRunImage),
		InstanceType: types.InstanceTypeT3Micro, IamInstanceProfile: c.Cloud.Profile(),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: tags}},
	})
	if p := c.Cloud.Profile(); p != nil && aws.NoProfile(err) {
		name := awssdk.ToString(p.Name)
		if p.Arn != nil {
			name = (*p.Arn)[strings.LastIndexByte(*p.Arn, '/')+1:]
		}
		return []driver.Lack{{Fatal: true, What: "the account has no instance profile " + name,
			Mend: "aws iam create-instance-profile --instance-profile-name " + name}}
	}
	var e *cloud.Error
	if !errors.As(aws.Typed(err), &e) || e.Code != "UnauthorizedOperation" {
		return nil
	}
	what, mend := "they lack ec2:RunInstances or ec2:CreateTags", mendRights
	if c.Cloud.Profile() != nil {
		what, mend = "they lack ec2:RunInstances, ec2:CreateTags, or iam:PassRole for --instance-profile", mendPass
	}
	return []driver.Lack{{Fatal: true, What: "the credentials may not launch machines: " + what, Mend: mend}}
}

// commitments reads the payments to which the account has committed itself.
func (c *Checker) commitments(ctx context.Context, r *driver.Report) (p part) {
	var err error
	if p.reserved, err = Committed(ctx, c.Cloud, r.Regions, time.Now()); err != nil {
		p.missing = append(p.missing, unknown("the list of the account's Savings Plans", r.Identity, err,
			"savingsplans:DescribeSavingsPlans", "savingsplans:DescribeSavingsPlanRates",
			"ec2:DescribeCapacityReservations", "ec2:DescribeReservedInstances", "ec2:DescribeInstances"))
	}
	return p
}

// unknown reports capacity that could not be read, for lack of rights or of an answer. The broker then does not use
// that capacity, and buys machines instead.
func unknown(what, identity string, err error, rights ...string) driver.Lack {
	l := lack(err)
	if l.Mend == mendRights {
		l.Mend = grant("tradewind-reserved", identity, rights)
	}
	l.Fatal, l.What = false, what+" is unknown: "+l.What
	return l
}

// grant returns the command that gives rights to a user or a role. In an identity, the name of an IAM user is the
// last part, and the name of a role is before the session's name.
func grant(policy, identity string, rights []string) string {
	_, name, _ := strings.Cut(identity, "/")
	put := "put-user-policy --user-name " + cmp.Or(name[strings.LastIndexByte(name, '/')+1:], "NAME")
	if strings.Contains(identity, ":assumed-role/") {
		role, _, _ := strings.Cut(name, "/")
		put = "put-role-policy --role-name " + role
	}
	return "aws iam " + put + " --policy-name " + policy + ` --policy-document '{"Version":"2012-10-17",` +
		`"Statement":[{"Effect":"Allow","Resource":"*","Action":["` + strings.Join(rights, `","`) + `"]}]}'`
}

// buying are the rights for buying machines, as docs/clouds.md lists them.
func buying() []string {
	return []string{"ec2:RunInstances", "ec2:TerminateInstances", "ec2:CreateTags", "ec2:CreateSecurityGroup",
		"ec2:DeleteSecurityGroup", "ec2:AuthorizeSecurityGroupIngress", "ec2:Describe*", "ssm:GetParameter",
		"servicequotas:ListServiceQuotas"}
}

// Texts of the next step if rights for buying are missing, without and with an instance profile of the machines.
const (
	mendRights = "give the user or role the rights that docs/clouds.md lists for AWS"
	mendPass   = mendRights + ", and iam:PassRole"
)

// network checks that machines have a network in a region: the default one, or one that is tagged for the deployment.
func (c *Checker) network(ctx context.Context, region string) error {
	out, err := c.Cloud.EC2(region).DescribeVpcs(ctx, &ec2.DescribeVpcsInput{})
	if err != nil {
		return err
	}
	for _, v := range out.Vpcs {
		ours := slices.ContainsFunc(v.Tags, func(t types.Tag) bool {
			return awssdk.ToString(t.Key) == "tradewind:deployment" && awssdk.ToString(t.Value) == c.Deployment
		})
		if awssdk.ToBool(v.IsDefault) || ours {
			return nil
		}
	}
	return errNoNetwork
}

var errNoNetwork = errors.New("there is no default VPC")

const (
	// noRole is the text of the SDK's error when it finds no credentials. The SDK has no error type for it.
	noRole        = "no EC2 IMDS role found"
	noCredentials = "no credentials: neither the environment nor the AWS configuration has any, and this computer " +
		"has no role"
)

// lack converts a refusal to a report with advice.
func lack(err error) driver.Lack {
	l := driver.Lack{What: err.Error()}
	var e *cloud.Error
	if !errors.As(aws.Typed(err), &e) {
		return l
	}
	l.Fatal = e.Kind == cloud.Auth
	if l.Fatal && strings.Contains(l.What, noRole) {
		l.What = noCredentials
	}
	switch {
	case e.Code == "RequestExpired", strings.Contains(e.Message, "Signature not yet current"),
		strings.Contains(e.Message, "Signature expired"):
		l.Mend = "set this computer's clock: sudo timedatectl set-ntp true"
	case strings.HasPrefix(e.Code, "ExpiredToken"):
		l.Mend = "aws sso login, or aws configure for new keys"
	case e.Code == "UnauthorizedOperation", strings.HasPrefix(e.Code, "AccessDenied"):
		l.Mend = mendRights
	case l.Fatal:
		l.Mend = "aws configure sso, or name a profile: tradewind cloud add aws --profile NAME"
	}
	return l
}
