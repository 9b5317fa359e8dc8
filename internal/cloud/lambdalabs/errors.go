package lambdalabs

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/catalog/quotas"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Codes of this driver's own failures, and codes of the API to which the driver reacts.
const (
	codeNoKey    = "NoAPIKey"
	codeKeyAway  = "APIKeyNotRead"
	codeNoRegion = "RegionNotEnabled"
	codeNoSpot   = "NoSpotMachines"
	codePace     = "LaunchRate"
	codeQuota    = "global/quota-exceeded"
	codeNotFound = "global/object-does-not-exist"
	codeAuth     = "global/invalid-api-key"
	codeInactive = "global/account-inactive"
	codeAddress  = "global/invalid-address"
)

// apiError is an error answer of the API.
type apiError struct {
	failure
	status     int
	retryAfter time.Duration
}

func (e *apiError) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("HTTP %d", e.status)
	}
	return strings.TrimSpace(e.Message + " " + e.Suggestion)
}

// kindOfCode returns the kind of an API's code. A missing resource, such as a machine type that is no longer sold, is
// Capacity, because another type may work.
//
// Source: the schemas ApiError… of https://cloud.lambda.ai/api/v1/openapi.json, version 1.8.3, and its text on
// "provider errors": outages, unavailability, "quota limitations or resource exhaustion" of the providers behind
// Lambda.
func kindOfCode(code string) (cloud.Kind, bool) {
	switch code {
	case "instance-operations/launch/insufficient-capacity", codeNotFound:
		return cloud.Capacity, true
	case codeQuota:
		return cloud.Quota, true
	case codeAuth, codeInactive, codeAddress, codeNoKey:
		return cloud.Auth, true
	case "global/internal-error", "global/unknown":
		return cloud.Transient, true
	case "global/invalid-parameters", "global/duplicate", "instance-operations/launch/file-system-in-wrong-region",
		"instance-operations/launch/file-systems-not-supported", driver.CodeTerminated, driver.CodeBadSpec:
		return cloud.Invalid, true
	}
	if provider, ok := strings.CutPrefix(code, "provider/"); ok {
		switch {
		case strings.Contains(provider, "quota"):
			return cloud.Quota, true
		case strings.Contains(provider, "capacity"), strings.Contains(provider, "exhaust"):
			return cloud.Capacity, true
		}
		return cloud.Transient, true
	}
	return "", false
}

// throttledFor is the wait after a throttling error without a Retry-After: the API allows one request a second.
const throttledFor = time.Second

// Typed converts the error of a call to a *cloud.Error. The kind follows from the error's code or, if that is
// unknown, from its HTTP status. Otherwise the kind is Transient, because a service that did not answer may answer
// later. Typed returns nil for nil, and returns an error that already has a kind unchanged.
func Typed(err error) error {
	var already *cloud.Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	e := &cloud.Error{Kind: cloud.Transient, Cloud: Name, Message: err.Error(), Err: err}
	var api *apiError
	if !errors.As(err, &api) {
		return e
	}
	e.Code, e.RetryAfter = api.Code, api.retryAfter
	if kind, ok := kindOfCode(api.Code); ok && api.status != http.StatusTooManyRequests {
		e.Kind = kind
		if api.Code == codeQuota {
			e.Class = quotas.Account
		}
		return e
	}
	switch {
	case api.status == http.StatusTooManyRequests:
		e.Kind = cloud.Throttled
		if e.RetryAfter <= 0 {
			e.RetryAfter = throttledFor
		}
	case api.status == http.StatusUnauthorized, api.status == http.StatusForbidden:
		e.Kind = cloud.Auth
	case api.status >= 400 && api.status < 500 && api.Code != "":
		e.Kind = cloud.Invalid
	}
	return e
}

// typed returns the *cloud.Error in an error; nil if there is none.
func typed(err error) *cloud.Error {
	var e *cloud.Error
	errors.As(err, &e)
	return e
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

// outcomeUnknown reports whether a failed call may have taken effect, because the API itself did not answer.
func outcomeUnknown(err error) bool {
	var api *apiError
	var own *cloud.Error
	switch {
	case errors.As(err, &api):
		return api.Code == "" && api.status >= http.StatusInternalServerError
	case errors.As(err, &own):
		return false
	}
	return true
}

func isCode(err error, code string) bool {
	e := typed(err)
	return e != nil && e.Code == code
}

func fail(kind cloud.Kind, code, format string, args ...any) error {
	return cloud.Errorf(Name, kind, code, format, args...)
}
