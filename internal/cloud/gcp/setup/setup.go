// Package setup creates the resources that are needed to buy on Google Cloud, for `tradewind cloud add gcp`: enabled
// services; a network whose machines reach each other and which admits no other traffic; a service account without
// roles with which machines prove their identity; a role with the permissions that the driver uses, and its binding
// to the buyer; and, for functions on AWS, federation that trusts their roles, so that no key exists anywhere.
//
// Each step checks first and creates only missing resources, so running it again changes nothing. A step can also be
// printed as a gcloud command. Removal is refused while machines run. Services stay enabled, because others may need
// them, and because they may have been enabled before. Remove reports them with the command that disables each.
package setup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	crm "google.golang.org/api/cloudresourcemanager/v3"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iam/v1"
	"google.golang.org/api/logging/v2"
	"google.golang.org/api/pubsub/v1"
	"google.golang.org/api/serviceusage/v1"
	"google.golang.org/api/storage/v1"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/pkg/cloud"

	"github.com/tradewind-broker/tradewind/internal/base/lazyregexp"
)

// Errors of a Setup, wrapped with detail.
var (
	// ErrRunning means that machines of the deployment exist.
	ErrRunning = errors.New("machines are running")
	// ErrConfig means that the configuration is invalid.
	ErrConfig = errors.New("setup of Google Cloud")
)

// Config describes what to create.
type Config struct {
	Deployment string // part of all names; at most 20 small letters, digits and dashes
	Project    string
	// Member is the buyer: user:…, serviceAccount:…. With AWSAccount it is empty, and an account is created for the
	// buyer.
	Member string
	// AWSAccount and AWSRoles are the account of the functions that buy, and the names of their roles.
	AWSAccount string
	AWSRoles   []string
	TPUs       bool
	// Network is the network of the machines, and ServiceAccount the address of the account with which they prove
	// their identity. If they are set, they are used and not created.
	Network, ServiceAccount string
	// DAGs is the place of job files, gs://BUCKET/FOLDER; empty means none. A new bucket is created in Location;
	// empty means Google's default. Its notifications are pushed to the broker at PushURL, with PushAccount or else
	// an account that is created. Without a PushURL they are pulled.
	DAGs, Location       string
	PushURL, PushAccount string
	// Spark creates the resources that Dataproc needs, instead of those that machines need. It works without a
	// Member, too; then the buyer's rights are omitted. SparkAccount is the address of the service account of
	// Dataproc's machines and batches. If it is set, that account is used, and none is created.
	Spark        bool
	SparkAccount string
	// Cloud is the driver of the deployment: it provides the options of clients, and lists machines.
	Cloud *gcp.Cloud
}

// Change is the result of a step.
type Change struct {
	Step string // the step's name
	Made bool   // false if nothing had to be done
	// Stays is the reason why Remove leaves the resource, and the gcloud command with which the user can continue. It
	// is empty if the resource was removed.
	Stays string
}

// Setup creates, prints and removes the resources.
type Setup struct {
	cfg    Config
	number string // the project's number, once it is known
	// changed means that this run has created a resource, which may not be known everywhere yet.
	changed bool

	compute *compute.Service
	iam     *iam.Service
	crm     *crm.Service
	usage   *serviceusage.Service
	pubsub  *pubsub.Service
	storage *storage.Service
	logging *logging.Service

	bucket, prefix string // place of the files that become jobs
	agent          string // address of the Cloud Storage service agent, once it is known
}

// step is one resource that is to exist.
type step struct {
	name    string
	command string // gcloud command
	look    func(context.Context) (bool, error)
	make    func(context.Context) error
	undo    string
	remove  func(context.Context) error // nil if it is not removed
	stays   string                      // reason for which it is not removed, and the gcloud command that removes it
}

var (
	validDeployment = lazyregexp.New(`^[a-z][a-z0-9-]{0,18}[a-z0-9]$`)
	validAccount    = lazyregexp.New(`^[0-9]{12}$`)
	validRole       = lazyregexp.New(`^[A-Za-z0-9+=,.@_-]{1,64}$`)
	validMember     = lazyregexp.New(`^(user|serviceAccount|group|principal|principalSet):[^\s'"]+$`)
)

// New makes a Setup. It makes no calls, and fails with ErrConfig.
func New(cfg Config) (*Setup, error) {
	bad := func(format string, args ...any) (*Setup, error) {
		return nil, fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...))
	}
	federated := cfg.AWSAccount != ""
	switch {
	case !validDeployment.MatchString(cfg.Deployment):
		return bad("a deployment's name has at most 20 small letters, digits and dashes here, not %q", cfg.Deployment)
	case cfg.Project == "" || cfg.Cloud == nil:
		return bad("the project is missing")
	case federated == (cfg.Member != "") && !cfg.Spark:
		return bad("name either the buyer or the AWS account whose functions buy")
	case !federated && (!cfg.Spark || cfg.Member != "") && !validMember.MatchString(cfg.Member):
		return bad("the buyer must be user:ADDRESS or serviceAccount:ADDRESS, not %q", cfg.Member)
	case federated && (!validAccount.MatchString(cfg.AWSAccount) || len(cfg.AWSRoles) == 0):
		return bad(
			"an AWS account has twelve digits and at least one role that buys, not %q with %d roles",
			cfg.AWSAccount,
			len(cfg.AWSRoles),
		)
	}
	for _, r := range cfg.AWSRoles {
		if !validRole.MatchString(r) {
			return bad("%q is not a name of an AWS role", r)
		}
	}
	s := &Setup{cfg: cfg}
	if err := s.readPlace(); err != nil {
		return bad("%v", err)
	}
	for named, made := range map[*string]string{ // settings also contain the names of created resources
		&s.cfg.PushAccount:    s.address(cfg.Deployment + "-push"),
		&s.cfg.Network:        "tradewind-" + cfg.Deployment,
		&s.cfg.ServiceAccount: s.address(cfg.Deployment + "-machines"),
		&s.cfg.SparkAccount:   s.address(cfg.Deployment + "-spark"),
	} {
		if *named == made {
			*named = ""
		}
	}
	return s, nil
}

// Network returns the machines' network: the configured one, or the one that is created.
func (s *Setup) Network() string { return cmp.Or(s.cfg.Network, "tradewind-"+s.cfg.Deployment) }

// MachinesAccount returns the address of the machines' service account.
func (s *Setup) MachinesAccount() string {
	return cmp.Or(s.cfg.ServiceAccount, s.address(s.cfg.Deployment+"-machines"))
}

func (s *Setup) address(id string) string {
	return id + "@" + s.cfg.Project + ".iam.gserviceaccount.com"
}

// Provider returns the name of the identity provider that trusts the roles of functions on AWS. It is known after Add.
func (s *Setup) Provider() string { return s.providerName() }

// BrokerAccount returns the address of the account that buys for functions on AWS.
func (s *Setup) BrokerAccount() string { return s.address(s.cfg.Deployment + "-broker") }

func (s *Setup) member() string {
	if s.cfg.Member != "" {
		return s.cfg.Member
	}
	return "serviceAccount:" + s.BrokerAccount()
}

func (s *Setup) role() string {
	return "projects/" + s.cfg.Project + "/roles/tradewind_" + strings.ReplaceAll(s.cfg.Deployment, "-", "_")
}

// permissions returns the permissions of the role.
func (s *Setup) permissions() []string {
	all := slices.Concat(gcp.Permissions(), gcp.QuotaPermissions(), gcp.ReservedPermissions(),
		gcp.ImagePermissions())
	if s.cfg.TPUs {
		all = append(all, gcp.TPUPermissions()...)
	}
	slices.Sort(all)
	return all
}

// Print returns the gcloud commands that create the same resources as Add in an empty project.
func (s *Setup) Print() []string {
	var lines []string
	for _, st := range s.steps(false) {
		lines = append(lines, st.command)
	}
	return lines
}

// PrintRemoval returns the gcloud commands that remove the same resources as Remove.
func (s *Setup) PrintRemoval() []string {
	var lines []string
	for _, st := range slices.Backward(s.steps(true)) {
		if st.undo != "" {
			lines = append(lines, st.undo)
		}
	}
	return lines
}

// Add creates the missing resources in order, and calls tell for each step. If a step fails, Add stops. The resources
// of earlier steps stay, and the next Add continues from there.
func (s *Setup) Add(ctx context.Context, tell func(Change)) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	first := []string{projectsService}
	if s.bucket != "" {
		first = append(first, storageService)
	}
	for _, name := range first { // read calls them
		if err := s.ensure(ctx, s.service(name), tell); err != nil {
			return err
		}
	}
	if err := s.read(ctx, retryWithin); err != nil {
		return err
	}
	for _, st := range s.steps(false) {
		if slices.ContainsFunc(first, func(name string) bool { return st.name == s.service(name).name }) {
			continue
		}
		if err := s.ensure(ctx, st, tell); err != nil {
			return err
		}
	}
	return nil
}

// ensure creates the resource of a step if it is missing. It retries as long as resources of earlier steps may not be
// known everywhere yet.
func (s *Setup) ensure(ctx context.Context, st step, tell func(Change)) error {
	until, made := time.Now().Add(retryWithin), false
	for {
		there, err := st.look(ctx)
		if err == nil && !there {
			made, err = true, st.make(ctx)
			s.changed = s.changed || err == nil
		}
		switch {
		case err == nil:
			tell(Change{Step: st.name, Made: made})
			return nil
		case time.Now().After(until), !isOff(err) && (!s.changed || !isUnsettled(err)):
			return fmt.Errorf("%s: %w", st.name, gcp.Typed(err))
		}
		if err := clock.Pause(ctx, settlePause); err != nil {
			return err
		}
	}
}

// isUnsettled reports whether the cause of err may be that a server does not know a new resource yet, an account for
// example (IAM documentation, "Access change propagation", "Create service accounts").
func isUnsettled(err error) bool {
	var answer *googleapi.Error
	return gcp.IsGone(err) || errors.As(err, &answer) &&
		(answer.Code == http.StatusBadRequest && strings.Contains(answer.Message, "does not exist") ||
			answer.Code == http.StatusForbidden && strings.Contains(answer.Message, "may not exist"))
}

// Remove removes the resources that Add has created, in reverse order. It calls tell for each, also for those that
// stay. It fails with ErrRunning while machines of the deployment exist.
func (s *Setup) Remove(ctx context.Context, tell func(Change)) error {
	machines, err := s.cfg.Cloud.Machines(ctx, "")
	if err != nil {
		return err
	}
	if n := len(slices.DeleteFunc(machines, func(m cloud.Machine) bool { return m.State == cloud.Terminated })); n > 0 {
		return fmt.Errorf("%w: %d of deployment %s", ErrRunning, n, s.cfg.Deployment)
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	if err := s.read(ctx, 0); err != nil {
		return err
	}
	for _, st := range slices.Backward(s.steps(true)) {
		if st.stays != "" {
			if there, err := st.look(ctx); there || err != nil { // if in doubt, it stays
				tell(Change{Step: st.name, Stays: st.stays})
			}
		}
		if st.remove == nil {
			continue
		}
		there, err := st.look(ctx)
		if err == nil && there {
			err = st.remove(ctx)
		}
		if err != nil && !gcp.IsGone(err) {
			return fmt.Errorf("%s: %w", st.name, gcp.Typed(err))
		}
		tell(Change{Step: st.name, Made: there})
	}
	return nil
}

// open makes the API clients.
func (s *Setup) open(ctx context.Context) (err error) {
	keep := context.WithoutCancel(ctx)
	options := s.cfg.Cloud.Options("/")
	if s.compute, err = s.cfg.Cloud.Compute(ctx); err != nil {
		return err
	}
	if s.iam, err = iam.NewService(keep, options...); err != nil {
		return err
	}
	if s.crm, err = crm.NewService(keep, options...); err != nil {
		return err
	}
	if s.usage, err = serviceusage.NewService(keep, options...); err != nil {
		return err
	}
	if s.pubsub, err = pubsub.NewService(keep, options...); err != nil {
		return err
	}
	if s.logging, err = logging.NewService(keep, options...); err != nil {
		return err
	}
	s.storage, err = storage.NewService(keep, s.cfg.Cloud.Options("/storage/v1/")...)
	return err
}

// read looks up the project's number and its Cloud Storage service agent. A service that was just enabled may refuse
// calls for a while, so read retries for the time patience.
func (s *Setup) read(ctx context.Context, patience time.Duration) error {
	var p *crm.Project
	err := retry(ctx, patience, func() (err error) {
		p, err = s.crm.Projects.Get("projects/" + s.cfg.Project).Context(ctx).Do()
		return err
	})
	if err != nil {
		return fmt.Errorf("project %s: %w", s.cfg.Project, gcp.Typed(err))
	}
	s.number = strings.TrimPrefix(p.Name, "projects/")
	if s.bucket == "" {
		return nil
	}
	var agent *storage.ServiceAccount
	err = retry(ctx, patience, func() (err error) {
		agent, err = s.storage.Projects.ServiceAccount.Get(s.cfg.Project).Context(ctx).Do()
		return err
	})
	if err != nil {
		return fmt.Errorf("the Cloud Storage service agent of %s: %w", s.cfg.Project, gcp.Typed(err))
	}
	s.agent = agent.EmailAddress
	return nil
}

// retry repeats a call that a service refuses because it is not enabled yet, for the time patience.
func retry(ctx context.Context, patience time.Duration, call func() error) error {
	err := call()
	for until := time.Now().Add(patience); isOff(err) && time.Now().Before(until); err = call() {
		if err := clock.Pause(ctx, settlePause); err != nil {
			return err
		}
	}
	return err
}

// isOff reports whether err means that a service is not enabled.
func isOff(err error) bool {
	var refused *cloud.Error
	return errors.As(gcp.Typed(err), &refused) && refused.Code == "SERVICE_DISABLED"
}

// Credentials returns the file that functions on AWS use instead of a key. It states where a request signed by AWS
// can be exchanged for a token, and contains no secret. It needs the project's number, which is known after Add.
func (s *Setup) Credentials() ([]byte, error) {
	if s.cfg.AWSAccount == "" || s.number == "" {
		return nil, fmt.Errorf("%w: there is no federation, or it has not been created yet", ErrConfig)
	}
	const asks = "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15"
	var file struct {
		Type     string `json:"type"`
		Audience string `json:"audience"`
		Kind     string `json:"subject_token_type"`
		URL      string `json:"token_url"`
		As       string `json:"service_account_impersonation_url"`
		Source   struct {
			ID  string `json:"environment_id"`
			URL string `json:"regional_cred_verification_url"`
		} `json:"credential_source"`
	}
	file.Type, file.Audience = "external_account", "//iam.googleapis.com/"+s.providerName()
	file.Kind, file.URL = "urn:ietf:params:aws:token-type:aws4_request", "https://sts.googleapis.com/v1/token"
	file.As = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/" + s.BrokerAccount() +
		":generateAccessToken"
	file.Source.ID, file.Source.URL = "aws1", asks
	return json.MarshalIndent(file, "", "  ")
}

// retryWithin is the maximum wait until a new resource is known everywhere at Google.
const retryWithin = 2 * time.Minute

// settlePause is the pause between two looks; tests shorten it.
var settlePause = time.Second
