// Package setup makes what the broker needs in a subscription of Azure, and takes it away again: registrations, a
// resource group, roles with the rights that the driver uses and no more, and an identity for a broker that runs
// elsewhere, which trusts that place's own tokens instead of a secret.
//
// Every step is looked at before it is made, so that a second time changes nothing, and each can be had as commands of
// az instead, for those who make such things themselves. Names follow from the deployment, and what they stand for is
// found by them.
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

	"github.com/tradewind-broker/tradewind/pkg/clock"
	"github.com/tradewind-broker/tradewind/pkg/cloud/azure"
)

// Config says what is to be made, and for whom. Deployment, Subscription, Location and Credential are required, and
// one of Principal and Federation.
type Config struct {
	Deployment    string
	Subscription  string
	ResourceGroup string // Deployment when empty
	Location      string // of the group and of the identity; machines may be anywhere
	// Principal is the object ID of who buys: a user, a group or an application that is there already.
	Principal     string
	PrincipalType string // User, Group or ServicePrincipal; Azure looks it up when empty
	// Federation makes an identity for whoever bears tokens of another issuer.
	Federation *Federation
	Credential azcore.TokenCredential
	Options    *arm.ClientOptions
	// Pause is between two looks at what takes its time; a second when 0.
	Pause time.Duration
}

// Federation is whose tokens are taken: those of an issuer with this subject and audience.
type Federation struct {
	Issuer   string // https://….tokens.sts.global.api.aws
	Subject  string // arn:aws:iam::1:role/tradewind-provision
	Audience string // api://AzureADTokenExchange when empty
}

// ErrConfig says that a Config lacks something, and ErrRunning that machines run.
var (
	ErrConfig  = errors.New("azure setup")
	ErrRunning = errors.New("azure setup: machines run")
)

// callWithin bounds a call and what it begins.
const callWithin = time.Minute

// Setup makes and removes.
type Setup struct {
	cfg       Config
	resources *armresources.Client
	groups    *armresources.ResourceGroupsClient
	providers *armresources.ProvidersClient
}

// New prepares; it calls nobody, and fails with ErrConfig.
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
	o.DisableRPRegistration = true // registering is a step of its own
	s := &Setup{cfg: cfg}
	var errs [3]error
	s.resources, errs[0] = armresources.NewClient(cfg.Subscription, cfg.Credential, &o)
	s.groups, errs[1] = armresources.NewResourceGroupsClient(cfg.Subscription, cfg.Credential, &o)
	s.providers, errs[2] = armresources.NewProvidersClient(cfg.Subscription, cfg.Credential, &o)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return s, nil
}

// Step is one thing that is to be there.
type Step struct {
	Name     string
	Commands []string // of az that make it
	// Refused is why Azure would not make it, of a step that the rest does without.
	Refused error

	optional bool
	there    func(context.Context) (bool, error)
	make     func(context.Context) error
	remove   func(context.Context) error // nil: it stays
}

// Make looks at every step and makes what is not there. It tells of each, with whether it was there, and goes on
// without one that the rest does not need and that Azure refuses. Errors are *cloud.Error, and say which step failed;
// what was made before stays.
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

// Remove takes away what was made, the last first, and tells of each step that was there. It does nothing and fails
// with ErrRunning while running says that there are machines. A group that holds something else stays.
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
			continue
		}
		was, err := step.there(ctx)
		if err == nil && was {
			err = step.remove(ctx)
		}
		switch {
		case errors.Is(err, errStays):
			continue
		case err != nil && step.optional && ctx.Err() == nil: // who may not see it has not made it
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", step.Name, azure.Typed(err))
		case was:
			told(step)
		}
	}
	return nil
}

// errStays says that something is of use to others.
var errStays = errors.New("it is of use to others")

// id makes an ID of its own for what has one instead of a name, the same every time.
func (s *Setup) id(of string) string {
	b := sha256.Sum256(
		[]byte(strings.Join([]string{s.cfg.Subscription, s.cfg.ResourceGroup, s.cfg.Deployment, of}, "\x00")),
	)
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// get asks for a resource; nil is one that is not there.
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

func (s *Setup) put(ctx context.Context, id, version string, body armresources.GenericResource) error {
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
