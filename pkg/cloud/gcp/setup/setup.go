// Package setup makes what buying on Google Cloud needs, for `tradewind cloud add gcp`: services that are on, a network
// whose machines reach each other and nobody reaches, a service account without roles by which machines prove
// themselves, a role of the permissions that the driver uses, who has it, and, for functions on AWS, federation that
// trusts their roles, so that no key is anywhere.
//
// Each step is looked at first and made only where it is missing, so that a second time changes nothing; or it is
// printed as Google's own command. Removing refuses while machines run. Services stay on: others may use them.
package setup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	crm "google.golang.org/api/cloudresourcemanager/v3"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/iam/v1"
	"google.golang.org/api/pubsub/v1"
	"google.golang.org/api/serviceusage/v1"
	"google.golang.org/api/storage/v1"

	"github.com/tradewind-broker/tradewind/pkg/clock"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/gcp"
)

// Errors of a Setup, wrapped with detail.
var (
	// ErrRunning: machines of the deployment exist.
	ErrRunning = errors.New("machines are running")
	// ErrConfig: the configuration cannot be.
	ErrConfig = errors.New("setup of Google Cloud")
)

// Config says what is to be made.
type Config struct {
	Deployment string // which names everything; at most 20 small letters, digits and dashes
	Project    string
	// Member is who buys: user:…, serviceAccount:…. Empty with AWSAccount: then an account is made for that.
	Member string
	// AWSAccount and AWSRoles are whose functions buy: the names of their roles.
	AWSAccount string
	AWSRoles   []string
	TPUs       bool
	// Network and ServiceAccount, an address, are where machines are and what they prove themselves with; nothing is
	// made where they are named.
	Network, ServiceAccount string
	// DAGs is where files become jobs, gs://BUCKET/FOLDER; empty is nowhere. A bucket that is made is in Location;
	// empty is Google's own choice. What it tells is pushed to the broker at PushURL, as PushAccount or else an account
	// that is made; without an address it is pulled.
	DAGs, Location       string
	PushURL, PushAccount string
	// Cloud is the driver of the deployment: it lends its options, and says what runs.
	Cloud *gcp.Cloud
}

// Change is what became of a step.
type Change struct {
	Step string // what it is about
	Made bool   // false: it was as it should be
}

// Setup makes, prints and removes.
type Setup struct {
	cfg    Config
	number string // of the project, once it is known

	compute *compute.Service
	iam     *iam.Service
	crm     *crm.Service
	usage   *serviceusage.Service
	pubsub  *pubsub.Service
	storage *storage.Service

	bucket, prefix string // of files that become jobs
	agent          string // the address of whom buckets tell as, once it is known
}

// step is one thing that is to be there.
type step struct {
	name    string
	command string // Google's own
	look    func(context.Context) (bool, error)
	make    func(context.Context) error
	undo    string
	remove  func(context.Context) error // nil stays
}

var (
	validDeployment = regexp.MustCompile(`^[a-z][a-z0-9-]{0,18}[a-z0-9]$`)
	validAccount    = regexp.MustCompile(`^[0-9]{12}$`)
	validRole       = regexp.MustCompile(`^[A-Za-z0-9+=,.@_-]{1,64}$`)
	validMember     = regexp.MustCompile(`^(user|serviceAccount|group|principal|principalSet):[^\s'"]+$`)
)

// New makes a Setup. It calls nobody, and fails with ErrConfig.
func New(cfg Config) (*Setup, error) {
	bad := func(format string, args ...any) (*Setup, error) {
		return nil, fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...))
	}
	federated := cfg.AWSAccount != ""
	switch {
	case !validDeployment.MatchString(cfg.Deployment):
		return bad("a deployment is named by at most 20 small letters, digits and dashes here, not %q", cfg.Deployment)
	case cfg.Project == "" || cfg.Cloud == nil:
		return bad("no project is named")
	case federated == (cfg.Member != ""):
		return bad("name either who buys or the AWS account whose functions do")
	case !federated && !validMember.MatchString(cfg.Member):
		return bad("who buys is written user:ADDRESS or serviceAccount:ADDRESS, not %q", cfg.Member)
	case federated && (!validAccount.MatchString(cfg.AWSAccount) || len(cfg.AWSRoles) == 0):
		return bad("an AWS account is twelve digits and has roles that buy, not %q with %d", cfg.AWSAccount,
			len(cfg.AWSRoles))
	}
	for _, r := range cfg.AWSRoles {
		if !validRole.MatchString(r) {
			return bad("%q is no name of an AWS role", r)
		}
	}
	s := &Setup{cfg: cfg}
	if err := s.readPlace(); err != nil {
		return bad("%v", err)
	}
	for named, made := range map[*string]string{ // settings name what was made, too
		&s.cfg.PushAccount:    s.address(cfg.Deployment + "-push"),
		&s.cfg.Network:        "tradewind-" + cfg.Deployment,
		&s.cfg.ServiceAccount: s.address(cfg.Deployment + "-machines"),
	} {
		if *named == made {
			*named = ""
		}
	}
	return s, nil
}

// Network is that of the machines: the one that is named, or is made.
func (s *Setup) Network() string { return cmp.Or(s.cfg.Network, "tradewind-"+s.cfg.Deployment) }

// MachinesAccount is the address of the service account that machines have.
func (s *Setup) MachinesAccount() string {
	return cmp.Or(s.cfg.ServiceAccount, s.address(s.cfg.Deployment+"-machines"))
}

func (s *Setup) address(id string) string {
	return id + "@" + s.cfg.Project + ".iam.gserviceaccount.com"
}

// Provider is what trusts the roles of functions on AWS. It is known after Add.
func (s *Setup) Provider() string { return s.providerName() }

// BrokerAccount is the address of who buys for functions on AWS.
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

// Permissions are those of the role.
func (s *Setup) permissions() []string {
	all := slices.Concat(gcp.Permissions(), gcp.ReservedPermissions(), gcp.ImagePermissions())
	if s.cfg.TPUs {
		all = append(all, gcp.TPUPermissions()...)
	}
	slices.Sort(all)
	return all
}

// Print says what Add would do where nothing is there, as commands of gcloud.
func (s *Setup) Print() []string {
	var lines []string
	for _, st := range s.steps(false) {
		lines = append(lines, st.command)
	}
	return lines
}

// PrintRemoval says what Remove would do.
func (s *Setup) PrintRemoval() []string {
	var lines []string
	for _, st := range slices.Backward(s.steps(true)) {
		if st.undo != "" {
			lines = append(lines, st.undo)
		}
	}
	return lines
}

// Add makes what is missing, in order, and tells of each step. It fails with the first step that does; what was made
// stays, and the next Add goes on from there.
func (s *Setup) Add(ctx context.Context, tell func(Change)) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	if err := ensure(ctx, s.service(projectsService), tell); err != nil {
		return err
	}
	if err := s.read(ctx, settleWithin); err != nil {
		return err
	}
	for _, st := range s.steps(false)[1:] {
		if err := ensure(ctx, st, tell); err != nil {
			return err
		}
	}
	return nil
}

// ensure makes what is missing of a step.
func ensure(ctx context.Context, st step, tell func(Change)) error {
	there, err := st.look(ctx)
	if err == nil && !there {
		err = st.make(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", st.name, gcp.Typed(err))
	}
	tell(Change{Step: st.name, Made: !there})
	return nil
}

// Remove takes away what Add has made, in the other order. It fails with ErrRunning while machines of the deployment
// exist.
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

// open makes the clients.
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
	s.storage, err = storage.NewService(keep, s.cfg.Cloud.Options("/storage/v1/")...)
	return err
}

// read learns the project's number and the agent of its buckets. A service that was just switched on may refuse for a
// while.
func (s *Setup) read(ctx context.Context, patience time.Duration) error {
	p, err := s.crm.Projects.Get("projects/" + s.cfg.Project).Context(ctx).Do()
	for until := time.Now().Add(patience); isOff(err) && time.Now().Before(until); {
		if err := clock.Pause(ctx, settlePause); err != nil {
			return err
		}
		p, err = s.crm.Projects.Get("projects/" + s.cfg.Project).Context(ctx).Do()
	}
	if err != nil {
		return fmt.Errorf("project %s: %w", s.cfg.Project, gcp.Typed(err))
	}
	s.number = strings.TrimPrefix(p.Name, "projects/")
	if s.bucket == "" {
		return nil
	}
	agent, err := s.storage.Projects.ServiceAccount.Get(s.cfg.Project).Context(ctx).Do()
	if err != nil {
		return fmt.Errorf("the agent of Cloud Storage in %s: %w", s.cfg.Project, gcp.Typed(err))
	}
	s.agent = agent.EmailAddress
	return nil
}

// isOff says that a service is not switched on.
func isOff(err error) bool {
	var refused *cloud.Error
	return errors.As(gcp.Typed(err), &refused) && refused.Code == "SERVICE_DISABLED"
}

// Credentials are what functions on AWS read instead of a key: where to change what AWS signs of them for a token.
// There is nothing secret in it. The project's number is known after Add.
func (s *Setup) Credentials() ([]byte, error) {
	if s.cfg.AWSAccount == "" || s.number == "" {
		return nil, fmt.Errorf("%w: there is no federation, or it was not made yet", ErrConfig)
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

// settleWithin bounds the wait for something that Google makes in its own time.
const (
	settleWithin = 2 * time.Minute
	settlePause  = time.Second
)
