package setup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armresources/v3"

	"github.com/tradewind-broker/tradewind/internal/cloud/azure"
)

// Versions of the APIs.
const (
	roleVersion     = "2022-04-01"
	identityVersion = "2023-01-31"
	networkVersion  = "2024-05-01"
)

// tagDeployment marks a group created by this package, with the same tag that the driver uses.
const tagDeployment = "tradewind:deployment"

// reads are the rights in the whole subscription: reading machine types, quotas, power states of machines, custom
// images in any group, and the caller's rights.
func reads() []string {
	return append(azure.ReservedActions(),
		"Microsoft.Compute/virtualMachines/read", "Microsoft.Compute/skus/read",
		"Microsoft.Compute/locations/usages/read", "Microsoft.Resources/subscriptions/read",
		"Microsoft.Resources/subscriptions/locations/read", "Microsoft.Resources/subscriptions/providers/read",
		"Microsoft.Capacity/catalogs/read",
		"Microsoft.Compute/images/read", "Microsoft.Compute/galleries/images/versions/read",
		"Microsoft.Authorization/permissions/read",
	)
}

// Steps returns the steps, in the order of creation.
func (s *Setup) Steps() []Step {
	var steps []Step
	namespaces := azure.Providers()
	if s.cfg.Federation != nil {
		namespaces = append(namespaces, "Microsoft.ManagedIdentity")
	}
	for _, namespace := range namespaces {
		steps = append(steps, s.registration(namespace))
	}
	steps = append(steps, s.group())
	inGroup := role{
		of:      "machines",
		scope:   s.groupID(),
		actions: azure.Actions(),
		what:    "buys machines in one resource group",
	}
	inAll := role{
		of:      "reader",
		scope:   s.subscriptionID(),
		actions: reads(),
		what:    "reads machine types, quotas and machines",
	}
	steps = append(steps, s.definition(inGroup), s.definition(inAll))
	if s.cfg.Federation != nil {
		steps = append(steps, s.identity(), s.trust())
	}
	steps = append(steps, s.assignment(inGroup), s.assignment(inAll))
	for _, r := range benefits {
		steps = append(steps, s.benefit(r))
	}
	return steps
}

// benefits are Azure's built-in roles for reading what belongs to the directory, which no role in the subscription
// allows ("Azure built-in roles"; "Permissions to view and manage Azure savings plans").
var benefits = []role{
	{
		of: "d534ad90-4ac5-4815-a178-b2e47397baab", what: "Savings plan Reader",
		scope: "/providers/Microsoft.BillingBenefits",
	},
	{of: "582fc458-8989-419f-a480-75249bc5db7e", what: "Reservations Reader", scope: "/providers/Microsoft.Capacity"},
}

func (s *Setup) subscriptionID() string { return "/subscriptions/" + s.cfg.Subscription }

func (s *Setup) groupID() string {
	return s.subscriptionID() + "/resourceGroups/" + s.cfg.ResourceGroup
}

// registration registers the subscription for a provider. It is not removed: others may use it, and it costs nothing.
func (s *Setup) registration(namespace string) Step {
	return Step{
		Name: "registration for " + namespace,
		Commands: []string{
			fmt.Sprintf("az provider register --namespace %s --subscription %s --wait", namespace, s.cfg.Subscription),
		},
		Stays: fmt.Sprintf("others may use it; if none does: az provider unregister --namespace %s --subscription %s",
			namespace, s.cfg.Subscription),
		there: func(ctx context.Context) (bool, error) { return s.registered(ctx, namespace) },
		make: func(ctx context.Context) error {
			call, cancel := context.WithTimeout(ctx, callWithin)
			defer cancel()
			if _, err := s.providers.Register(call, namespace, nil); err != nil {
				return err
			}
			// Azure refuses the provider's resources until the registration has ended.
			return s.retry(ctx, func() (bool, error) {
				is, err := s.registered(ctx, namespace)
				if err == nil && !is {
					err = fmt.Errorf("%w for %s after %v: run the command again later", errRegistering, namespace,
						retryWithin)
					return false, err
				}
				return true, err
			})
		},
	}
}

// errRegistering means that a registration takes longer than the setup waits.
var errRegistering = errors.New("azure setup: the subscription is still being registered")

// registered reports whether the subscription is registered for a provider. A registration in progress takes minutes.
func (s *Setup) registered(ctx context.Context, namespace string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	out, err := s.providers.Get(ctx, namespace, nil)
	return out.RegistrationState != nil && *out.RegistrationState == "Registered", err
}

func (s *Setup) group() Step {
	get := func(ctx context.Context) (*armresources.ResourceGroup, error) {
		ctx, cancel := context.WithTimeout(ctx, callWithin)
		defer cancel()
		out, err := s.groups.Get(ctx, s.cfg.ResourceGroup, nil)
		if isGone(err) {
			return nil, nil
		}
		return &out.ResourceGroup, err
	}
	return Step{
		Name: "resource group " + s.cfg.ResourceGroup,
		Commands: []string{fmt.Sprintf("az group create --name %s --location %s --subscription %s --tags %s=%s",
			quote(s.cfg.ResourceGroup), s.cfg.Location, s.cfg.Subscription, tagDeployment, quote(s.cfg.Deployment))},
		Stays: fmt.Sprintf("it has other resources: az resource list --resource-group %s --subscription %s",
			quote(s.cfg.ResourceGroup), s.cfg.Subscription),
		there: func(ctx context.Context) (bool, error) {
			found, err := get(ctx)
			return found != nil && err == nil && !deleting(found), err
		},
		make: func(ctx context.Context) error {
			return s.retry(ctx, func() (bool, error) {
				call, cancel := context.WithTimeout(ctx, callWithin)
				defer cancel()
				_, err := s.groups.CreateOrUpdate(call, s.cfg.ResourceGroup, armresources.ResourceGroup{
					Location: &s.cfg.Location, Tags: map[string]*string{tagDeployment: &s.cfg.Deployment},
				}, nil)
				var response *azcore.ResponseError
				return !errors.As(err, &response) || response.ErrorCode != "ResourceGroupBeingDeleted", err
			})
		},
		remove: func(ctx context.Context) error {
			found, err := get(ctx)
			if err != nil {
				return err
			}
			return s.removeGroup(ctx, found)
		},
	}
}

// deleting reports whether a group is being deleted, which takes minutes. Until then it exists, but accepts nothing
// (Resource Manager API, ResourceGroupProperties.provisioningState; "Troubleshoot common Azure deployment errors",
// ResourceGroupBeingDeleted).
func deleting(g *armresources.ResourceGroup) bool {
	return g.Properties != nil && g.Properties.ProvisioningState != nil && *g.Properties.ProvisioningState == "Deleting"
}

// removeGroup deletes the deployment's networks. It deletes the whole group if this package created it and nothing
// else is in it.
func (s *Setup) removeGroup(ctx context.Context, group *armresources.ResourceGroup) error {
	others := 0
	var own []string
	pages := s.resources.NewListByResourceGroupPager(s.cfg.ResourceGroup, nil)
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, r := range page.Value {
			if r.Tags[tagDeployment] != nil && *r.Tags[tagDeployment] == s.cfg.Deployment && r.ID != nil &&
				strings.Contains(strings.ToLower(*r.ID), "/providers/microsoft.network/") {
				own = append(own, *r.ID)
			} else {
				others++
			}
		}
	}
	mine := group != nil && group.Tags[tagDeployment] != nil && *group.Tags[tagDeployment] == s.cfg.Deployment
	if mine && others == 0 {
		call, cancel := context.WithTimeout(ctx, callWithin)
		defer cancel()
		_, err := s.groups.BeginDelete(call, s.cfg.ResourceGroup, nil) // not waited for, because it takes minutes
		return err
	}
	// the security group after the network
	for _, kind := range []string{"/virtualnetworks/", "/networksecuritygroups/"} {
		for _, id := range own {
			if strings.Contains(strings.ToLower(id), kind) {
				if err := s.drop(ctx, id, networkVersion); err != nil {
					return err
				}
			}
		}
	}
	if !mine {
		return errNotOurs
	}
	return errInUse
}

// role is a set of rights at a scope.
type role struct {
	of, scope, what string
	actions         []string
}

func (s *Setup) roleName(r role) string {
	return fmt.Sprintf("Tradewind %s %s %s", s.cfg.Deployment, r.of, s.id("role " + r.of)[:8])
}

func (s *Setup) roleID(r role) string {
	return r.scope + "/providers/Microsoft.Authorization/roleDefinitions/" + s.id("role "+r.of)
}

func (s *Setup) definition(r role) Step {
	// Encoding strings cannot fail.
	text, _ := json.Marshal(map[string]any{
		"Name": s.roleName(r), "IsCustom": true, "Description": "Tradewind: " + r.what, "Actions": r.actions,
		"AssignableScopes": []string{r.scope},
	})
	return Step{
		Name: "role " + s.roleName(r),
		Commands: []string{
			fmt.Sprintf("az role definition create --subscription %s --role-definition %s", s.cfg.Subscription,
				quote(string(text))),
		},
		there: func(ctx context.Context) (bool, error) {
			found, err := s.get(ctx, s.roleID(r), roleVersion)
			return found != nil && sameActions(found, r.actions), err
		},
		make: func(ctx context.Context) error {
			return s.put(ctx, s.roleID(r), roleVersion, armresources.GenericResource{Properties: map[string]any{
				"roleName": s.roleName(r), "type": "CustomRole", "description": "Tradewind: " + r.what,
				"assignableScopes": []string{r.scope},
				"permissions":      []any{map[string]any{"actions": r.actions, "notActions": []string{}}},
			}})
		},
		remove: func(ctx context.Context) error { return s.drop(ctx, s.roleID(r), roleVersion) },
	}
}

// sameActions reports whether a role has exactly the rights that are needed now; otherwise it is updated.
func sameActions(found *armresources.GenericResource, want []string) bool {
	raw, err := json.Marshal(found.Properties)
	if err != nil {
		return false
	}
	var p struct {
		Permissions []struct {
			Actions []string `json:"actions"`
		} `json:"permissions"`
	}
	if json.Unmarshal(raw, &p) != nil || len(p.Permissions) != 1 {
		return false
	}
	return strings.EqualFold(strings.Join(p.Permissions[0].Actions, " "), strings.Join(want, " "))
}

func (s *Setup) identityName() string { return "tradewind-" + s.id("identity")[:8] }

func (s *Setup) identityID() string {
	return s.groupID() + "/providers/Microsoft.ManagedIdentity/userAssignedIdentities/" + s.identityName()
}

func (s *Setup) identity() Step {
	return Step{
		Name: "identity " + s.identityName(),
		Commands: []string{
			fmt.Sprintf("az identity create --name %s --resource-group %s --location %s --subscription %s",
				s.identityName(), quote(s.cfg.ResourceGroup), s.cfg.Location, s.cfg.Subscription),
		},
		there: func(ctx context.Context) (bool, error) {
			found, err := s.get(ctx, s.identityID(), identityVersion)
			return found != nil, err
		},
		make: func(ctx context.Context) error {
			return s.put(ctx, s.identityID(), identityVersion, armresources.GenericResource{
				Location: &s.cfg.Location, Tags: map[string]*string{tagDeployment: to.Ptr(s.cfg.Deployment)},
			})
		},
		remove: func(ctx context.Context) error { return s.drop(ctx, s.identityID(), identityVersion) },
	}
}

// Identity is the Azure identity of a broker that runs outside of Azure; it buys the machines.
type Identity struct {
	Client string // its application's ID
	Object string // object ID, for role assignments
	Tenant string // the directory that it is in
}

// Identity returns the identity that was created; it is empty if there is none yet.
func (s *Setup) Identity(ctx context.Context) (who Identity, err error) {
	found, err := s.get(ctx, s.identityID(), identityVersion)
	if err != nil || found == nil {
		return who, err
	}
	p, _ := found.Properties.(map[string]any)
	who.Client, _ = p["clientId"].(string)
	who.Object, _ = p["principalId"].(string)
	who.Tenant, _ = p["tenantId"].(string)
	return who, nil
}

// trust allows the use of the identity with tokens of the other issuer, without a secret.
func (s *Setup) trust() Step {
	f, id := s.cfg.Federation, s.identityID()+"/federatedIdentityCredentials/broker"
	return Step{
		Name: "trust in " + f.Subject,
		Commands: []string{
			fmt.Sprintf("az identity federated-credential create --name broker --identity-name %s --resource-group %s"+
				" --subscription %s --issuer %s --subject %s --audiences %s", s.identityName(),
				quote(s.cfg.ResourceGroup),
				s.cfg.Subscription, quote(f.Issuer), quote(f.Subject), quote(f.Audience)),
		},
		there: func(ctx context.Context) (bool, error) {
			found, err := s.get(ctx, id, identityVersion)
			if err != nil || found == nil {
				return false, err
			}
			p, _ := found.Properties.(map[string]any)
			return p["issuer"] == f.Issuer && p["subject"] == f.Subject, nil
		},
		make: func(ctx context.Context) error {
			return s.put(ctx, id, identityVersion, armresources.GenericResource{Properties: map[string]any{
				"issuer": f.Issuer, "subject": f.Subject, "audiences": []string{f.Audience},
			}})
		},
		remove: func(ctx context.Context) error { return s.drop(ctx, id, identityVersion) },
	}
}

// assignment gives one of this deployment's roles to the buyer.
func (s *Setup) assignment(r role) Step { return s.assign(r, s.roleName(r), s.roleID(r)) }

// benefit gives one of Azure's built-in roles to the buyer. Few users may do that, and the driver works without it.
func (s *Setup) benefit(r role) Step {
	step := s.assign(r, r.what, "/providers/Microsoft.Authorization/roleDefinitions/"+r.of)
	step.optional = true
	return step
}

func (s *Setup) assign(r role, name, definition string) Step {
	id := r.scope + "/providers/Microsoft.Authorization/roleAssignments/" + s.id("assignment "+r.of+" "+s.cfg.Principal)
	who, kind := quote(s.cfg.Principal), s.cfg.PrincipalType
	if s.cfg.Federation != nil {
		kind = "ServicePrincipal"
		who = fmt.Sprintf(
			`"$(az identity show --name %s --resource-group %s --subscription %s --query principalId -o tsv)"`,
			s.identityName(),
			quote(s.cfg.ResourceGroup),
			s.cfg.Subscription,
		)
	}
	if kind != "" { // otherwise Azure looks it up
		who += " --assignee-principal-type " + kind
	}
	return Step{
		Name: "assignment of role " + name,
		Commands: []string{
			fmt.Sprintf("az role assignment create --assignee-object-id %s --role %s --scope %s", who, quote(name),
				r.scope),
		},
		there: func(ctx context.Context) (bool, error) {
			found, err := s.get(ctx, id, roleVersion)
			return found != nil, err
		},
		make: func(ctx context.Context) error {
			object := s.cfg.Principal
			if s.cfg.Federation != nil {
				who, err := s.Identity(ctx)
				if object = who.Object; err != nil {
					return err
				}
			}
			properties := map[string]any{"roleDefinitionId": definition, "principalId": object}
			if kind != "" {
				properties["principalType"] = kind
			}
			return s.put(ctx, id, roleVersion, armresources.GenericResource{Properties: properties})
		},
		remove: func(ctx context.Context) error { return s.drop(ctx, id, roleVersion) },
	}
}

// quote quotes a text as one word for the shell.
func quote(text string) string {
	const plainly = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@"
	plain := strings.Trim(text, plainly) == ""
	if plain && text != "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
