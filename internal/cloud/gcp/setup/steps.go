package setup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	crm "google.golang.org/api/cloudresourcemanager/v3"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/iam/v1"
	"google.golang.org/api/serviceusage/v1"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
)

// projectsService is the API for the project and its policy. It is disabled in new projects, so it is enabled first.
const projectsService = "cloudresourcemanager.googleapis.com"

const storageService = "storage.googleapis.com"

// steps returns the resources to create, in order, or those to remove, to be used in reverse order.
func (s *Setup) steps(removed bool) []step {
	if s.cfg.Spark {
		return s.sparkSteps()
	}
	services := []string{projectsService, "compute.googleapis.com", "iam.googleapis.com", "cloudbilling.googleapis.com"}
	if s.cfg.TPUs {
		services = append(services, "tpu.googleapis.com")
	}
	if s.cfg.AWSAccount != "" {
		services = append(services, "iamcredentials.googleapis.com", "sts.googleapis.com")
	}
	if s.bucket != "" {
		services = append(services, "pubsub.googleapis.com", "logging.googleapis.com", storageService)
	}
	var all []step
	for _, name := range services {
		all = append(all, s.service(name))
	}
	if s.cfg.Network == "" {
		all = append(all, s.network(), s.firewall())
	}
	if s.cfg.ServiceAccount == "" {
		all = append(all, s.account(s.cfg.Deployment+"-machines", "Machines of "+s.cfg.Deployment+", without any role"))
	}
	if s.cfg.AWSAccount != "" {
		all = append(all, s.account(s.cfg.Deployment+"-broker", "Buys machines for "+s.cfg.Deployment))
	}
	all = append(all, s.customRole(s.role(), s.permissions()), s.projectBinding(s.role(), s.member()),
		s.accountBinding(s.MachinesAccount(), "roles/iam.serviceAccountUser", s.member()))
	if s.cfg.AWSAccount != "" {
		all = append(all, s.pool(), s.provider())
		for _, role := range s.cfg.AWSRoles {
			all = append(all, s.accountBinding(s.BrokerAccount(), "roles/iam.workloadIdentityUser", s.principal(role)))
		}
	}
	return append(all, s.dags(removed)...)
}

// found returns, from the error of a lookup, whether the resource exists.
func found(err error) (bool, error) {
	if gcp.IsGone(err) {
		return false, nil
	}
	return err == nil, err
}

// await repeats a lookup until the resource exists.
func await(ctx context.Context, look func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, retryWithin)
	defer cancel()
	for {
		if there, err := look(ctx); there || err != nil && !isUnsettled(err) {
			return err
		}
		if err := clock.Pause(ctx, settlePause); err != nil {
			return err
		}
	}
}

func (s *Setup) service(name string) step {
	path := "projects/" + s.cfg.Project + "/services/" + name
	look := func(ctx context.Context) (bool, error) {
		v, err := s.usage.Services.Get(path).Context(ctx).Do()
		return err == nil && v.State == "ENABLED", err
	}
	return step{
		name: "service " + name, command: s.gcloud("services enable %s", name), look: look,
		stays: "others may use it; if none does: " + s.gcloud("services disable %s", name),
		make: func(ctx context.Context) error {
			_, err := s.usage.Services.Enable(path, &serviceusage.EnableServiceRequest{}).Context(ctx).Do()
			if err != nil {
				return err
			}
			return await(ctx, look)
		},
	}
}

func (s *Setup) gcloud(format string, args ...any) string {
	return "gcloud " + fmt.Sprintf(format, args...) + " --project " + s.cfg.Project
}

func (s *Setup) network() step {
	name := s.Network()
	return step{
		name: "network " + name, command: s.gcloud("compute networks create %s --subnet-mode auto", name),
		undo: s.gcloud("compute networks delete %s", name),
		look: func(ctx context.Context) (bool, error) {
			_, err := s.compute.Networks.Get(s.cfg.Project, name).Context(ctx).Do()
			return found(err)
		},
		make: func(ctx context.Context) error {
			op, err := s.compute.Networks.Insert(s.cfg.Project, &compute.Network{
				Name: name, AutoCreateSubnetworks: true, Description: "Machines of " + s.cfg.Deployment,
			}).Context(ctx).Do()
			return s.done(ctx, op, err)
		},
		remove: func(ctx context.Context) error {
			op, err := s.compute.Networks.Delete(s.cfg.Project, name).Context(ctx).Do()
			return s.done(ctx, op, err)
		},
	}
}

// done waits for a global operation.
func (s *Setup) done(ctx context.Context, op *compute.Operation, err error) error {
	ctx, cancel := context.WithTimeout(ctx, retryWithin)
	defer cancel()
	for err == nil && op.Status != "DONE" {
		op, err = s.compute.GlobalOperations.Wait(s.cfg.Project, op.Name).Context(ctx).Do()
		if err == nil && op.Status != "DONE" {
			err = clock.Pause(ctx, settlePause)
		}
	}
	if err == nil && op.Error != nil && len(op.Error.Errors) > 0 {
		err = fmt.Errorf("%s: %s", op.Error.Errors[0].Code, op.Error.Errors[0].Message)
	}
	return err
}

// firewall allows connections between the machines. There is no other rule, so all other connections to them are
// refused.
func (s *Setup) firewall() step {
	name := s.Network() + "-machines"
	return step{
		name: "firewall rule " + name,
		command: s.gcloud("compute firewall-rules create %s --network %s --direction INGRESS --allow all "+
			"--source-tags %s --target-tags %s", name, s.Network(), gcp.NetworkTag, gcp.NetworkTag),
		undo: s.gcloud("compute firewall-rules delete %s", name),
		look: func(ctx context.Context) (bool, error) {
			_, err := s.compute.Firewalls.Get(s.cfg.Project, name).Context(ctx).Do()
			return found(err)
		},
		make: func(ctx context.Context) error {
			op, err := s.compute.Firewalls.Insert(s.cfg.Project, &compute.Firewall{
				Name: name, Direction: "INGRESS",
				Network:    "projects/" + s.cfg.Project + "/global/networks/" + s.Network(),
				Allowed:    []*compute.FirewallAllowed{{IPProtocol: "all"}},
				SourceTags: []string{gcp.NetworkTag}, TargetTags: []string{gcp.NetworkTag},
			}).Context(ctx).Do()
			return s.done(ctx, op, err)
		},
		remove: func(ctx context.Context) error {
			op, err := s.compute.Firewalls.Delete(s.cfg.Project, name).Context(ctx).Do()
			return s.done(ctx, op, err)
		},
	}
}

func (s *Setup) account(id, title string) step {
	path := "projects/" + s.cfg.Project + "/serviceAccounts/" + s.address(id)
	look := func(ctx context.Context) (bool, error) {
		_, err := s.iam.Projects.ServiceAccounts.Get(path).Context(ctx).Do()
		return found(err)
	}
	return step{
		name: "service account " + s.address(id), look: look,
		command: s.gcloud("iam service-accounts create %s --display-name '%s'", id, title),
		undo:    s.gcloud("iam service-accounts delete %s", s.address(id)),
		make: func(ctx context.Context) error {
			_, err := s.iam.Projects.ServiceAccounts.Create("projects/"+s.cfg.Project, &iam.CreateServiceAccountRequest{
				AccountId: id, ServiceAccount: &iam.ServiceAccount{DisplayName: title},
			}).Context(ctx).Do()
			if err != nil {
				return err
			}
			return await(ctx, look) // a new account is not known everywhere at once
		},
		remove: func(ctx context.Context) error {
			_, err := s.iam.Projects.ServiceAccounts.Delete(path).Context(ctx).Do()
			return err
		},
	}
}

// customRole has the permissions that the driver uses, and is updated if a newer version uses more. A role that was
// removed within the last week is undeleted, because its name is still reserved.
func (s *Setup) customRole(path string, permissions []string) step {
	id := path[strings.LastIndexByte(path, '/')+1:]
	roles := func() *iam.ProjectsRolesService { return s.iam.Projects.Roles }
	return step{
		name: "role " + id,
		command: s.gcloud("iam roles create %s --title Tradewind --permissions %s", id,
			strings.Join(permissions, ",")),
		undo: s.gcloud("iam roles delete %s", id),
		look: func(ctx context.Context) (bool, error) {
			r, err := roles().Get(path).Context(ctx).Do()
			if there, err := found(err); !there {
				return false, err
			}
			slices.Sort(r.IncludedPermissions)
			return !r.Deleted && slices.Equal(r.IncludedPermissions, permissions), nil
		},
		make: func(ctx context.Context) error {
			role := &iam.Role{Title: "Tradewind", Stage: "GA", IncludedPermissions: permissions}
			was, err := roles().Get(path).Context(ctx).Do()
			if there, err := found(err); err != nil {
				return err
			} else if !there {
				_, err = roles().Create("projects/"+s.cfg.Project, &iam.CreateRoleRequest{RoleId: id, Role: role}).
					Context(ctx).Do()
				return err
			}
			if was.Deleted {
				if _, err = roles().Undelete(path, &iam.UndeleteRoleRequest{}).Context(ctx).Do(); err != nil {
					return err
				}
			}
			_, err = roles().Patch(path, role).UpdateMask("includedPermissions").Context(ctx).Do()
			return err
		},
		remove: func(ctx context.Context) error {
			_, err := roles().Delete(path).Context(ctx).Do()
			return err
		},
	}
}

func (s *Setup) poolName() string {
	return "projects/" + s.number + "/locations/global/workloadIdentityPools/" + s.poolID()
}

// poolID returns an ID with at least four characters that does not begin with gcp-, as Google requires.
func (s *Setup) poolID() string { return "tradewind-" + s.cfg.Deployment }

// providerID must have at least four characters, too.
const providerID = "aws-roles"

func (s *Setup) providerName() string { return s.poolName() + "/providers/" + providerID }

// principal is Google's name of an AWS role.
func (s *Setup) principal(role string) string {
	number := s.number
	if number == "" { // for printing
		number = "PROJECT_NUMBER"
	}
	return "principalSet://iam.googleapis.com/projects/" + number + "/locations/global/workloadIdentityPools/" +
		s.poolID() + "/attribute.aws_role/" + s.awsRole(role)
}

func (s *Setup) awsRole(role string) string {
	return "arn:aws:sts::" + s.cfg.AWSAccount + ":assumed-role/" + role
}

// pool is the workload identity pool for AWS identities. A pool that was removed within the last month is undeleted.
func (s *Setup) pool() step {
	pools := func() *iam.ProjectsLocationsWorkloadIdentityPoolsService {
		return s.iam.Projects.Locations.WorkloadIdentityPools
	}
	look := func(ctx context.Context) (bool, error) {
		p, err := pools().Get(s.poolName()).Context(ctx).Do()
		there, err := found(err)
		return there && p.State == "ACTIVE", err
	}
	return step{
		name: "workload identity pool " + s.poolID(), look: look,
		command: s.gcloud("iam workload-identity-pools create %s --location global", s.poolID()),
		undo:    s.gcloud("iam workload-identity-pools delete %s --location global", s.poolID()),
		make: func(ctx context.Context) error {
			_, err := pools().Get(s.poolName()).Context(ctx).Do()
			if there, err := found(err); err != nil {
				return err
			} else if there {
				_, err = pools().Undelete(s.poolName(), &iam.UndeleteWorkloadIdentityPoolRequest{}).Context(ctx).Do()
				if err != nil {
					return err
				}
				return await(ctx, look)
			}
			_, err = pools().Create("projects/"+s.number+"/locations/global", &iam.WorkloadIdentityPool{
				DisplayName: "Tradewind " + s.cfg.Deployment,
			}).WorkloadIdentityPoolId(s.poolID()).Context(ctx).Do()
			if err != nil {
				return err
			}
			return await(ctx, look)
		},
		remove: func(ctx context.Context) error {
			_, err := pools().Delete(s.poolName()).Context(ctx).Do()
			return err
		},
	}
}

// awsMapping maps an AWS caller to a Google identity (Workload identity federation documentation, "AWS").
var awsMapping = map[string]string{
	"google.subject": "assertion.arn",
	"attribute.aws_role": "assertion.arn.extract('{account_arn}assumed-role/') + 'assumed-role/' + " +
		"assertion.arn.extract('assumed-role/{role_name}/')",
}

// provider trusts only the roles of the functions, and nothing else in their account. It is removed with its pool.
func (s *Setup) provider() step {
	var roles []string
	for _, r := range s.cfg.AWSRoles {
		roles = append(roles, "'"+s.awsRole(r)+"'")
	}
	slices.Sort(roles)
	condition := "attribute.aws_role in [" + strings.Join(roles, ", ") + "]"
	look := func(ctx context.Context) (bool, error) {
		p, err := s.iam.Projects.Locations.WorkloadIdentityPools.Providers.Get(s.providerName()).Context(ctx).Do()
		there, err := found(err)
		if there && p.AttributeCondition != condition {
			return false, fmt.Errorf("the provider trusts %q instead of %q; remove it first",
				p.AttributeCondition, condition)
		}
		return there, err
	}
	return step{
		name: "provider " + providerID + " of " + s.poolID(), look: look,
		command: s.gcloud("iam workload-identity-pools providers create-aws %s --location global "+
			"--workload-identity-pool %s --account-id %s --attribute-condition \"%s\"", providerID, s.poolID(),
			s.cfg.AWSAccount, condition),
		make: func(ctx context.Context) error {
			_, err := s.iam.Projects.Locations.WorkloadIdentityPools.Providers.Create(s.poolName(),
				&iam.WorkloadIdentityPoolProvider{
					Aws:              &iam.Aws{AccountId: s.cfg.AWSAccount},
					AttributeMapping: awsMapping, AttributeCondition: condition,
				}).WorkloadIdentityPoolProviderId(providerID).Context(ctx).Do()
			if err != nil {
				return err
			}
			return await(ctx, look)
		},
	}
}

// projectBinding grants a role in the project.
func (s *Setup) projectBinding(role, member string) step {
	path := "projects/" + s.cfg.Project
	p := policy{
		get: func(ctx context.Context) (*crm.Policy, error) {
			return s.crm.Projects.GetIamPolicy(path, &crm.GetIamPolicyRequest{
				Options: &crm.GetPolicyOptions{RequestedPolicyVersion: 3},
			}).Context(ctx).Do()
		},
		set: func(ctx context.Context, to *crm.Policy) error {
			_, err := s.crm.Projects.SetIamPolicy(path, &crm.SetIamPolicyRequest{Policy: to}).Context(ctx).Do()
			return err
		},
	}
	return p.step(role, member, "gcloud projects %s-iam-policy-binding "+s.cfg.Project)
}
