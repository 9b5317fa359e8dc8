package gcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/auth"
	"golang.org/x/oauth2"
	compute "google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"

	"github.com/tradewind-broker/tradewind/internal/base/lazyregexp"
	"github.com/tradewind-broker/tradewind/internal/catalog/quotas"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Name is the catalogue's name of this cloud.
const Name = "gcp"

// Codes of this driver's own failures; all other codes come from Google.
const (
	codeNoRegion    = "RegionNotEnabled"
	codeNotSold     = "MachineTypeNotSold"
	codeNoImage     = "NoImage"
	codeCredentials = cloud.CodeNoCredentials
	codeSlow        = "OperationNotOver"
	codeNoAccount   = "NoServiceAccount"
	codeLost        = driver.CodeLost
)

// kinds maps Google's codes to kinds: the reasons in answers (camelCase) and of newer APIs, and the codes of
// operations. A code is Capacity if another zone or machine type may work, Quota if another region or family may
// work, and Invalid if only another request can work.
//
// Source: Compute Engine documentation, "Troubleshooting VM creation", "Troubleshooting resource availability
// errors", "Allocation quotas", "API rate limits"; Google API design guide, "Errors"; for the spelling of the codes,
// the published description of the API and its forums.
var kinds = map[string]cloud.Kind{
	"ZONE_RESOURCE_POOL_EXHAUSTED": cloud.Capacity, "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": cloud.Capacity,
	"RESOURCE_POOL_EXHAUSTED": cloud.Capacity, "RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": cloud.Capacity,
	"STOCKOUT": cloud.Capacity, "RESOURCE_EXHAUSTED": cloud.Capacity, "VM_MIN_COUNT_NOT_REACHED": cloud.Capacity,
	"UNSUPPORTED_OPERATION": cloud.Capacity, "UNSUPPORTED_LOCATION": cloud.Capacity,
	"IP_SPACE_EXHAUSTED": cloud.Capacity, "IP_SPACE_EXHAUSTED_WITH_DETAILS": cloud.Capacity,
	codeNotSold: cloud.Capacity,

	"QUOTA_EXCEEDED": cloud.Quota, "quotaExceeded": cloud.Quota, "LIMIT_EXCEEDED": cloud.Quota,
	"limitExceeded": cloud.Quota,
	// a missing network or account: not the task's fault, because its image was checked before
	"RESOURCE_NOT_FOUND": cloud.Quota,

	"forbidden": cloud.Auth, "required": cloud.Invalid, "authError": cloud.Auth, "insufficientPermissions": cloud.Auth,
	"PERMISSION_DENIED": cloud.Auth, "PERMISSIONS_ERROR": cloud.Auth, "UNAUTHENTICATED": cloud.Auth,
	"ACCESS_TOKEN_EXPIRED": cloud.Auth, "ACCESS_TOKEN_SCOPE_INSUFFICIENT": cloud.Auth,
	"CREDENTIALS_MISSING": cloud.Auth, "ACCOUNT_STATE_INVALID": cloud.Auth,
	"SERVICE_DISABLED": cloud.Auth, "accessNotConfigured": cloud.Auth, "SERVICE_NOT_ACTIVATED": cloud.Auth,
	"CONSUMER_INVALID": cloud.Auth, "CONSUMER_SUSPENDED": cloud.Auth, "BILLING_DISABLED": cloud.Auth,
	"SERVICE_ACCOUNT_ACCESS_DENIED": cloud.Auth, // the buyer may not act as the machines' account
	"billingNotEnabled":             cloud.Auth, "accountDisabled": cloud.Auth, "USER_PROJECT_DENIED": cloud.Auth,
	// an organisation policy, which would refuse all launches in this cloud; see typedAnswer for location policies
	"conditionNotMet": cloud.Auth, "CONDITION_NOT_MET": cloud.Auth, "ORG_POLICY_VIOLATION": cloud.Auth,
	codeCredentials: cloud.Auth,

	"rateLimitExceeded": cloud.Throttled, "userRateLimitExceeded": cloud.Throttled,
	"RATE_LIMIT_EXCEEDED": cloud.Throttled, "RESOURCE_OPERATION_RATE_EXCEEDED": cloud.Throttled,
	"concurrentLimitExceeded": cloud.Throttled, "resourceOperationRateExceeded": cloud.Throttled,

	"INTERNAL_ERROR": cloud.Transient, "internalError": cloud.Transient, "backendError": cloud.Transient,
	"RESOURCE_NOT_READY": cloud.Transient, "resourceNotReady": cloud.Transient, "UNAVAILABLE": cloud.Transient,
	"RESOURCE_IN_USE_BY_ANOTHER_RESOURCE": cloud.Transient, "resourceInUseByAnotherResource": cloud.Transient,
	"OPERATION_CANCELED_BY_USER": cloud.Transient, "ABORTED": cloud.Transient, codeSlow: cloud.Transient,
	// created a moment ago, or by another launch with the same name
	"alreadyExists": cloud.Transient, "RESOURCE_ALREADY_EXISTS": cloud.Transient, "ALREADY_EXISTS": cloud.Transient,

	"invalid": cloud.Invalid, "badRequest": cloud.Invalid, "invalidParameter": cloud.Invalid,
	"parseError": cloud.Invalid, "INVALID_USAGE": cloud.Invalid, "INVALID_FIELD_VALUE": cloud.Invalid,
	"INVALID_ARGUMENT": cloud.Invalid, "FAILED_PRECONDITION": cloud.Invalid, "badRequestMissingParam": cloud.Invalid,
	"notFound": cloud.Invalid, "NOT_FOUND": cloud.Invalid,
	driver.CodeTerminated: cloud.Invalid, driver.CodeBadSpec: cloud.Invalid,
}

// throttledFor is the wait after a throttling error without a Retry-After: limits are per minute (Compute Engine
// documentation, "API rate limits").
const throttledFor = 15 * time.Second

// Typed converts an error of any Google API to a *cloud.Error. The kind follows from the error's reason or, if that
// is unknown, from its HTTP status. Otherwise the kind is Transient, because a service that did not answer may answer
// later. Typed returns nil for nil, and returns an error that already has a kind unchanged.
func Typed(err error) error {
	var typed *cloud.Error
	if err == nil || errors.As(err, &typed) {
		return err
	}
	e := &cloud.Error{Kind: cloud.Transient, Cloud: Name, Message: err.Error(), Err: err}
	var answer *googleapi.Error
	var token *auth.Error
	var older *oauth2.RetrieveError
	switch {
	case errors.As(err, &token) || errors.As(err, &older):
		// The token server refused the credentials. If it only failed, a retry may work.
		e.Kind, e.Code = cloud.Auth, codeCredentials
		if token != nil && token.Response != nil && token.Response.StatusCode >= http.StatusInternalServerError {
			e.Kind = cloud.Transient
		}
		if token != nil {
			e.Message = cmp.Or(described(token.Body), e.Message)
		} else {
			e.Message = cmp.Or(older.ErrorDescription, e.Message)
		}
	case errors.As(err, &answer):
		typedAnswer(e, answer)
	}
	if e.Kind == cloud.Throttled && e.RetryAfter <= 0 {
		e.RetryAfter = throttledFor
	}
	return e
}

// described returns the error description in a token server's answer (RFC 6749, section 5.2), or "" if there is none.
func described(body []byte) string {
	var answer struct {
		Description string `json:"error_description"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return ""
	}
	return answer.Description
}

func typedAnswer(e *cloud.Error, answer *googleapi.Error) {
	e.Code, e.Message = reason(answer), answer.Message
	if e.Message == "" {
		e.Message = http.StatusText(answer.Code)
	}
	e.RetryAfter = retryAfter(answer.Header)
	known := false
	e.Kind, known = kinds[e.Code]
	switch {
	case known:
	case answer.Code == http.StatusTooManyRequests:
		e.Kind = cloud.Throttled
	case answer.Code == http.StatusUnauthorized || answer.Code == http.StatusForbidden:
		e.Kind = cloud.Auth
	case answer.Code >= 400 && answer.Code < 500 && answer.Code != http.StatusRequestTimeout:
		e.Kind = cloud.Invalid
	default:
		e.Kind = cloud.Transient
	}
	switch {
	case e.Kind == cloud.Throttled && e.Code != "RATE_LIMIT_EXCEEDED" &&
		(hasQuotaFailure(answer) || isQuotaMessage(e.Message)):
		e.Kind, e.Code = cloud.Quota, "QUOTA_EXCEEDED" // of an amount, not of calls in a time
	case e.Kind == cloud.Auth && strings.Contains(e.Message, "gcp.resourceLocations"):
		e.Kind, e.Scope = cloud.Quota, cloud.ScopeRegion // the organisation forbids this location, not all
	case e.Code == "notFound" && projectGone(e.Message):
		e.Kind = cloud.Auth // not the task's fault
	}
	ofReservation(e)
}

// hasQuotaFailure reports whether an answer's details name a quota (google.rpc.QuotaFailure).
func hasQuotaFailure(answer *googleapi.Error) bool {
	return slices.ContainsFunc(answer.Details, func(d any) bool {
		detail, _ := d.(map[string]any)
		kind, _ := detail["@type"].(string)
		return strings.HasSuffix(kind, "google.rpc.QuotaFailure")
	})
}

// isQuotaMessage reports whether Cloud TPU's message names a quota of TPUs that is used up: "Quota limit 'NAME' has
// been exceeded. Limit: 0 in region REGION", or "Quota 'NAME' exhausted. Limit 20800 in region REGION".
func isQuotaMessage(message string) bool {
	return (strings.HasPrefix(message, "Quota '") || strings.HasPrefix(message, "Quota limit '")) &&
		strings.Contains(message, "Limit")
}

// ofReservation sets the kind of an error about the reservation on which a machine was to run. The task is not at
// fault. If the reservation is full, the kind is Transient: by the broker's count it has room, so a machine in it is
// about to end. If the reservation is missing, the kind is Capacity.
func ofReservation(e *cloud.Error) {
	if e.Kind != cloud.Invalid || !strings.Contains(e.Message, "pecified reservation") {
		return
	}
	if e.Kind = cloud.Capacity; strings.Contains(e.Message, "available resources") {
		e.Kind = cloud.Transient
	}
}

// projectGone reports whether the whole project was not found: then the path in the message ends after the project.
func projectGone(message string) bool {
	_, rest, ok := strings.Cut(message, "'projects/")
	name, _, closed := strings.Cut(rest, "'")
	return ok && closed && name != "" && !strings.Contains(name, "/")
}

// reason returns the code of an answer: from its ErrorInfo or, without one, from its first error.
func reason(answer *googleapi.Error) string {
	for _, d := range answer.Details {
		detail, _ := d.(map[string]any)
		kind, _ := detail["@type"].(string)
		if text, _ := detail["reason"].(string); text != "" && strings.HasSuffix(kind, "google.rpc.ErrorInfo") {
			if _, known := kinds[text]; known {
				return text
			}
		}
	}
	for _, i := range answer.Errors {
		if i.Reason != "" {
			return i.Reason
		}
	}
	return ""
}

// retryAfter reads the seconds of a Retry-After header; 0 if there is none.
func retryAfter(h http.Header) time.Duration {
	const most = 3600
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, most)) * time.Second
}

// telling orders the kinds by how useful they are for the next decision. failure returns the first one that an
// operation has.
var telling = []cloud.Kind{cloud.Quota, cloud.Auth, cloud.Invalid, cloud.Capacity, cloud.Throttled, cloud.Transient}

// failure returns the error of an operation, or nil if it did not fail. others are the operations of its single
// machines, which contain the causes if op itself has none.
func failure(op *compute.Operation, others []*compute.Operation) error {
	var all []*cloud.Error
	for _, o := range append([]*compute.Operation{op}, others...) {
		if o.Error == nil {
			continue
		}
		for _, x := range o.Error.Errors {
			all = append(all, operationError(x, o.HttpErrorStatusCode))
		}
	}
	if op.Error == nil || len(all) == 0 {
		return nil
	}
	// A consequence is dropped if there is a cause.
	causes := all[:0:0]
	for _, e := range all {
		if e.Code != "VM_MIN_COUNT_NOT_REACHED" {
			causes = append(causes, e)
		}
	}
	if len(causes) > 0 {
		all = causes
	}
	for _, k := range telling {
		for _, e := range all {
			if e.Kind == k {
				return e
			}
		}
	}
	return all[0]
}

func operationError(x *compute.OperationErrorErrors, status int64) *cloud.Error {
	e := &cloud.Error{Cloud: Name, Code: x.Code, Message: x.Message}
	known := false
	if e.Kind, known = kinds[x.Code]; !known {
		e.Kind = cloud.Transient
		if status >= 400 && status < 500 {
			e.Kind = cloud.Invalid
		}
	}
	if e.Message == "" {
		e.Message = x.Code
	}
	if strings.Contains(e.Message, "gcp.resourceLocations") {
		e.Kind, e.Scope = cloud.Quota, cloud.ScopeRegion
	}
	if e.Kind == cloud.Throttled {
		e.RetryAfter = throttledFor
	}
	ofReservation(e)
	return e
}

// unknown reports whether a failed call may have taken effect: there was no answer, or an unclear one.
func unknown(err error) bool {
	var answer *googleapi.Error
	if errors.As(err, &answer) {
		return answer.Code >= http.StatusInternalServerError && cloud.KindOf(Typed(err)) == cloud.Transient
	}
	return cloud.KindOf(Typed(err)) == cloud.Transient && !errors.Is(err, context.Canceled)
}

// notFound reports whether the requested resource does not exist.
func notFound(err error) bool {
	var answer *googleapi.Error
	return errors.As(err, &answer) && answer.Code == http.StatusNotFound && !projectGone(answer.Message)
}

// isForbidden reports whether the caller may not access the requested resource; that does not affect other callers
// and resources.
func isForbidden(err error) bool {
	var answer *googleapi.Error
	if !errors.As(err, &answer) || answer.Code != http.StatusForbidden {
		return false
	}
	code := reason(answer)
	return code == "forbidden" || code == "PERMISSION_DENIED"
}

// alreadyExists reports whether the resource to be made already exists.
func alreadyExists(err error) bool {
	var answer *googleapi.Error
	return errors.As(err, &answer) && answer.Code == http.StatusConflict
}

// message returns the message of an error, without the code.
func message(err error) string {
	var e *cloud.Error
	if errors.As(Typed(err), &e) {
		return e.Message
	}
	return err.Error()
}

func fail(kind cloud.Kind, code, format string, args ...any) error {
	return cloud.Errorf(Name, kind, code, format, args...)
}

// quotaName matches the quota that Compute Engine's message names: "Quota 'N2_CPUS' exceeded.  Limit: 8.0 in region
// us-central1.", "Quota 'CPUS_ALL_REGIONS' exceeded.  Limit: 12.0 globally."
var quotaName = lazyregexp.New(`Quota '([A-Z0-9_]+)' exceeded`)

// regionWide are the quotas of a region that every machine counts against: of machines and of addresses.
var regionWide = map[string]bool{"INSTANCES": true, "IN_USE_ADDRESSES": true, "INTERNAL_ADDRESSES": true}

// ofQuota adds the name of an exhausted quota, if its message names one that package quotas knows.
func ofQuota(spec cloud.LaunchSpec, err error) error {
	var e *cloud.Error
	if !errors.As(Typed(err), &e) || e.Kind != cloud.Quota {
		return err
	}
	name := quotaName.FindStringSubmatch(e.Message)
	if name == nil {
		return err
	}
	again := *e
	again.Err = err
	switch {
	case regionWide[name[1]]:
		again.Class = quotas.Region
	case quotas.Counts(name[1], spec.Offer):
		again.Class = name[1]
	}
	return &again
}

// ofTPU adds the TPU version to an error about a quota of TPUs.
func ofTPU(spec cloud.LaunchSpec, err error) error {
	var e *cloud.Error
	if !errors.As(Typed(err), &e) || e.Kind != cloud.Quota || !isQuotaMessage(e.Message) {
		return err
	}
	again := *e
	again.Class, again.Err = quotas.GoogleTPUs(spec.Offer.InstanceType), err
	return &again
}
