// Package roles creates the IAM roles that Amazon EMR and EMR Serverless need, for `tradewind cloud add aws`: the
// service role with which EMR buys machines, the role and instance profile of those machines, and the role of EMR
// Serverless's job runs. Each has an inline policy with only the rights that it needs.
//
// Each step checks first and creates only missing resources, so running it again changes nothing. A step can also be
// printed as a command of the AWS CLI. Roles that the configuration names belong to the user: they are only checked.
package roles

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/internal/cloud/aws/roles/policies"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
)

// Config describes which roles to create.
type Config struct {
	Deployment string // part of all names
	// EMR and Serverless are the services whose roles are needed.
	EMR, Serverless bool
	// ServiceRole, InstanceProfile and JobRole, an ARN, are used and not created if they are set.
	ServiceRole, InstanceProfile, JobRole string
	// Regions are the regions in which EMR may buy machines. Buckets are the buckets with which applications may
	// work.
	Regions, Buckets []string
	Tags             map[string]string
	// Settle is the time for which Add waits after it has created something, because a new role is not known
	// everywhere at once.
	Settle time.Duration
}

// Roles creates, prints, checks and removes the roles.
type Roles struct {
	cfg   Config
	sdk   awssdk.Config
	iam   *iam.Client
	named Config // what the user has named
	// account is the number of the account, once it is known.
	account string
}

// New makes a Roles. It makes no calls.
func New(sdk awssdk.Config, cfg Config) *Roles {
	r := &Roles{cfg: cfg, sdk: sdk, iam: iam.NewFromConfig(sdk), account: "ACCOUNT"}
	if cfg.ServiceRole != r.serviceName() { // settings also contain the names of created roles
		r.named.ServiceRole = cfg.ServiceRole
	}
	if cfg.InstanceProfile != r.nodesName() {
		r.named.InstanceProfile = cfg.InstanceProfile
	}
	if !strings.HasSuffix(cfg.JobRole, ":role/"+r.jobName()) {
		r.named.JobRole = cfg.JobRole
	}
	return r
}

func (r *Roles) serviceName() string { return r.cfg.Deployment + "-emr" }
func (r *Roles) nodesName() string   { return r.cfg.Deployment + "-emr-nodes" }
func (r *Roles) jobName() string     { return r.cfg.Deployment + "-spark" }

// Settings returns the names of EMR's service role and instance profile, and the ARN of the role of EMR Serverless,
// created or named. They are empty for a service that is not needed. They are known after Add.
func (r *Roles) Settings() (serviceRole, instanceProfile, jobRole string) {
	serviceRole, instanceProfile, jobRole = r.named.ServiceRole, r.named.InstanceProfile, r.named.JobRole
	if r.cfg.EMR && serviceRole == "" {
		serviceRole = r.serviceName()
	}
	if r.cfg.EMR && instanceProfile == "" {
		instanceProfile = r.nodesName()
	}
	if r.cfg.Serverless && jobRole == "" {
		jobRole = "arn:aws:iam::" + r.account + ":role/" + r.jobName()
	}
	return serviceRole, instanceProfile, jobRole
}

// step is one resource that is to exist.
type step struct {
	name     string
	commands []string // of the AWS CLI
	look     func(context.Context) (bool, error)
	make     func(context.Context) error // nil if the resource is the user's
	remove   func(context.Context) error
}

// steps returns the resources, in the order in which they are created.
func (r *Roles) steps() (all []step) {
	if r.cfg.EMR && r.named.ServiceRole == "" {
		all = append(all, r.role(r.serviceName(), policies.Trust("elasticmapreduce.amazonaws.com", r.account)),
			r.policy(r.serviceName(), policies.Service(policies.Buyer{
				Deployment: r.cfg.Deployment, Account: r.account, NodesRole: r.nodesRole(), Regions: r.cfg.Regions,
			})))
	}
	if r.cfg.EMR && r.named.InstanceProfile == "" {
		all = append(all, r.role(r.nodesName(), policies.Trust("ec2.amazonaws.com", "")),
			r.policy(r.nodesName(), policies.Data(r.cfg.Buckets)), r.profile(r.nodesName()))
	}
	if r.cfg.Serverless && r.named.JobRole == "" {
		all = append(all, r.role(r.jobName(), policies.Trust("emr-serverless.amazonaws.com", r.account)),
			r.policy(r.jobName(), policies.Data(r.cfg.Buckets)))
	}
	return all
}

// theirs returns the resources that the user has named. Only their existence is checked.
func (r *Roles) theirs() (all []step) {
	if name := r.named.ServiceRole; r.cfg.EMR && name != "" {
		all = append(all, step{name: "role " + name, look: r.hasRole(name)})
	}
	if name := nameOf(r.named.InstanceProfile); r.cfg.EMR && name != "" {
		all = append(all, step{name: "instance profile " + name, look: r.hasProfile(name)})
	}
	if name := nameOf(r.named.JobRole); r.cfg.Serverless && name != "" {
		all = append(all, step{name: "role " + name, look: r.hasRole(name)})
	}
	return all
}

// nameOf returns the name in an ARN. It returns a name unchanged.
func nameOf(arn string) string { return arn[strings.LastIndexByte(arn, '/')+1:] }

// Print returns the commands that create the same resources as Add in an empty account.
func (r *Roles) Print() (lines []string) {
	for _, s := range r.steps() {
		lines = append(lines, s.commands...)
	}
	return lines
}

// Add creates the missing resources in order, and calls tell for each. If one fails, Add stops. The earlier ones
// stay, and the next Add continues from there.
func (r *Roles) Add(ctx context.Context, tell func(step string, made bool)) error {
	if err := r.identify(ctx); err != nil {
		return err
	}
	changed := false
	for _, s := range r.steps() {
		there, err := s.look(ctx)
		if err == nil && !there {
			changed, err = true, s.make(ctx)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, aws.Typed(err))
		}
		tell(s.name, !there)
	}
	if changed {
		return clock.Pause(ctx, r.cfg.Settle)
	}
	return nil
}

// Remove removes the resources that Add has created, in reverse order, and calls tell for each.
func (r *Roles) Remove(ctx context.Context, tell func(step string)) error {
	if err := r.identify(ctx); err != nil {
		return err
	}
	all := *r
	all.cfg.EMR, all.cfg.Serverless = true, true // an earlier configuration may have needed both
	for _, s := range slices.Backward(all.steps()) {
		err := s.remove(ctx)
		if isGone(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, aws.Typed(err))
		}
		tell(s.name)
	}
	return nil
}

// Missing reports the resources that do not exist, or lack rights, with the commands that create them. add is the
// command that creates all.
func (r *Roles) Missing(ctx context.Context, add string) (missing []driver.Lack) {
	if len(r.steps()) > 0 {
		if err := r.identify(ctx); err != nil {
			return []driver.Lack{{What: "whether the roles of services exist is not known: " + err.Error()}}
		}
	}
	for _, s := range slices.Concat(r.steps(), r.theirs()) {
		there, err := s.look(ctx)
		switch {
		case err != nil:
			missing = append(missing, driver.Lack{
				What: fmt.Sprintf("whether %s exists is not known: %v", s.name, aws.Typed(err)),
			})
		case !there && s.make != nil:
			missing = append(missing, driver.Lack{What: s.name + " is missing or out of date", Mend: add})
		case !there:
			missing = append(missing, driver.Lack{What: s.name + " does not exist", Mend: theirsCommand(s.name)})
		}
	}
	return missing
}

// theirsCommand returns the command that creates a named resource.
func theirsCommand(name string) string {
	if strings.HasSuffix(name, " EMR_DefaultRole") || strings.HasSuffix(name, " EMR_EC2_DefaultRole") {
		return "aws emr create-default-roles"
	}
	return "create it, or run `tradewind cloud add aws` without its flag, which creates one"
}

func (r *Roles) identify(ctx context.Context) error {
	who, err := sts.NewFromConfig(r.sdk).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return aws.Typed(err)
	}
	r.account = awssdk.ToString(who.Account)
	return nil
}

func isGone(err error) bool {
	var gone *types.NoSuchEntityException
	return errors.As(err, &gone)
}

// found returns, from the error of a lookup, whether the resource exists.
func found(err error) (bool, error) {
	if isGone(err) {
		return false, nil
	}
	return err == nil, err
}

func (r *Roles) hasRole(name string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		_, err := r.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: &name})
		return found(err)
	}
}

func (r *Roles) role(name string, trusts policies.Document) step {
	tags := []types.Tag{}
	for _, k := range slices.Sorted(maps.Keys(r.tags())) {
		tags = append(tags, types.Tag{Key: &k, Value: awssdk.String(r.tags()[k])})
	}
	return step{
		name: "role " + name, look: r.hasRole(name),
		commands: []string{fmt.Sprintf("aws iam create-role --role-name %s --assume-role-policy-document '%s'", name,
			trusts.Text())},
		make: func(ctx context.Context) error {
			_, err := r.iam.CreateRole(ctx, &iam.CreateRoleInput{
				RoleName: &name, AssumeRolePolicyDocument: awssdk.String(trusts.Text()), Tags: tags,
				Description: awssdk.String("Spark for " + r.cfg.Deployment),
			})
			return err
		},
		remove: func(ctx context.Context) error {
			_, err := r.iam.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: &name})
			return err
		},
	}
}

func (r *Roles) tags() map[string]string {
	tags := map[string]string{aws.TagDeployment: r.cfg.Deployment}
	maps.Copy(tags, r.cfg.Tags)
	return tags
}

// policy is the inline policy of a role. It is replaced if it differs, for example after a bucket was added.
func (r *Roles) policy(role string, rights policies.Document) step {
	name := awssdk.String("tradewind")
	return step{
		name: "rights of role " + role,
		commands: []string{fmt.Sprintf("aws iam put-role-policy --role-name %s --policy-name %s --policy-document '%s'",
			role, *name, rights.Text())},
		look: func(ctx context.Context) (bool, error) {
			now, err := r.iam.GetRolePolicy(ctx, &iam.GetRolePolicyInput{RoleName: &role, PolicyName: name})
			if there, err := found(err); !there {
				return false, err
			}
			return rights.Is(awssdk.ToString(now.PolicyDocument)), nil
		},
		make: func(ctx context.Context) error {
			_, err := r.iam.PutRolePolicy(ctx, &iam.PutRolePolicyInput{
				RoleName: &role, PolicyName: name, PolicyDocument: awssdk.String(rights.Text()),
			})
			return err
		},
		remove: func(ctx context.Context) error {
			_, err := r.iam.DeleteRolePolicy(ctx, &iam.DeleteRolePolicyInput{RoleName: &role, PolicyName: name})
			return err
		},
	}
}

func (r *Roles) hasProfile(name string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		now, err := r.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
		there, err := found(err)
		return there && len(now.InstanceProfile.Roles) > 0, err
	}
}

// profile is the instance profile with a role, under the same name.
func (r *Roles) profile(name string) step {
	return step{
		name: "instance profile " + name, look: r.hasProfile(name),
		commands: []string{
			"aws iam create-instance-profile --instance-profile-name " + name,
			fmt.Sprintf("aws iam add-role-to-instance-profile --instance-profile-name %s --role-name %[1]s", name),
		},
		make: func(ctx context.Context) error {
			_, err := r.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: &name})
			var exists *types.EntityAlreadyExistsException
			if err != nil && !errors.As(err, &exists) {
				return err
			}
			_, err = r.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{
				InstanceProfileName: &name, RoleName: &name,
			})
			return err
		},
		remove: func(ctx context.Context) error {
			_, err := r.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{
				InstanceProfileName: &name, RoleName: &name,
			})
			if err != nil && !isGone(err) {
				return err
			}
			_, err = r.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: &name})
			return err
		},
	}
}

// nodesRole is the role that EMR gives its machines. If an instance profile is named, its role is assumed to have the
// same name, as for EMR's own profile.
func (r *Roles) nodesRole() string {
	if r.named.InstanceProfile != "" {
		return nameOf(r.named.InstanceProfile)
	}
	return r.nodesName()
}
