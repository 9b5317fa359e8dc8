// Package setup creates the resources that the broker needs in an Azure subscription, and removes them again:
// registrations, a resource group, roles with exactly the rights that the driver uses, and an identity for a broker
// that runs elsewhere, which trusts that place's own tokens instead of a secret.
//
// Each step checks first and creates only missing resources, so running it again changes nothing. Each step is also
// available as az commands, for users who create such resources themselves. Names are derived from the deployment, and
// the resources are found by them.
package setup

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armresources/v3"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cloud/azure"
)

// Config describes the resources to create and the identity that may use them. Deployment, Subscription, Location and
// Credential are required, and one of Principal and Federation.
type Config struct {
	Deployment    string
	Subscription  string
	ResourceGroup string // Deployment when empty
	Location      string // of the group and the identity; machines may be anywhere
	// Principal is the object ID of the buyer: an existing user, group or application.
	Principal     string
	PrincipalType string // User, Group or ServicePrincipal; Azure looks it up when empty
	// Federation creates an identity for holders of another issuer's tokens.
	Federation *Federation
	Credential azcore.TokenCredential
	Options    *arm.ClientOptions
	// Pause is the time between two polls of an operation; 0 means a second.
	Pause time.Duration
}

// Federation selects the accepted tokens: those of an issuer with this subject and audience.
type Federation struct {
	Issuer   string // https://….tokens.sts.global.api.aws
	Subject  string // arn:aws:iam::1:role/tradewind-provision
	Audience string // api://AzureADTokenExchange when empty
}

// ErrConfig means that a Config is incomplete, and ErrRunning that machines run.
var (
	ErrConfig  = errors.New("azure setup")
	ErrRunning = errors.New("azure setup: machines are running")
)

// callWithin limits the time of a call and its operation, and retryWithin the time until a new resource or
// registration is known everywhere in Azure.
const (
	callWithin  = time.Minute
	retryWithin = 5 * time.Minute
)

// Setup creates and removes the resources.
type Setup struct {
	cfg       Config
	resources *armresources.Client
	groups    *armresources.ResourceGroupsClient
	providers *armresources.ProvidersClient
	now       func() time.Time
}

// New makes a Setup. It makes no calls, and fails with ErrConfig.
func New(cfg Config) (*Setup, error) {
	for what, lacks := range map[string]bool{
		"deployment": cfg.Deployment == "", "subscription": cfg.Subscription == "", "location": cfg.Location == "",
		"credential": cfg.Credential == nil, "principal or federation": cfg.Principal == "" && cfg.Federation == nil,
	} {
		if lacks {
			return nil, fmt.Errorf("%w: no %s", ErrConfig, what)
		}
	}
	if f := cfg.Federation; f != nil {
		if f.Issuer == "" || f.Subject == "" {
			return nil, fmt.Errorf("%w: a federation needs an issuer and a subject", ErrConfig)
		}
		own := *f
		if own.Audience == "" {
			own.Audience = "api://AzureADTokenExchange"
		}
		cfg.Federation = &own
	}
	if cfg.ResourceGroup == "" {
		cfg.ResourceGroup = cfg.Deployment
	}
	if cfg.Pause == 0 {
		cfg.Pause = time.Second
	}
	o := arm.ClientOptions{}
	if cfg.Options != nil {
		o = *cfg.Options
	}
	o.DisableRPRegistration = true // registering is a separate step
	s := &Setup{cfg: cfg, now: time.Now}
	var errs [3]error
	s.resources, errs[0] = armresources.NewClient(cfg.Subscription, cfg.Credential, &o)
	s.groups, errs[1] = armresources.NewResourceGroupsClient(cfg.Subscription, cfg.Credential, &o)
	s.providers, errs[2] = armresources.NewProvidersClient(cfg.Subscription, cfg.Credential, &o)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return s, nil
}

// Step is one resource that is to exist.
type Step struct {
	Name     string
	Commands []string // az commands that create it
	// Refused is the reason for which Azure refused an optional step.
	Refused error
	// Stays is the reason why Remove leaves the resource, and the az command with which the user can continue. It is
	// empty if Remove removes it.
	Stays string

	optional bool
	there    func(context.Context) (bool, error)
	make     func(context.Context) error
	remove   func(context.Context) error // nil if it is not removed
}

// Make checks every step and creates the missing resources. It calls told for each step, with true if the step's
// resource existed before. It skips an optional step that Azure refuses. Errors wrap a *cloud.Error and name the
// failed step; earlier steps stay.
func (s *Setup) Make(ctx context.Context, told func(step Step, was bool)) error {
	for _, step := range s.Steps() {
		was, err := step.there(ctx)
		if err == nil && !was {
			err = step.make(ctx)
		}
		switch {
		case err != nil && step.optional && ctx.Err() == nil:
			step.Refused = azure.Typed(err)
		case err != nil:
			return fmt.Errorf("%s: %w", step.Name, azure.Typed(err))
		}
		told(step, was)
	}
	return nil
}

// Remove removes the created resources, in reverse order. It calls told for each step that existed, also for those
// that stay. If running returns a number above 0, it does nothing and fails with ErrRunning. A group that contains
// other resources stays.
func (s *Setup) Remove(ctx context.Context, running func(context.Context) (int, error), told func(step Step)) error {
	n, err := running(ctx)
	if err != nil {
		return err
	}
	if n > 0 {
		return fmt.Errorf("%w: %d in resource group %s; cancel their jobs first", ErrRunning, n, s.cfg.ResourceGroup)
	}
	steps := s.Steps()
	for i := len(steps) - 1; i >= 0; i-- {
		step := steps[i]
		if step.remove == nil {
			if is, err := step.there(ctx); is || err != nil { // if in doubt, it stays
				told(step)
			}
			continue
		}
		was, err := step.there(ctx)
		if err == nil && was {
			err = step.remove(ctx)
		}
		switch {
		case errors.Is(err, errNotOurs):
		case errors.Is(err, errInUse):
			told(step)
		case err != nil && step.optional && ctx.Err() == nil: // a user who may not read it has not created it
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", step.Name, azure.Typed(err))
		case was:
			step.Stays = ""
			told(step)
		}
	}
	return nil
}

// Reasons why a resource stays.
var (
	errInUse   = errors.New("it is in use by others")
	errNotOurs = errors.New("it was not created by this package")
)

// id makes an ID for a resource that has an ID instead of a name. For the same resource it is always the same.
func (s *Setup) id(of string) string {
	b := sha256.Sum256(
		[]byte(strings.Join([]string{s.cfg.Subscription, s.cfg.ResourceGroup, s.cfg.Deployment, of}, "\x00")),
	)
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// get returns a resource; nil if it does not exist.
func (s *Setup) get(ctx context.Context, id, version string) (*armresources.GenericResource, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	out, err := s.resources.GetByID(ctx, id, version, nil)
	if isGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &out.GenericResource, nil
}

// put creates or changes a resource. It tries again if Azure does not know the resources of earlier steps yet.
func (s *Setup) put(ctx context.Context, id, version string, body armresources.GenericResource) error {
	return s.retry(ctx, func() (bool, error) {
		err := s.putOnce(ctx, id, version, body)
		return err == nil || !s.early(err), err
	})
}

// early reports whether a refusal may be due to a role, an identity or a registration that was created a moment ago
// ("Troubleshoot Azure RBAC"; "Resolve errors for resource provider registration").
func (s *Setup) early(err error) bool {
	var response *azcore.ResponseError
	if !errors.As(err, &response) {
		return false
	}
	switch response.ErrorCode {
	case "RoleDefinitionDoesNotExist", "MissingSubscriptionRegistration", "SubscriptionNotRegistered":
		return true
	case "PrincipalNotFound": // a principal that the user has named is not new, so a retry would not help
		return s.cfg.Federation != nil
	}
	return false
}

// retry calls try until it is done, or until retryWithin has passed. It returns the last error.
func (s *Setup) retry(ctx context.Context, try func() (done bool, err error)) error {
	end := s.now().Add(retryWithin)
	for {
		done, err := try()
		if done || s.now().After(end) {
			return err
		}
		if err := clock.Pause(ctx, 5*s.cfg.Pause); err != nil {
			return err
		}
	}
}

func (s *Setup) putOnce(ctx context.Context, id, version string, body armresources.GenericResource) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	poller, err := s.resources.BeginCreateOrUpdateByID(ctx, id, version, body, nil)
	if err != nil {
		return err
	}
	return finish(ctx, poller, s.cfg.Pause)
}

func (s *Setup) drop(ctx context.Context, id, version string) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	poller, err := s.resources.BeginDeleteByID(ctx, id, version, nil)
	if err != nil {
		return err
	}
	return finish(ctx, poller, s.cfg.Pause)
}

// finish waits for an operation.
func finish[T any](ctx context.Context, poller *runtime.Poller[T], pause time.Duration) error {
	for !poller.Done() {
		if err := clock.Pause(ctx, pause); err != nil {
			return err
		}
		if _, err := poller.Poll(ctx); err != nil {
			return err
		}
	}
	if _, err := poller.Result(ctx); err != nil && !isGone(err) {
		return err
	}
	return nil
}

func isGone(err error) bool {
	var response *azcore.ResponseError
	return errors.As(err, &response) && response.StatusCode == http.StatusNotFound
}
