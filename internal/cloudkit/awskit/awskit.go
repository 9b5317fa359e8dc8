// Package awskit opens AWS from outside AWS, with the credentials that the AWS SDK finds: a profile, SSO, a role, or
// the environment.
package awskit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/aws/smithy-go/logging"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/spf13/pflag"

	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/internal/cloud/aws/refresh"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/grant/ambient"
	"github.com/tradewind-broker/tradewind/internal/grant/s3grant"
	"github.com/tradewind-broker/tradewind/internal/identity"
	"github.com/tradewind-broker/tradewind/internal/notify"
	"github.com/tradewind-broker/tradewind/internal/notify/ses"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Kit returns the kit of AWS.
func Kit() cloudkit.Kit {
	return cloudkit.Kit{
		Name: aws.Name, Title: "Amazon Web Services",
		Example: "--regions us-east-1",
		Account: account, Open: open, Flags: flags,
		Ready: func(s cloudkit.Settings, _ cloudkit.Lookup) error {
			_, err := verifier(s)
			if s.MailFrom != "" {
				err = errors.Join(err, dag.CheckAddress(s.MailFrom))
			}
			return errors.Join(s.Check(), s.CheckServices(aws.Name), err)
		},
	}
}

func flags(f *pflag.FlagSet, s *cloudkit.Settings) {
	cloudkit.NetworkFlags(f, s)
	cloudkit.ReservedFlag(f, s)
	f.StringVar(&s.InstanceProfile, "instance-profile", "",
		"instance profile of the machines, for the use of their tasks (default: none)")
	f.StringToStringVar(&s.Stores, "stores", nil,
		"buckets for the outputs of tasks, REGION=BUCKET separated by commas: created if they do\n"+
			"not exist; without any, outputs are stored on this computer")
	f.StringVar(&s.Profile, "profile", "",
		"profile of the AWS configuration (default: the AWS SDK's default credentials)")
	f.StringVar(&s.MailFrom, "mail-from", "",
		"sender of e-mail that jobs ask for, verified in Amazon SES (default: send none)")
	cloudkit.ServicesFlag(f, s, "emr", "emr-serverless")
	f.StringVar(&s.EMRRole, "emr-role", "", "service role of EMR (default: one is created)")
	f.StringVar(&s.EMRProfile, "emr-profile", "",
		"instance profile of EMR's machines, which reads code and inputs, and writes outputs\n"+
			"and logs (default: one is created)")
	f.StringVar(&s.JobRole, "job-role", "",
		"ARN of the role of EMR Serverless's job runs, with the same rights (default: one is\ncreated)")
	f.StringVar(&s.Certificates, "certificates", "",
		"file with the certificates that verify machines (default: those that\nAWS publishes)")
}

func account(s cloudkit.Settings, lookup cloudkit.Lookup) string {
	profile := s.Profile
	if profile == "" {
		profile = lookup("AWS_PROFILE")
	}
	if profile == "" {
		return "the SDK's default credentials"
	}
	return "profile " + profile
}

// defaultRegion is the home region for a profile without a region. EC2 itself has the same default.
const defaultRegion = "us-east-1"

// Access returns the configuration with the credentials of the settings, and the regions to buy in.
func Access(ctx context.Context, s cloudkit.Settings) (sdk awssdk.Config, regions []string, err error) {
	options := []func(*config.LoadOptions) error{config.WithAppID("tradewind"), config.WithLogger(logging.Nop{})}
	if s.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(s.Profile))
	}
	if sdk, err = config.LoadDefaultConfig(ctx, options...); err != nil {
		return sdk, nil, fmt.Errorf("aws: %w", err)
	}
	if sdk.Region == "" {
		sdk.Region = defaultRegion
	}
	if regions = s.Regions; len(regions) == 0 {
		regions = []string{sdk.Region}
	}
	return sdk, regions, nil
}

func open(ctx context.Context, r cloudkit.Request) (*cloudkit.Opened, error) {
	sdk, regions, err := Access(ctx, r.Settings)
	if err != nil {
		return nil, err
	}
	proofs, err := verifier(r.Settings)
	if err != nil {
		return nil, err
	}
	c := aws.New(sdk, aws.Config{
		Deployment: r.Deployment, Home: home(sdk, regions), Regions: regions, Agents: r.Agents, Graves: r.Graves,
		Log: r.Log, Environment: r.Settings.Environment(), Tags: r.Settings.Tags, Images: r.Settings.Images,
		InstanceProfile: r.Settings.InstanceProfile, NoPublicAddress: r.Settings.NoPublicAddress,
	})
	var mail notify.Mailer
	if r.Settings.MailFrom != "" {
		mail = ses.New(sdk, r.Settings.MailFrom)
	}
	return &cloudkit.Opened{
		Mail:  mail,
		Cloud: c, Data: store(sdk, r.Settings), Checker: &refresh.Checker{SDK: sdk, Cloud: c, Regions: regions,
			Deployment: r.Deployment, Buys: true}, Verifier: proofs, Regions: regions,
		Refresh: cloudkit.Reserving(aws.Name, r.Settings,
			func(ctx context.Context, s driver.Snapshots) (driver.Refreshed, error) {
				one := refresh.Refresher{Cloud: c, Snapshots: s, Now: time.Now, Log: r.Log}
				res, err := one.Refresh(ctx)
				return driver.Refreshed{Offers: res.Offers, Kept: res.Kept}, err
			}),
		Prices: func(waiting func(context.Context) ([]string, error)) cloudkit.Prices {
			return prices{aws.NewSpotPrices(c, c.Watching(waiting), time.Now)}
		},
	}, nil
}

// store signs requests for the settings' buckets with the credentials that buy.
func store(sdk awssdk.Config, s cloudkit.Settings) grant.Store {
	if len(s.Stores) == 0 {
		return nil
	}
	clients := grant.Mux{}
	for region, bucket := range s.Stores {
		there := sdk.Copy()
		there.Region = region
		clients["s3://"+bucket] = s3grant.New(s3.NewFromConfig(there, func(o *s3.Options) {
			o.UsePathStyle = o.BaseEndpoint != nil // an emulator has no host for each bucket
		}), s3grant.Options{Loans: s3grant.Loans{
			STS: sts.NewFromConfig(there), Role: os.Getenv(ambient.EnvMountsRole),
		}})
	}
	return clients
}

// prices reads EC2's spot prices.
type prices struct{ of *aws.SpotPrices }

// SpotPrices implements cloudkit.Prices.
func (p prices) SpotPrices(ctx context.Context) (out []cloudkit.Price, err error) {
	ticks, err := p.of.SpotPrices(ctx)
	for _, t := range ticks {
		out = append(out, cloudkit.Price(t))
	}
	return out, err
}

// home returns the region that calls about all regions go to: the credentials' region if machines are bought there,
// else the first of the regions.
func home(sdk awssdk.Config, regions []string) string {
	for _, r := range regions {
		if r == sdk.Region {
			return r
		}
	}
	return regions[0]
}

func verifier(s cloudkit.Settings) (*identity.AWSVerifier, error) {
	var pem []byte
	if s.Certificates != "" {
		var err error
		if pem, err = os.ReadFile(s.Certificates); err != nil {
			return nil, fmt.Errorf("certificates: %w", err)
		}
	}
	return identity.NewAWS(string(pem))
}
