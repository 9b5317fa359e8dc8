package kits

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tradewind-broker/tradewind/internal/cloud/aws/roles"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/emr"
	"github.com/tradewind-broker/tradewind/internal/cloud/emrserverless"
	gcpsetup "github.com/tradewind-broker/tradewind/internal/cloud/gcp/setup"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/awskit"
)

// settleAWS is the time for which a new role may be unknown to other services of AWS (IAM User Guide, "Changes that I
// make are not always immediately visible").
const settleAWS = 10 * time.Second

// rolesOnAWS are the roles of EMR and EMR Serverless.
type rolesOnAWS struct {
	settings cloudkit.Settings
	roles    *roles.Roles
}

func awsRoles(ctx context.Context, r cloudkit.Request) (cloudkit.Roles, error) {
	s := r.Settings
	sdk, regions, err := awskit.Access(ctx, s)
	if err != nil {
		return nil, err
	}
	cfg := roles.Config{
		Deployment: r.Deployment, EMR: slices.Contains(s.Services, emr.Name),
		Serverless:  slices.Contains(s.Services, emrserverless.Name),
		ServiceRole: s.EMRRole, InstanceProfile: s.EMRProfile, JobRole: s.JobRole, Regions: regions,
		Buckets: slices.Sorted(maps.Values(s.Stores)), Tags: s.Tags, Settle: settleAWS,
	}
	if cloudkit.Loopback(awssdk.ToString(sdk.BaseEndpoint)) { // an emulator settles at once
		cfg.Settle = 0
	}
	return rolesOnAWS{s, roles.New(sdk, cfg)}, nil
}

// Print implements cloudkit.Setup.
func (a rolesOnAWS) Print(w io.Writer) error { return lines(w, a.roles.Print()) }

// Make implements cloudkit.Setup.
func (a rolesOnAWS) Make(ctx context.Context, tell func(string)) (cloudkit.Settings, error) {
	s := a.settings
	if err := a.roles.Add(ctx, func(step string, made bool) { tell(done(step, made)) }); err != nil {
		return s, fmt.Errorf("%w (`tradewind cloud add aws --print` prints the commands; --emr-role, --emr-profile "+
			"and --job-role name existing roles)", err)
	}
	s.EMRRole, s.EMRProfile, s.JobRole = a.roles.Settings()
	return s, nil
}

// Remove implements cloudkit.Setup.
func (a rolesOnAWS) Remove(ctx context.Context, tell func(string)) error {
	return a.roles.Remove(ctx, func(step string) { tell(removed(step, "")) })
}

// Missing implements cloudkit.Roles.
func (a rolesOnAWS) Missing(ctx context.Context) []driver.Lack {
	return a.roles.Missing(ctx, "tradewind cloud add aws --services "+strings.Join(a.settings.Services, ","))
}

// rolesOnGoogle are the API, the account and the roles of Dataproc.
type rolesOnGoogle struct {
	settings cloudkit.Settings
	setup    *gcpsetup.Setup
}

func googleRoles(ctx context.Context, r cloudkit.Request) (cloudkit.Roles, error) {
	s := r.Settings
	r.Settings.Stores = nil // roles need no signatures, for which the kit would look for credentials
	if s.Functions.Account != "" {
		r.Settings.Provider, r.Settings.Impersonate = "", "" // the user creates them, not the functions
	}
	cloud, err := googleDriver(ctx, r)
	if err != nil {
		return nil, err
	}
	cfg := gcpsetup.Config{
		Deployment: r.Deployment, Project: s.Project, Member: s.Member, Cloud: cloud, Spark: true,
		SparkAccount: s.SparkAccount,
	}
	setup, err := gcpsetup.New(cfg)
	if err == nil && s.Functions.Account != "" { // the functions act as the account that buys machines
		cfg.Member = "serviceAccount:" + setup.BrokerAccount()
		setup, err = gcpsetup.New(cfg)
	}
	return rolesOnGoogle{s, setup}, err
}

// Print implements cloudkit.Setup.
func (g rolesOnGoogle) Print(w io.Writer) error { return lines(w, g.setup.Print()) }

// Make implements cloudkit.Setup.
func (g rolesOnGoogle) Make(ctx context.Context, tell func(string)) (cloudkit.Settings, error) {
	s := g.settings
	if err := g.setup.Add(ctx, func(c gcpsetup.Change) { tell(done(c.Step, c.Made)) }); err != nil {
		return s, fmt.Errorf("%w (`tradewind cloud add gcp --print` prints the commands; --spark-account names an "+
			"existing account)", err)
	}
	s.SparkAccount = g.setup.SparkAccount()
	return s, nil
}

// Remove implements cloudkit.Setup.
func (g rolesOnGoogle) Remove(ctx context.Context, tell func(string)) error {
	return g.setup.Remove(ctx, func(c gcpsetup.Change) {
		if c.Made || c.Stays != "" {
			tell(removed(c.Step, c.Stays))
		}
	})
}

// Missing implements cloudkit.Roles.
func (g rolesOnGoogle) Missing(ctx context.Context) []driver.Lack { return g.setup.Missing(ctx) }
