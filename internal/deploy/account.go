package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/tradewind-broker/tradewind/events"
)

// Reconcile makes the broker of a deployment compare its records with the account now. An update of the stack puts
// polling and schedules into the state of the template, asleep, also while jobs run: CloudFormation sets every property
// of a changed resource. Reconcile switches them on again if work is open. Nothing else would, so the call waits for it
// and repeats it if it fails.
func (t *Target) Reconcile(ctx context.Context, name string) error {
	now := time.Now().UTC()
	event, err := json.Marshal(events.New(fmt.Sprintf("reconcile-deploy-%d", now.UnixNano()), "tradewind/deploy", now,
		events.BrokerReconcile{}))
	if err != nil {
		return err
	}
	function := name + "-" + events.FnReconcile
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval = t.look()
	_, err = backoff.Retry(ctx, func() ([]byte, error) {
		answer, err := t.callFunctionFor(ctx, reconcileWithin, function, event)
		if errors.Is(err, errNoFunction) {
			err = backoff.Permanent(err)
		}
		return answer, err
	}, backoff.WithBackOff(pause), backoff.WithMaxTries(reconcileTries), backoff.WithMaxElapsedTime(0))
	if errors.Is(err, errNoFunction) { // the template has no such function
		return nil
	}
	if err != nil {
		return fmt.Errorf("deploy: function %s, which must switch polling on again if jobs are open; invoke it: "+
			"aws lambda invoke --function-name %s --region %s --invocation-type Event --payload '%s' "+
			"--cli-binary-format raw-in-base64-out /dev/null: %w", function, function, t.Region, event, err)
	}
	t.report(Step{What: "function", Name: function, Status: "done"})
	return nil
}

// reconcileWithin is the maximum time of one call of reconcile; it is longer than the timeout of the function.
// reconcileTries is the maximum number of calls.
const (
	reconcileWithin = 5*time.Minute + 10*time.Second
	reconcileTries  = 6
)

// minConcurrency is the concurrency below which the functions of one busy deployment throttle each other.
const minConcurrency = 100

// Warnings returns the limits and rights that the account lacks in the target's region for a deployment that buys
// there, each with the command that changes it. Unreadable limits are not reported: deploying does not need these
// rights.
func (t *Target) Warnings(ctx context.Context, name string) []string {
	ctx, cancel := context.WithTimeout(ctx, plainWithin)
	defer cancel()
	var found []string
	if n, ok := t.concurrency(ctx); ok && n < minConcurrency {
		found = append(found, fmt.Sprintf("%s: the account runs at most %d Lambda functions at a time, so jobs start "+
			"slowly: aws service-quotas request-service-quota-increase --service-code lambda --quota-code L-B99A9384 "+
			"--desired-value 1000 --region %s", t.Region, n, t.Region))
	}
	if has, ok := t.network(ctx, name); ok && !has {
		found = append(found, fmt.Sprintf("%s: there is no default VPC, and none with the tag %s=%s, so no machine is "+
			"bought there: aws ec2 create-default-vpc --region %s", t.Region, tagDeployment, name, t.Region))
	}
	for _, q := range []struct{ what, code string }{{"on-demand", "L-1216C47A"}, {"spot", "L-34B43A08"}} {
		if limit, ok := t.quota(ctx, q.code); ok && limit < minVCPUs {
			found = append(found, fmt.Sprintf("%s: the account may run %.0f %s vCPUs of standard machines: "+
				"aws service-quotas request-service-quota-increase --service-code ec2 --quota-code %s "+
				"--desired-value 256 --region %s", t.Region, limit, q.what, q.code, t.Region))
		}
	}
	return found
}

// minVCPUs is the quota below which most jobs do not fit.
const minVCPUs = 8

// concurrency returns how many functions the account may run at a time (Lambda API reference, GetAccountSettings).
func (t *Target) concurrency(ctx context.Context) (int, bool) {
	raw, status, err := t.request(ctx, http.MethodGet, "lambda", "/2016-08-19/account-settings/", http.Header{}, nil)
	var out struct {
		AccountLimit struct{ ConcurrentExecutions int }
	}
	if err != nil || status != http.StatusOK || json.Unmarshal(raw, &out) != nil {
		return 0, false
	}
	return out.AccountLimit.ConcurrentExecutions, out.AccountLimit.ConcurrentExecutions > 0
}

// network reports whether machines have a network: the default one, or one that is tagged for the deployment.
func (t *Target) network(ctx context.Context, name string) (has, known bool) {
	for _, in := range []url.Values{
		{"Filter.1.Name": {"is-default"}, "Filter.1.Value.1": {"true"}},
		{"Filter.1.Name": {"tag:" + tagDeployment}, "Filter.1.Value.1": {name}},
	} {
		var out struct {
			IDs []string `xml:"vpcSet>item>vpcId"`
		}
		if err := t.ec2(ctx, "DescribeVpcs", in, &out); err != nil {
			return false, false
		}
		if len(out.IDs) > 0 {
			return true, true
		}
	}
	return false, true
}

// quota returns a quota of EC2 (Service Quotas API reference, GetServiceQuota).
func (t *Target) quota(ctx context.Context, code string) (float64, bool) {
	body, err := json.Marshal(map[string]string{"ServiceCode": "ec2", "QuotaCode": code})
	if err != nil {
		return 0, false
	}
	raw, status, err := t.send(ctx, "servicequotas", "application/x-amz-json-1.1",
		"ServiceQuotasV20190624.GetServiceQuota", body)
	var out struct{ Quota struct{ Value *float64 } }
	if err != nil || status != http.StatusOK || json.Unmarshal(raw, &out) != nil || out.Quota.Value == nil {
		return 0, false
	}
	return *out.Quota.Value, true
}
