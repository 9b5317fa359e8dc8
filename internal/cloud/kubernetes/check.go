package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// right is a right that the broker needs in a cluster.
type right struct {
	verb, resource string
	group          string
	ofCluster      bool // for the whole cluster, not only for the namespace
	optional       bool
}

// rights are all the rights that the driver uses.
var rights = []right{
	{verb: "create", resource: "pods"}, {verb: "patch", resource: "pods"}, {verb: "delete", resource: "pods"},
	{verb: "list", resource: "pods"}, {verb: "watch", resource: "pods"},
	{verb: "create", resource: "secrets"}, {verb: "delete", resource: "secrets"},
	{verb: "list", resource: "nodes", ofCluster: true}, {verb: "watch", resource: "nodes", ofCluster: true},
	{verb: "list", resource: "events", optional: true},
}

// rights returns the additional rights that are needed for this way of binding gangs.
func (g Gang) rights() (all []right) {
	switch g.By {
	case ByVolcano, ByNative:
		group := map[string]string{ByVolcano: volcanoGroups.Group, ByNative: schedulingv1alpha2.GroupName}[g.By]
		for _, verb := range []string{"create", "delete", "get"} {
			all = append(all, right{verb: verb, resource: "podgroups", group: group, optional: verb == "get"})
		}
	case ByKueue:
		all = append(all, right{verb: "get", resource: "workloads", group: kueueWorkloads[0].Group, optional: true})
	}
	return all
}

// Check implements driver.Checker. For each cluster it reports whether the cluster answers, which rights are missing,
// and the quotas of the namespace.
func (c *Cloud) Check(ctx context.Context) (driver.Report, error) {
	var r driver.Report
	for i := range c.cfg.Places {
		p := &c.cfg.Places[i]
		err := c.checkPlace(ctx, p, &r)
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if err != nil {
			mend := "kubectl --context " + p.Name + " get nodes shows more"
			if cloud.KindOf(Typed(err)) == cloud.Auth {
				mend = "log in to the cluster again, or name another context: " +
					"tradewind cloud add kubernetes --context NAME"
			}
			r.Missing = append(r.Missing, driver.Lack{What: p.Name + ": " + err.Error(), Mend: mend,
				Fatal: len(c.cfg.Places) == 1})
			continue
		}
		r.Regions = append(r.Regions, p.Name)
	}
	return r, nil
}

func (c *Cloud) checkPlace(ctx context.Context, p *Place, r *driver.Report) error {
	who, err := p.Client.SelfSubjectReviews().Create(ctx, selfReview(), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if r.Identity == "" {
		r.Identity = who.Status.UserInfo.Username
	}
	lacks, err := p.lacks(ctx, who.Status.UserInfo.Username)
	if err != nil {
		return err
	}
	r.Missing = append(r.Missing, lacks...)
	if lack, err := c.lacksKeys(ctx, p, who.Status.UserInfo.Username); err != nil {
		return err
	} else if lack != nil {
		r.Missing = append(r.Missing, *lack)
	}
	quotas, err := p.Client.ResourceQuotas(p.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil //nolint:nilerr // without the right to read quotas, they show when the broker buys
	}
	for i := range quotas.Items {
		q := &quotas.Items[i]
		for name, hard := range q.Status.Hard {
			used := q.Status.Used[name]
			r.Quotas = append(r.Quotas, driver.Quota{Name: q.Name + "/" + string(name), Region: p.Name,
				Limit: hard.AsApproximateFloat64(), Used: used.AsApproximateFloat64()})
		}
	}
	return c.checkNodes(ctx, p, r)
}

// lacks returns the rights that the broker does not have, in the namespace and in the cluster.
func (p *Place) lacks(ctx context.Context, user string) (lacks []driver.Lack, err error) {
	all := append(slices.Clone(rights), p.Gang.rights()...)
	for _, ofCluster := range []bool{false, true} {
		var needed []right
		var missing []string
		fatal := false
		for _, need := range all {
			if need.ofCluster != ofCluster {
				continue
			}
			needed = append(needed, need)
			has, err := p.has(ctx, need)
			if err != nil {
				return nil, err
			}
			if !has {
				missing = append(missing, need.verb+" "+need.name())
				fatal = fatal || !need.optional
			}
		}
		where := "in namespace " + p.Namespace
		if ofCluster {
			where = "in the cluster"
		}
		if len(missing) > 0 {
			lacks = append(lacks, driver.Lack{Fatal: fatal, Mend: p.grant(needed, ofCluster, user),
				What: fmt.Sprintf("%s: no right %s to %s", p.Name, where, strings.Join(missing, ", "))})
		}
	}
	return lacks, nil
}

// name returns the resource's name, with its group.
func (r right) name() string {
	if r.group == "" {
		return r.resource
	}
	return r.resource + "." + r.group
}

func (p *Place) has(ctx context.Context, need right) (bool, error) {
	namespace := p.Namespace
	if need.ofCluster {
		namespace = metav1.NamespaceAll
	}
	ask := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: need.verb, Group: need.group, Resource: need.resource,
		},
	}}
	answer, err := p.Client.SelfSubjectAccessReviews().Create(ctx, ask, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

// roleName is the name of the role that grant creates, and of its binding.
const roleName = "tradewind-machines"

// grant returns the command that creates a role with all these rights and binds it to the broker. The command can be
// run again.
func (p *Place) grant(needed []right, ofCluster bool, user string) string {
	kind, metadata := "Role", map[string]string{"name": roleName, "namespace": p.Namespace}
	if ofCluster {
		kind, metadata = "ClusterRole", map[string]string{"name": roleName}
	}
	var rules []rbacv1.PolicyRule
	for _, need := range needed {
		at := slices.IndexFunc(rules, func(r rbacv1.PolicyRule) bool {
			return r.Resources[0] == need.resource && r.APIGroups[0] == need.group
		})
		if at < 0 {
			at = len(rules)
			rules = append(rules, rbacv1.PolicyRule{
				APIGroups: []string{need.group}, Resources: []string{need.resource},
			})
		}
		rules[at].Verbs = append(rules[at].Verbs, need.verb)
	}
	const version = rbacv1.GroupName + "/v1"
	// Encoding text cannot fail.
	text, _ := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{
		map[string]any{"apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules},
		map[string]any{
			"apiVersion": version, "kind": kind + "Binding", "metadata": metadata,
			"roleRef":  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: roleName},
			"subjects": []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		},
	}})
	return "echo '" + strings.ReplaceAll(string(text), "'", `'\''`) + "' | kubectl apply -f -"
}

// keysPath is the path at which an API server publishes the keys with which it signs tokens.
const keysPath = "/openid/v1/jwks"

// Keys returns these keys as a JSON Web Key Set.
func (p *Place) Keys(ctx context.Context) ([]byte, error) {
	return p.Client.Keys(ctx)
}

// lacksKeys checks whether the broker may read the keys with which it verifies pods, if it verifies them. By default,
// service accounts may read them, and users with roles in only a namespace may not.
func (c *Cloud) lacksKeys(ctx context.Context, p *Place, user string) (*driver.Lack, error) {
	if c.cfg.Audience == "" {
		return nil, nil
	}
	ask := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: keysPath, Verb: "get"},
	}}
	answer, err := p.Client.SelfSubjectAccessReviews().Create(ctx, ask, metav1.CreateOptions{})
	if err != nil || answer.Status.Allowed {
		return nil, err
	}
	return &driver.Lack{
		What: fmt.Sprintf("%s: no right to read the keys that verify the identity of pods (%s)", p.Name, keysPath),
		Mend: fmt.Sprintf("kubectl create clusterrolebinding tradewind-keys --user=%s "+
			"--clusterrole=system:service-account-issuer-discovery; or tradewind cloud add kubernetes --unproven-pods",
			user),
		Fatal: true,
	}, nil
}

func (c *Cloud) checkNodes(ctx context.Context, p *Place, r *driver.Report) error {
	nodes, _, _, err := c.look(ctx, p)
	if err != nil {
		return err
	}
	pools, err := p.growing(ctx)
	if err != nil {
		return err
	}
	if len(nodes) == 0 && len(pools) == 0 {
		r.Missing = append(r.Missing, driver.Lack{What: p.Name + ": no node accepts pods of this broker",
			Mend: "tolerate their taints, or name the pools that can grow: " + strings.TrimSpace(poolsHint)})
	}
	return nil
}

const poolsHint = "tradewind cloud add kubernetes --pool TYPE:CPUS:GIB"

func selfReview() *authenticationv1.SelfSubjectReview { return &authenticationv1.SelfSubjectReview{} }
