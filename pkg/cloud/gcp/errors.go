package gcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/auth"
	"golang.org/x/oauth2"
	compute "google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
)

// Name is the catalogue's name of this cloud.
const Name = "gcp"

// Codes of this driver's own failures; all others are Google's.
const (
	codeNoRegion    = "RegionNotEnabled"
	codeNotSold     = "MachineTypeNotSold"
	codeNoImage     = "NoImage"
	codeCredentials = "NoCredentials"
	codeSlow        = "OperationNotOver"
	codeLost        = driver.CodeLost
)

// kinds types Google's codes: the reasons of answers (camelCase) and of newer APIs, and the codes of operations. A code
// is Capacity when another zone or machine type may do, Quota when another region or family may, Invalid when nothing
// but another request helps.
//
// Source: Compute Engine documentation, "Troubleshooting VM creation", "Troubleshooting resource availability errors",
// "Allocation quotas", "API rate limits"; Google API design guide, "Errors"; the words of the codes as the published
// description of the API and its forums have them.
var kinds = map[string]cloud.Kind{
	"ZONE_RESOURCE_POOL_EXHAUSTED": cloud.Capacity, "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": cloud.Capacity,
	"RESOURCE_POOL_EXHAUSTED": cloud.Capacity, "RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": cloud.Capacity,
	"STOCKOUT": cloud.Capacity, "RESOURCE_EXHAUSTED": cloud.Capacity, "VM_MIN_COUNT_NOT_REACHED": cloud.Capacity,
	"UNSUPPORTED_OPERATION": cloud.Capacity, "UNSUPPORTED_LOCATION": cloud.Capacity,
	"IP_SPACE_EXHAUSTED": cloud.Capacity, "IP_SPACE_EXHAUSTED_WITH_DETAILS": cloud.Capacity,
	codeNotSold: cloud.Capacity,

	"QUOTA_EXCEEDED": cloud.Quota, "quotaExceeded": cloud.Quota, "LIMIT_EXCEEDED": cloud.Quota,
	"limitExceeded": cloud.Quota,
	// a network or an account that is not there: no fault of the task, whose image was looked at before
	"RESOURCE_NOT_FOUND": cloud.Quota,

	"forbidden": cloud.Auth, "required": cloud.Invalid, "authError": cloud.Auth, "insufficientPermissions": cloud.Auth,
	"PERMISSION_DENIED": cloud.Auth, "PERMISSIONS_ERROR": cloud.Auth, "UNAUTHENTICATED": cloud.Auth,
	"ACCESS_TOKEN_EXPIRED": cloud.Auth, "ACCESS_TOKEN_SCOPE_INSUFFICIENT": cloud.Auth,
	"CREDENTIALS_MISSING": cloud.Auth, "ACCOUNT_STATE_INVALID": cloud.Auth,
	"SERVICE_DISABLED": cloud.Auth, "accessNotConfigured": cloud.Auth, "SERVICE_NOT_ACTIVATED": cloud.Auth,
	"CONSUMER_INVALID": cloud.Auth, "CONSUMER_SUSPENDED": cloud.Auth, "BILLING_DISABLED": cloud.Auth,
	"billingNotEnabled": cloud.Auth, "accountDisabled": cloud.Auth, "USER_PROJECT_DENIED": cloud.Auth,
	// what an organisation forbids, all of this cloud's launches would meet; see typedAnswer for places
	"conditionNotMet": cloud.Auth, "CONDITION_NOT_MET": cloud.Auth, "ORG_POLICY_VIOLATION": cloud.Auth,
	codeCredentials: cloud.Auth,

	"rateLimitExceeded": cloud.Throttled, "userRateLimitExceeded": cloud.Throttled,
	"RATE_LIMIT_EXCEEDED": cloud.Throttled, "RESOURCE_OPERATION_RATE_EXCEEDED": cloud.Throttled,
	"concurrentLimitExceeded": cloud.Throttled, "resourceOperationRateExceeded": cloud.Throttled,

	"INTERNAL_ERROR": cloud.Transient, "internalError": cloud.Transient, "backendError": cloud.Transient,
	"RESOURCE_NOT_READY": cloud.Transient, "resourceNotReady": cloud.Transient, "UNAVAILABLE": cloud.Transient,
	"RESOURCE_IN_USE_BY_ANOTHER_RESOURCE": cloud.Transient, "resourceInUseByAnotherResource": cloud.Transient,
	"OPERATION_CANCELED_BY_USER": cloud.Transient, "ABORTED": cloud.Transient, codeSlow: cloud.Transient,
	// made a moment ago, or another launch's of the same name
	"alreadyExists": cloud.Transient, "RESOURCE_ALREADY_EXISTS": cloud.Transient, "ALREADY_EXISTS": cloud.Transient,

	"invalid": cloud.Invalid, "badRequest": cloud.Invalid, "invalidParameter": cloud.Invalid,
	"parseError": cloud.Invalid, "INVALID_USAGE": cloud.Invalid, "INVALID_FIELD_VALUE": cloud.Invalid,
	"INVALID_ARGUMENT": cloud.Invalid, "FAILED_PRECONDITION": cloud.Invalid, "badRequestMissingParam": cloud.Invalid,
	"notFound": cloud.Invalid, "NOT_FOUND": cloud.Invalid,
	driver.CodeTerminated: cloud.Invalid, driver.CodeBadSpec: cloud.Invalid,
}

// throttledFor is how long to wait when Google says only that it is asked too often: limits are by the minute (Compute
// Engine documentation, "API rate limits").
const throttledFor = 15 * time.Second

// Typed makes an *cloud.Error of an error of any of Google's APIs: by its reason, else by its HTTP status, else as
// Transient, because whoever did not answer may later. It returns nil for nil, and what is typed already as it is.
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
		// Whoever gives out tokens has refused; when it merely failed, it may not the next time.
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

// described is what the answer of a server of tokens says (RFC 6749, section 5.2), empty where it is none.
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
	case e.Kind == cloud.Auth && strings.Contains(e.Message, "gcp.resourceLocations"):
		e.Kind = cloud.Quota // an organisation forbids this place, not all
	case e.Code == "notFound" && projectGone(e.Message):
		e.Kind = cloud.Auth // no fault of the task
	}
	ofReservation(e)
}

// ofReservation types what is said of a reservation that a machine was to run on, which is no fault of the task: it is
// ours by the count, so what fills it is just ending; and one that is not there any more is room that is gone.
func ofReservation(e *cloud.Error) {
	if e.Kind != cloud.Invalid || !strings.Contains(e.Message, "pecified reservation") {
		return
	}
	if e.Kind = cloud.Capacity; strings.Contains(e.Message, "available resources") {
		e.Kind = cloud.Transient
	}
}

// projectGone says whether it is the whole project that was not found: its path ends after it.
func projectGone(message string) bool {
	_, rest, ok := strings.Cut(message, "'projects/")
	name, _, closed := strings.Cut(rest, "'")
	return ok && closed && name != "" && !strings.Contains(name, "/")
}

// reason is the code of an answer: that of its ErrorInfo, else of its first error.
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

// retryAfter reads the seconds of a Retry-After header, 0 when it has none.
func retryAfter(h http.Header) time.Duration {
	const most = 3600
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, most)) * time.Second
}

// telling orders the kinds of an operation's errors: of several, the one that says most about what to do.
var telling = []cloud.Kind{cloud.Quota, cloud.Auth, cloud.Invalid, cloud.Capacity, cloud.Throttled, cloud.Transient}

// failure is what an operation failed with; nil where it did not. others are the operations of its single machines,
// which say why where it says only that it is so.
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
	// What is merely a consequence tells nothing where there is a cause.
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
		e.Kind = cloud.Quota
	}
	if e.Kind == cloud.Throttled {
		e.RetryAfter = throttledFor
	}
	ofReservation(e)
	return e
}

// unknown says that a call may have taken effect although it failed: nothing, or nothing definite, was answered.
func unknown(err error) bool {
	var answer *googleapi.Error
	if errors.As(err, &answer) {
		return answer.Code >= http.StatusInternalServerError && cloud.KindOf(Typed(err)) == cloud.Transient
	}
	return cloud.KindOf(Typed(err)) == cloud.Transient && !errors.Is(err, context.Canceled)
}

// isGone says that what was asked for is not there.
func isGone(err error) bool {
	var answer *googleapi.Error
	return errors.As(err, &answer) && answer.Code == http.StatusNotFound && !projectGone(answer.Message)
}

// isForbidden says that whoever asks may not have what was asked for; others may, and other things.
func isForbidden(err error) bool {
	var answer *googleapi.Error
	if !errors.As(err, &answer) || answer.Code != http.StatusForbidden {
		return false
	}
	code := reason(answer)
	return code == "forbidden" || code == "PERMISSION_DENIED"
}

// isThere says that what was to be made is there already.
func isThere(err error) bool {
	var answer *googleapi.Error
	return errors.As(err, &answer) && answer.Code == http.StatusConflict
}

// message is what an answer says, without the code.
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
