// Package gcpkit opens Google Cloud.
package gcpkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/impersonate"
	"google.golang.org/api/option"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/grant/gcsgrant"
	"github.com/tradewind-broker/tradewind/internal/identity"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Name is the catalogue's name of the cloud.
const Name = identity.GoogleName

// Kit returns the kit of Google Cloud.
func Kit() cloudkit.Kit {
	return cloudkit.Kit{Name: Name, Title: "Google Cloud",
		Example: "--project my-project --member user:ada@example.com --regions us-central1",
		Ready:   ready, Account: account, Open: open, Flags: flags, Services: services}
}

func flags(f *pflag.FlagSet, s *cloudkit.Settings) {
	cloudkit.NetworkFlags(f, s)
	cloudkit.ReservedFlag(f, s)
	f.StringVar(&s.DAGs, "dags", "",
		"gs://BUCKET/FOLDER whose files become jobs: the bucket and its notifications are created")
	f.StringVar(&s.Pull, "pull", "",
		"Pub/Sub subscription that the broker pulls (default with --dags: one is created)")
	f.StringVar(&s.PushURL, "push-url", "",
		"URL of the broker, for Pub/Sub to push instead: its public URL, or the API's")
	f.StringVar(&s.PushAccount, "push-account", "",
		"service account as which Pub/Sub pushes (default with --push-url: one is created)")
	f.BoolVar(&s.TPUs, "tpus", false, "buy TPUs too: the command enables tpu.googleapis.com and grants the rights")
	f.StringVar(&s.Project, "project", "", "ID of the Google Cloud project")
	f.StringVar(&s.ServiceAccount, "service-account", "",
		"service account without any role, with which machines prove their identity")
	f.StringVar(&s.Member, "member", "",
		"account that buys, user:ADDRESS or serviceAccount:ADDRESS: a network, a role and a\n"+
			"service account are created for it")
	cloudkit.FunctionFlags(f, s)
	cloudkit.EmulatorFlags(f, s)
	f.StringVar(&s.Network, "network", "", "network of the machines (default: the project's default network)")
	f.StringToStringVar(&s.Stores, "stores", nil,
		"buckets for the outputs of tasks, REGION=BUCKET separated by commas: created if they do\n"+
			"not exist; without any, outputs are stored on this computer")
	f.StringVar(&s.Impersonate, "impersonate", "",
		"service account that reads and writes the stores, for which you may sign")
	cloudkit.ServicesFlag(f, s, "dataproc", "dataproc-serverless")
	f.StringVar(&s.SparkAccount, "spark-account", "",
		"service account of the machines and batches of Dataproc, which reads code and inputs,\n"+
			"and writes outputs and logs (default: one is created)")
	f.StringVar(&s.Subnetwork, "subnetwork", "", "subnetwork of the machines")
}

var errNoNotifications = errors.New("the broker would get no notifications of the files of --dags: give the account " +
	"that buys with --member, or an existing subscription with --pull")

var errNoServiceRegions = errors.New("services are bought in named regions: give --regions")

var errNoProject = errors.New("no project: tradewind cloud add gcp --project PROJECT")

func ready(s cloudkit.Settings, _ cloudkit.Lookup) error {
	if s.Project == "" {
		return errNoProject
	}
	if s.DAGs != "" && s.Member == "" && s.Functions.Account == "" && s.Pull == "" && s.PushAccount == "" {
		return errNoNotifications
	}
	if len(s.Services) > 0 && len(s.Regions) == 0 {
		return errNoServiceRegions
	}
	return errors.Join(s.Check(), s.CheckServices(Name))
}

func account(s cloudkit.Settings, _ cloudkit.Lookup) string {
	if s.Project == "" {
		return ""
	}
	return "project " + s.Project
}

func open(ctx context.Context, r cloudkit.Request) (*cloudkit.Opened, error) {
	s := r.Settings
	if err := ready(s, r.Lookup); err != nil {
		return nil, err
	}
	client, err := Access(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("gcp: credentials: %w", err)
	}
	c := gcp.New(gcp.Config{
		Deployment: r.Deployment, Project: s.Project, Regions: s.Regions, Agents: r.Agents, Network: s.Network,
		Subnetwork: s.Subnetwork, NoPublicAddress: s.NoPublicAddress, ServiceAccount: s.ServiceAccount,
		Graves: r.Graves, Log: r.Log, Endpoint: s.Endpoint, Client: client, TPUs: s.TPUs,
		Environment: s.Environment(), Labels: s.Tags, Images: s.Images,
	})
	proofs, err := verifier(s, r.PublicURL)
	if err != nil {
		return nil, err
	}
	data, err := store(ctx, s)
	if err != nil {
		return nil, err
	}
	secrets, err := secrets(s)
	if err != nil {
		return nil, err
	}
	pushes, err := pushed(c, s, r.PublicURL)
	if err != nil {
		return nil, err
	}
	return &cloudkit.Opened{
		Cloud: c, Checker: renew.WithOwned(c, owned(c)), Verifier: proofs, Data: data, Regions: s.Regions,
		Refresh: cloudkit.Reserving(gcp.Name, s, refresher(c, r)),
		Pushed:  pushes, Pull: pulling(c, s, r.Log), Files: filesOf(c, s), Secrets: secrets, Announcer: announcer{s},
	}, nil
}

var errNoSigner = errors.New("gcp: stores= needs impersonate=ACCOUNT, a service account that may read and write " +
	"their objects, and for which you may sign (role Service Account Token Creator)")

// store returns the store of the buckets in the settings, or nil if there are none. The IAM API signs its requests as
// the service account Impersonate, so that account needs no private key.
func store(ctx context.Context, s cloudkit.Settings) (grant.Store, error) {
	locations := map[string]string{}
	for region, bucket := range s.Stores {
		locations[bucket] = region
	}
	switch {
	case len(s.Stores) == 0:
		return nil, nil //nolint:nilnil // there are no stores
	case s.Impersonate == "":
		return nil, errNoSigner
	case cloudkit.Loopback(s.Storage): // an emulator, which signs for everybody
		return gcsgrant.New(gcsgrant.Options{
			Account: s.Impersonate, Endpoint: s.Storage, Project: s.Project, Locations: locations,
			Sign: gcsgrant.ByIAM(http.DefaultClient, s.Storage, s.Impersonate),
		})
	}
	tokens, err := tokens(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("gcp: credentials: %w", err)
	}
	client := clientOf(ctx, s, tokens)
	lent, err := accountTokens(ctx, s, tokens, client)
	if err != nil {
		return nil, fmt.Errorf("gcp: tokens of %s: %w", s.Impersonate, err)
	}
	return gcsgrant.New(gcsgrant.Options{
		Account: s.Impersonate, Sign: gcsgrant.ByIAM(client, "", s.Impersonate), Token: lent, Project: s.Project,
		Locations: locations,
	})
}

var errNoCredentials = errors.New("there are none: gcloud auth application-default login")

// tokens returns the caller's credentials: those of a trusted AWS role if the settings have a provider, else those of
// the environment.
func tokens(ctx context.Context, s cloudkit.Settings) (oauth2.TokenSource, error) {
	if s.Provider == "" {
		source, err := google.DefaultTokenSource(context.WithoutCancel(ctx), scope)
		if err != nil && strings.Contains(err.Error(), "could not find default credentials") {
			return nil, errNoCredentials
		}
		return source, err
	}
	body, err := federated(s)
	if err != nil {
		return nil, err
	}
	creds, err := google.CredentialsFromJSONWithType(context.WithoutCancel(ctx), body, google.ExternalAccount, scope)
	if err != nil {
		return nil, err
	}
	return creds.TokenSource, nil
}

// owned reads the capacity that the project already has.
func owned(c *gcp.Cloud) renew.Owned {
	return func(ctx context.Context) ([]driver.Reserved, []driver.Lack) { return gcp.Owned(ctx, c) }
}

// refresher updates Google's part of the catalogue.
func refresher(c *gcp.Cloud, r cloudkit.Request) driver.Refresh {
	return func(ctx context.Context, s driver.Snapshots) (driver.Refreshed, error) {
		last, shipped, err := renew.Last(ctx, s, nil)
		if err != nil {
			return driver.Refreshed{}, err
		}
		one := gcp.Refresher{Cloud: c, Log: r.Log}
		next, res, err := one.Refresh(ctx, shipped, last)
		if err != nil {
			return driver.Refreshed{}, err
		}
		return driver.Refreshed{Offers: res.Offers, Kept: res.Kept}, renew.Save(ctx, s, next)
	}
}

// verifier checks the identity proofs of machines; nil if they have no service account and therefore no proof.
func verifier(s cloudkit.Settings, audience string) (identity.Verifier, error) {
	if s.ServiceAccount == "" || audience == "" {
		return nil, nil //nolint:nilnil // there is no verifier
	}
	return identity.NewGoogle(identity.GoogleConfig{Audience: audience, Keys: s.Proofs})
}

// Access returns the client options for those of a trusted AWS role, or none for those of the environment. An
// emulator at a loopback address needs no credentials.
func Access(ctx context.Context, s cloudkit.Settings) ([]option.ClientOption, error) {
	switch {
	case s.Provider != "":
		known, err := tokens(ctx, s)
		if err != nil {
			return nil, err
		}
		return []option.ClientOption{option.WithTokenSource(known)}, nil
	case cloudkit.Loopback(s.Endpoint):
		return []option.ClientOption{option.WithHTTPClient(&http.Client{})}, nil
	default:
		if project := quotaProject(ctx, s); project != "" {
			return []option.ClientOption{option.WithQuotaProject(project)}, nil
		}
		return nil, nil
	}
}

// quotaProject returns the project to which calls must be charged explicitly: that of the settings for the credentials
// of a user that name none, otherwise none. Calls with other credentials are charged to the project of their account
// (Google Cloud documentation, "Set the quota project").
func quotaProject(ctx context.Context, s cloudkit.Settings) string {
	if s.Provider != "" || os.Getenv("GOOGLE_CLOUD_QUOTA_PROJECT") != "" {
		return ""
	}
	found, err := google.FindDefaultCredentials(context.WithoutCancel(ctx), scope)
	if err != nil {
		return "" // the driver reports it
	}
	var file struct {
		Type    string `json:"type"`
		Project string `json:"quota_project_id"`
	}
	if json.Unmarshal(found.JSON, &file) != nil || file.Type != string(google.AuthorizedUser) || file.Project != "" {
		return ""
	}
	return s.Project
}

// accountTokens returns the tokens of the settings' impersonated account, from which lent ones are derived: the
// caller's own may do more or less, and a user's cannot be limited (IAM Service Account Credentials API,
// projects.serviceAccounts.generateAccessToken). Tokens of a provider are already those of the account.
func accountTokens(ctx context.Context, s cloudkit.Settings, known oauth2.TokenSource,
	client *http.Client) (oauth2.TokenSource, error) {
	if s.Provider != "" {
		return known, nil
	}
	return impersonate.CredentialsTokenSource(context.WithoutCancel(ctx), impersonate.CredentialsConfig{
		TargetPrincipal: s.Impersonate, Scopes: []string{scope},
	}, option.WithHTTPClient(client))
}

// clientOf returns a client with the caller's credentials for services without a library.
func clientOf(ctx context.Context, s cloudkit.Settings, known oauth2.TokenSource) *http.Client {
	c := oauth2.NewClient(context.WithoutCancel(ctx), known) // it outlives this call
	if project := quotaProject(ctx, s); project != "" {
		c.Transport = charged{project, c.Transport}
	}
	return c
}

// charged charges requests to a project.
type charged struct {
	project string
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c charged) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Goog-User-Project", c.project)
	return c.next.RoundTrip(r)
}

const scope = "https://www.googleapis.com/auth/cloud-platform"

// federated returns the configuration with which Google's libraries exchange the AWS role's credentials, which they
// find in the environment, for those of a service account (Google Cloud, "Configure Workload Identity Federation with
// AWS"). It contains no secret.
func federated(s cloudkit.Settings) ([]byte, error) {
	c := map[string]any{ //nolint:gosec // describes where to exchange credentials; contains none
		"type": "external_account", "audience": "//iam.googleapis.com/" + s.Provider,
		"subject_token_type": "urn:ietf:params:aws:token-type:aws4_request",
		"token_url":          "https://sts.googleapis.com/v1/token",
		"credential_source": map[string]string{
			"environment_id": "aws1",
			"regional_cred_verification_url": "https://sts.{region}.amazonaws.com" +
				"?Action=GetCallerIdentity&Version=2011-06-15",
		},
	}
	if s.Impersonate != "" {
		const accounts = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/"
		c["service_account_impersonation_url"] = accounts + s.Impersonate + ":generateAccessToken"
	}
	return json.Marshal(c)
}
