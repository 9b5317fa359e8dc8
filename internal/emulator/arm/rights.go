package arm

import (
	"net/http"
	"strings"
)

// Types of roles and their assignments.
const (
	typeRole       = "Microsoft.Authorization/roleDefinitions"
	typeAssignment = "Microsoft.Authorization/roleAssignments"
	typeIdentity   = "Microsoft.ManagedIdentity/userAssignedIdentities"
	typeTrust      = typeIdentity + "/federatedIdentityCredentials"
)

// builtIn are the roles that every directory has.
var builtIn = map[string]string{
	"/providers/microsoft.authorization/roledefinitions/d534ad90-4ac5-4815-a178-b2e47397baab": "Savings plan Reader",
	"/providers/microsoft.authorization/roledefinitions/582fc458-8989-419f-a480-75249bc5db7e": "Reservations Reader",
}

// checkRights rejects roles without rights, assignments without an existing role or a principal, and incomplete
// federated credentials.
func (s *Server) checkRights(kind string, p map[string]any) *Fault {
	bad := func(code, format string, args ...any) *Fault {
		return fault(http.StatusBadRequest, code, format, args...)
	}
	text := func(key string) string {
		v, _ := p[key].(string)
		return v
	}
	switch kind {
	case typeRole:
		permissions, _ := p["permissions"].([]any)
		scopes, _ := p["assignableScopes"].([]any)
		if text("roleName") == "" || len(permissions) == 0 || len(scopes) == 0 {
			return bad("InvalidRoleDefinition", "The role definition lacks a name, permissions or assignable scopes.")
		}
	case typeAssignment:
		if id := strings.ToLower(text("roleDefinitionId")); s.resources[id] == nil && builtIn[id] == "" {
			return bad("RoleDefinitionDoesNotExist", "The specified role definition with ID '%s' does not exist.",
				text("roleDefinitionId"))
		}
		if id := strings.ToLower(text("roleDefinitionId")); s.unknown[id] > 0 {
			s.unknown[id]--
			return bad("RoleDefinitionDoesNotExist", "The specified role definition with ID '%s' does not exist.",
				text("roleDefinitionId"))
		}
		if text("principalId") == "" {
			return bad("PrincipalNotFound", "Principal '' does not exist in the directory.")
		}
		is, said := s.principals[text("principalId")], text("principalType")
		if is != "" && said != "" && is != said {
			return bad("UnmatchedPrincipalType", "The PrincipalId '%s' has type '%s', which is different from the "+
				"specified PrincipalType '%s'.", text("principalId"), is, said)
		}
	case typeTrust:
		audiences, _ := p["audiences"].([]any)
		if !strings.HasPrefix(text("issuer"), "https://") || text("subject") == "" || len(audiences) != 1 {
			return bad("BadRequest", "A federated identity credential needs an issuer, a subject and one audience.")
		}
	}
	return nil
}

// AddPrincipal adds a principal to the directory: a User, a Group or a ServicePrincipal.
func (s *Server) AddPrincipal(principal, kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.principals[principal] = kind
}

// Resources returns all resources except machines, by type and name.
func (s *Server) Resources() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]bool{}
	for _, r := range s.resources {
		all[r.kind+"/"+r.name] = true
	}
	return all
}

// Registered reports whether the subscription is registered for a provider.
func (s *Server) Registered(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.providers[strings.ToLower(namespace)]
}

// HasGroup reports whether the resource group exists.
func (s *Server) HasGroup() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.groups[strings.ToLower(s.cfg.Group)]
}
