package setup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	crm "google.golang.org/api/cloudresourcemanager/v3"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iam/v1"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
)

// policy reads and writes the IAM policy of a resource. A policy is read, changed and written as a whole, including
// other users' bindings and their conditions, which need version 3.
type policy struct {
	get func(context.Context) (*crm.Policy, error)
	set func(context.Context, *crm.Policy) error
}

// policyTries limits the retries when others change the policy at the same time.
const policyTries = 5

func (p policy) step(role, member, command string) step {
	return step{
		name:    fmt.Sprintf("%s for %s", role, member),
		command: fmt.Sprintf(command, "add") + fmt.Sprintf(" --member '%s' --role %s", member, role),
		undo:    fmt.Sprintf(command, "remove") + fmt.Sprintf(" --member '%s' --role %s", member, role),
		look: func(ctx context.Context) (bool, error) {
			now, err := p.get(ctx)
			if err != nil {
				return found(err)
			}
			b := binding(now, role)
			return b != nil && slices.Contains(b.Members, member), nil
		},
		make: func(ctx context.Context) error {
			return p.change(ctx, func(now *crm.Policy) {
				b := binding(now, role)
				if b == nil {
					b = &crm.Binding{Role: role}
					now.Bindings = append(now.Bindings, b)
				}
				if !slices.Contains(b.Members, member) {
					b.Members = append(b.Members, member)
				}
			})
		},
		remove: func(ctx context.Context) error {
			return p.change(ctx, func(now *crm.Policy) {
				if b := binding(now, role); b != nil {
					b.Members = slices.DeleteFunc(b.Members, func(m string) bool { return m == member })
				}
				now.Bindings = slices.DeleteFunc(now.Bindings, func(b *crm.Binding) bool { return len(b.Members) == 0 })
			})
		},
	}
}

// binding returns a role's binding without a condition.
func binding(p *crm.Policy, role string) *crm.Binding {
	for _, b := range p.Bindings {
		if b.Role == role && b.Condition == nil {
			return b
		}
	}
	return nil
}

// change applies f to the current policy and writes the result. If another writer was faster, it starts again.
func (p policy) change(ctx context.Context, f func(*crm.Policy)) error {
	for n := 1; ; n++ {
		now, err := p.get(ctx)
		if err != nil {
			return err
		}
		f(now)
		now.Version = 3
		err = p.set(ctx, now)
		var answer *googleapi.Error
		if err == nil || n == policyTries || !errors.As(err, &answer) || answer.Code != http.StatusConflict {
			return err
		}
		if err := clock.Pause(ctx, 100*time.Millisecond<<n); err != nil {
			return err
		}
	}
}

// accountBinding grants a role on a service account only.
func (s *Setup) accountBinding(account, role, member string) step {
	path := "projects/" + s.cfg.Project + "/serviceAccounts/" + account
	p := policy{
		get: func(ctx context.Context) (*crm.Policy, error) {
			accounts := s.iam.Projects.ServiceAccounts
			now, err := accounts.GetIamPolicy(path).OptionsRequestedPolicyVersion(3).Context(ctx).Do()
			if err != nil {
				return nil, err
			}
			return convert[crm.Policy](now)
		},
		set: func(ctx context.Context, to *crm.Policy) error {
			accounts := s.iam.Projects.ServiceAccounts
			next, err := convert[iam.Policy](to)
			if err != nil {
				return err
			}
			_, err = accounts.SetIamPolicy(path, &iam.SetIamPolicyRequest{Policy: next}).Context(ctx).Do()
			return err
		},
	}
	return p.step(role, member,
		"gcloud iam service-accounts %s-iam-policy-binding "+account+" --project "+s.cfg.Project)
}

// convert converts a type of one API to a type of another with the same JSON form.
func convert[T any](from any) (*T, error) {
	text, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	to := new(T)
	return to, json.Unmarshal(text, to)
}
