package gce

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	crm "google.golang.org/api/cloudresourcemanager/v3"
	iam "google.golang.org/api/iam/v1"
	logging "google.golang.org/api/logging/v2"
	usage "google.golang.org/api/serviceusage/v1"
)

// identity holds accounts, roles, policies and services, each by its path in the API.
type identity struct {
	enabled  map[string]bool
	accounts map[string]*iam.ServiceAccount
	roles    map[string]*iam.Role
	pools    map[string]*iam.WorkloadIdentityPool
	provider map[string]*iam.WorkloadIdentityPoolProvider
	policies map[string]*crm.Policy
	sinks    map[string]*logging.LogSink
	news     map[string]int // number of calls for which a new service, or a use of a new account, is still unknown
}

func newIdentity() identity {
	return identity{
		enabled: map[string]bool{}, accounts: map[string]*iam.ServiceAccount{}, roles: map[string]*iam.Role{},
		pools: map[string]*iam.WorkloadIdentityPool{}, provider: map[string]*iam.WorkloadIdentityPoolProvider{},
		policies: map[string]*crm.Policy{}, news: map[string]int{},
		sinks: map[string]*logging.LogSink{},
	}
}

// name returns a resource's name, without the API's version and the verb.
func (r *call) name() string {
	_, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	verb := strings.LastIndexByte(name, ':')
	if verb > strings.LastIndexByte(name, '/') {
		name = name[:verb]
	}
	return name
}

// one answers with an existing resource, or not found.
func one[T any](all map[string]*T, r *call) (any, *Fault) {
	if v := all[r.name()]; v != nil {
		return v, nil
	}
	return nil, tpuGone("%s", r.name())
}

func (c *Cloud) getAccount(r *call) (any, *Fault) {
	if c.unsettled("get " + r.name()) {
		return nil, &Fault{Code: http.StatusForbidden, Reason: "forbidden", Status: "PERMISSION_DENIED",
			Message: "Permission 'iam.serviceAccounts.get' denied on resource (or it may not exist)."}
	}
	return one(c.identity.accounts, r)
}

func (c *Cloud) getRole(r *call) (any, *Fault)     { return one(c.identity.roles, r) }
func (c *Cloud) getPool(r *call) (any, *Fault)     { return one(c.identity.pools, r) }
func (c *Cloud) getProvider(r *call) (any, *Fault) { return one(c.identity.provider, r) }

func (c *Cloud) getService(r *call) (any, *Fault) {
	state := "DISABLED"
	if c.identity.enabled[base(r.name())] && !c.weather.off[base(r.name())] {
		state = "ENABLED"
	}
	return &usage.GoogleApiServiceusageV1Service{Name: r.name(), State: state}, nil
}

func (c *Cloud) enableService(r *call) (any, *Fault) {
	c.identity.enabled[base(r.name())], c.weather.off[base(r.name())] = true, false
	c.identity.news[base(r.name())] = c.weather.slow
	return &usage.Operation{Name: "operations/acf." + strconv.FormatUint(c.number(), 10), Done: true}, nil
}

func taken(what string) *Fault {
	return &Fault{Code: http.StatusConflict, Reason: "alreadyExists", Status: "ALREADY_EXISTS",
		Message: what + " already exists"}
}

func (c *Cloud) createAccount(r *call) (any, *Fault) {
	var in iam.CreateServiceAccountRequest
	if err := json.Unmarshal(r.body, &in); err != nil || len(in.AccountId) < 6 || len(in.AccountId) > 30 ||
		!validName.MatchString(in.AccountId) {
		return nil, invalid("Invalid service account ID %s.", in.AccountId)
	}
	email := in.AccountId + "@" + c.cfg.Project + ".iam.gserviceaccount.com"
	name := "projects/" + c.cfg.Project + "/serviceAccounts/" + email
	if c.identity.accounts[name] != nil {
		return nil, taken(name)
	}
	for _, use := range []string{"get ", "policy ", "member "} {
		c.identity.news[use+name] = c.weather.slow
	}
	c.identity.accounts[name] = &iam.ServiceAccount{Name: name, Email: email, ProjectId: c.cfg.Project}
	return c.identity.accounts[name], nil
}

func (c *Cloud) deleteAccount(r *call) (any, *Fault) {
	if c.identity.accounts[r.name()] == nil {
		return nil, tpuGone("%s", r.name())
	}
	delete(c.identity.accounts, r.name())
	return &iam.Empty{}, nil
}

func (c *Cloud) createRole(r *call) (any, *Fault) {
	var in iam.CreateRoleRequest
	if err := json.Unmarshal(r.body, &in); err != nil || in.Role == nil || strings.Contains(in.RoleId, "-") {
		return nil, invalid("The role_id %s is not valid.", in.RoleId)
	}
	if f := checkPermissions(in.Role.IncludedPermissions); f != nil {
		return nil, f
	}
	name := r.name() + "/" + in.RoleId
	if c.identity.roles[name] != nil { // also for a week after it was deleted
		return nil, taken(name)
	}
	in.Role.Name = name
	c.identity.roles[name] = in.Role
	return in.Role, nil
}

func (c *Cloud) patchRole(r *call) (any, *Fault) {
	role := c.identity.roles[r.name()]
	var in iam.Role
	if err := json.Unmarshal(r.body, &in); err != nil || role == nil {
		return nil, tpuGone("%s", r.name())
	}
	if f := checkPermissions(in.IncludedPermissions); f != nil {
		return nil, f
	}
	role.IncludedPermissions = in.IncludedPermissions
	return role, nil
}

// tpuPermission matches the existing permissions of Cloud TPU (IAM documentation, "Cloud TPU roles and permissions").
// All permissions of other services are accepted.
var tpuPermission = regexp.MustCompile(
	`^tpu\.(acceleratortypes|locations|nodes|operations|runtimeversions|tensorflowversions)\.`)

// checkPermissions rejects permissions that do not exist.
func checkPermissions(all []string) *Fault {
	for _, p := range all {
		if strings.HasPrefix(p, "tpu.") && !tpuPermission.MatchString(p) {
			return &Fault{Code: http.StatusBadRequest, Reason: "badRequest", Status: "INVALID_ARGUMENT",
				Message: "Permission " + p + " is not valid."}
		}
	}
	return nil
}

// validPoolID matches the ID of a pool or of a provider.
var validPoolID = regexp.MustCompile(`^[a-z0-9-]{4,32}$`)

// checkPoolID rejects invalid and reserved IDs.
func checkPoolID(id string) *Fault {
	if !validPoolID.MatchString(id) || strings.HasPrefix(id, "gcp-") {
		return invalid("%s is not a valid ID: use 4-32 characters a-z, 0-9 and -, not beginning with gcp-.", id)
	}
	return nil
}

// deleteRole marks a role as deleted, like Google.
func (c *Cloud) deleteRole(r *call) (any, *Fault) {
	role := c.identity.roles[r.name()]
	if role == nil || role.Deleted {
		return nil, tpuGone("%s", r.name())
	}
	role.Deleted = true
	return role, nil
}

func (c *Cloud) undeleteRole(r *call) (any, *Fault) {
	role := c.identity.roles[r.name()]
	if role == nil || !role.Deleted {
		return nil, tpuGone("%s", r.name())
	}
	role.Deleted = false
	return role, nil
}

func (c *Cloud) createPool(r *call) (any, *Fault) {
	id := r.URL.Query().Get("workloadIdentityPoolId")
	if f := checkPoolID(id); f != nil {
		return nil, f
	}
	name := r.name() + "/" + id
	var in iam.WorkloadIdentityPool
	if err := json.Unmarshal(r.body, &in); err != nil || c.identity.pools[name] != nil {
		return nil, taken(name)
	}
	in.Name, in.State = name, "ACTIVE"
	c.identity.pools[name] = &in
	return &iam.Operation{Name: name + "/operations/1", Done: true}, nil
}

func (c *Cloud) poolState(state string) func(*call) (any, *Fault) {
	return func(r *call) (any, *Fault) {
		pool := c.identity.pools[r.name()]
		if pool == nil || pool.State == state {
			return nil, tpuGone("%s", r.name())
		}
		pool.State = state
		return &iam.Operation{Name: r.name() + "/operations/1", Done: true}, nil
	}
}

func (c *Cloud) deletePool(r *call) (any, *Fault)   { return c.poolState("DELETED")(r) }
func (c *Cloud) undeletePool(r *call) (any, *Fault) { return c.poolState("ACTIVE")(r) }

func (c *Cloud) createProvider(r *call) (any, *Fault) {
	id := r.URL.Query().Get("workloadIdentityPoolProviderId")
	if f := checkPoolID(id); f != nil {
		return nil, f
	}
	name := r.name() + "/" + id
	var in iam.WorkloadIdentityPoolProvider
	if err := json.Unmarshal(r.body, &in); err != nil || c.identity.provider[name] != nil {
		return nil, taken(name)
	}
	in.Name, in.State = name, "ACTIVE"
	c.identity.provider[name] = &in
	return &iam.Operation{Name: name + "/operations/1", Done: true}, nil
}

func (c *Cloud) crmProject(*call) (any, *Fault) {
	return &crm.Project{Name: "projects/100000000001", ProjectId: c.cfg.Project, State: "ACTIVE"}, nil
}

func (c *Cloud) policy(name string) *crm.Policy {
	p := c.identity.policies[name]
	if p == nil {
		p = &crm.Policy{Etag: "AA=="}
		c.identity.policies[name] = p
	}
	return p
}

// getPolicy omits bindings with conditions unless the caller requests version 3.
func (c *Cloud) getPolicy(r *call) (any, *Fault) {
	if c.unsettled("policy " + r.name()) {
		return nil, tpuGone("%s", r.name())
	}
	var in crm.GetIamPolicyRequest
	_ = json.Unmarshal(r.body, &in) // without a body, no version is requested
	wanted := r.URL.Query().Get("options.requestedPolicyVersion") == "3" ||
		in.Options != nil && in.Options.RequestedPolicyVersion == 3
	return c.shown(r.name(), wanted), nil
}

// shown returns a policy as shown for version 3 (wanted), or for other versions.
func (c *Cloud) shown(name string, wanted bool) *crm.Policy {
	p := *c.policy(name)
	p.Version = 1
	conditional := func(b *crm.Binding) bool { return b.Condition != nil }
	if slices.ContainsFunc(p.Bindings, conditional) {
		p.Version = 3
		if !wanted {
			p.Version, p.Bindings = 1, slices.DeleteFunc(slices.Clone(p.Bindings), conditional)
		}
	}
	return &p
}

// setPolicy replaces a policy. It accepts only a policy derived from the current one.
func (c *Cloud) setPolicy(r *call) (any, *Fault) {
	var in crm.SetIamPolicyRequest
	if err := json.Unmarshal(r.body, &in); err != nil || in.Policy == nil {
		return nil, invalid("no policy")
	}
	return in.Policy, c.replace(r.name(), in.Policy)
}

// replace replaces a policy if next has the current etag.
func (c *Cloud) replace(name string, next *crm.Policy) *Fault {
	for _, b := range next.Bindings {
		for _, m := range b.Members {
			email, _ := strings.CutPrefix(m, "serviceAccount:")
			if c.unsettled("member projects/" + c.cfg.Project + "/serviceAccounts/" + email) {
				return &Fault{Code: http.StatusBadRequest, Reason: "badRequest", Status: "INVALID_ARGUMENT",
					Message: "Service account " + email + " does not exist."}
			}
		}
	}
	if next.Etag != c.policy(name).Etag {
		return &Fault{Code: http.StatusConflict, Reason: "aborted", Status: "ABORTED",
			Message: "There were concurrent policy changes. Please retry the whole read-modify-write."}
	}
	if next.Version != 3 {
		for _, b := range next.Bindings {
			if b.Condition != nil {
				return invalid("Conditions are of version 3 of policies.")
			}
		}
	}
	next.Etag = "AA" + strconv.FormatUint(c.number()%90+10, 10)
	c.identity.policies[name] = next
	return nil
}

// HasRole reports whether a member has a role on a resource (projects/demo, projects/demo/serviceAccounts/…), with or
// without a condition.
func (c *Cloud) HasRole(resource, role, member string, conditional bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.policy(resource).Bindings, func(b *crm.Binding) bool {
		return b.Role == role && slices.Contains(b.Members, member) && (b.Condition != nil) == conditional
	})
}

// Bind adds a binding, like another user of the project.
func (c *Cloud) Bind(resource string, b *crm.Binding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.policy(resource)
	p.Etag, p.Bindings = "AA"+strconv.FormatUint(c.number()%90+10, 10), append(p.Bindings, b)
}

// Created names all created resources except machines: networks, rules, accounts, roles, pools and providers.
func (c *Cloud) Created() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	made := map[string]bool{}
	for n := range maps.Keys(c.world.networks) {
		made["network "+n] = n != "default"
	}
	for n := range c.world.firewalls {
		made["firewall "+n] = true
	}
	for n := range c.identity.accounts {
		made["account "+base(n)] = true
	}
	for n, r := range c.identity.roles {
		made["role "+base(n)] = !r.Deleted
	}
	for n, p := range c.identity.pools {
		made["pool "+base(n)] = p.State == "ACTIVE"
	}
	for n := range c.identity.sinks {
		made["sink "+base(n)] = true
	}
	for n := range c.identity.enabled {
		made["service "+n] = true
	}
	maps.DeleteFunc(made, func(_ string, there bool) bool { return !there })
	return made
}
