// Package check reports what an AWS account may do: its identity, regions, quotas and missing rights.
package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/aws"
	"github.com/tradewind-broker/tradewind/pkg/cloud/aws/refresh"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver/renew"
)

// Checker checks an account.
type Checker struct {
	SDK     awssdk.Config
	Cloud   *aws.Cloud
	Regions []string
	// Deployment is the tag value of the deployment's networks.
	Deployment string
}

// Check implements driver.Checker.
func (c *Checker) Check(ctx context.Context) (driver.Report, error) {
	var r driver.Report
	who, err := sts.NewFromConfig(c.SDK).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		r.Missing = append(r.Missing, lack(err))
		return r, ctx.Err()
	}
	r.Identity, r.Account = awssdk.ToString(who.Arn), awssdk.ToString(who.Account)
	if r.Regions, err = c.Cloud.Regions(ctx); err != nil {
		r.Missing = append(r.Missing, lack(err))
		return r, ctx.Err()
	}
	for _, region := range c.Regions {
		if !slices.Contains(r.Regions, region) {
			r.Missing = append(r.Missing, driver.Lack{What: "region " + region + " is not enabled for this account",
				Mend: "aws account enable-region --region-name " + region})
		}
	}
	known, err := catalog.Default() // for the types of each family
	if err != nil {
		return r, err
	}
	for _, region := range r.Regions {
		if err := c.network(ctx, region); errors.Is(err, errNoNetwork) {
			r.Missing = append(r.Missing, driver.Lack{What: region + ": " + err.Error(),
				Mend: "aws ec2 create-default-vpc --region " +
					region + ", or tag one: tradewind:deployment=" + c.Deployment})
		} else if err != nil {
			r.Missing = append(r.Missing, lack(err))
		}
		quotas, err := c.quotasOf(ctx, region)
		if err != nil { // buying does not need the quotas
			l := lack(err)
			l.Fatal, l.What = false, fmt.Sprintf("the quotas of %s are unknown: %s", region, l.What)
			r.Missing = append(r.Missing, l)
		}
		r.Quotas = append(r.Quotas, quotas...)
		reserved, err := refresh.Reserved(ctx, c.Cloud, region, known)
		if err != nil { // then the broker does not use it
			r.Missing = append(r.Missing, unknown("what the account has reserved in "+region, r.Identity, err,
				"ec2:DescribeCapacityReservations", "ec2:DescribeReservedInstances", "ec2:DescribeInstances",
				"ec2:DescribeAvailabilityZones"))
		}
		r.Reserved = append(r.Reserved, renew.Reported(reserved)...)
	}
	plans, err := refresh.Committed(ctx, c.Cloud, r.Regions, time.Now())
	if err != nil {
		r.Missing = append(r.Missing, unknown("what the account has committed itself to pay", r.Identity, err,
			"savingsplans:DescribeSavingsPlans", "savingsplans:DescribeSavingsPlanRates",
			"ec2:DescribeCapacityReservations", "ec2:DescribeReservedInstances", "ec2:DescribeInstances"))
	}
	r.Reserved = append(r.Reserved, renew.Reported(plans)...)
	return r, ctx.Err()
}

// unknown reports something that could not be read, for lack of rights or of an answer. The broker does not use it
// then, and buys machines instead.
func unknown(what, identity string, err error, rights ...string) driver.Lack {
	l := lack(err)
	if l.Mend == mendRights {
		l.Mend = grant(identity, rights)
	}
	l.Fatal, l.What = false, what+" is unknown: "+l.What
	return l
}

// grant returns the command that gives a user or a role rights. In the identity, the last part is the name of an IAM
// user; the name of a role is before the session's name.
func grant(identity string, rights []string) string {
	_, name, _ := strings.Cut(identity, "/")
	put := "put-user-policy --user-name " + cmp.Or(name[strings.LastIndexByte(name, '/')+1:], "NAME")
	if strings.Contains(identity, ":assumed-role/") {
		role, _, _ := strings.Cut(name, "/")
		put = "put-role-policy --role-name " + role
	}
	return "aws iam " + put + ` --policy-name tradewind-reserved --policy-document '{"Version":"2012-10-17",` +
		`"Statement":[{"Effect":"Allow","Resource":"*","Action":["` + strings.Join(rights, `","`) + `"]}]}'`
}

// mendRights is the advice if rights for buying are missing.
const mendRights = "give the user or role the rights that docs/clouds.md lists for AWS"

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

// quotasOf returns a region's quotas, sorted by name.
func (c *Checker) quotasOf(ctx context.Context, region string) (all []driver.Quota, err error) {
	limits, err := refresh.Quotas(ctx, c.Cloud.SDK(region))
	for _, class := range slices.Sorted(maps.Keys(limits)) {
		l := limits[class]
		for name, limit := range map[string]float64{"on-demand": l.OnDemand, "spot": l.Spot} {
			if limit >= 0 {
				all = append(all, driver.Quota{Name: class + " vCPUs " + name, Region: region, Limit: limit})
			}
		}
	}
	slices.SortFunc(all, func(a, b driver.Quota) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// lack converts a refusal to a report with advice.
func lack(err error) driver.Lack {
	l := driver.Lack{What: err.Error()}
	var e *cloud.Error
	if !errors.As(aws.Typed(err), &e) {
		return l
	}
	l.Fatal = e.Kind == cloud.Auth
	switch {
	case e.Code == "RequestExpired", strings.Contains(e.Message, "Signature not yet current"),
		strings.Contains(e.Message, "Signature expired"):
		l.Mend = "set this computer's clock: sudo timedatectl set-ntp true"
	case strings.HasPrefix(e.Code, "ExpiredToken"):
		l.Mend = "aws sso login, or log in again where the credentials came from"
	case e.Code == "UnauthorizedOperation", strings.HasPrefix(e.Code, "AccessDenied"):
		l.Mend = mendRights
	case l.Fatal:
		l.Mend = "aws configure sso, or name a profile: tradewind cloud add aws --profile NAME"
	}
	return l
}
