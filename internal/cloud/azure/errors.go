package azure

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/tradewind-broker/tradewind/internal/catalog/quotas"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Name is the catalogue's name of this cloud.
const Name = "azure"

// Codes of this driver's own failures; all other codes come from the API.
const (
	codeTerminated  = driver.CodeTerminated
	codeLost        = driver.CodeLost
	codeBadSpec     = driver.CodeBadSpec
	codeNoRegion    = "RegionNotConfigured"
	codeNoZone      = "NoSuchZone"
	codeNoImage     = "NoDefaultImage"
	codeCredentials = "NoCredentials"
	codeSlow        = "StillCreating"
	codeExists      = "ConditionNotMet"
)

// kinds lists the codes of Azure Resource Manager and of the providers Compute and Network, in calls and operations,
// by kind. A code is Capacity if another zone or machine type may work, Quota if another region or family may work,
// and Invalid if only another request can work. A policy's refusal is Quota, because policies forbid regions and
// machine types.
//
// Source: "Troubleshoot common Azure deployment errors"; "Understand common error messages when you manage virtual
// machines in Azure"; "Troubleshoot allocation failures"; "Throttling Resource Manager requests"; "Error messages for
// Azure Spot Virtual Machines and scale sets".
var kinds = map[cloud.Kind][]string{
	cloud.Capacity: {
		"AllocationFailed", "ZonalAllocationFailed", "OverconstrainedAllocationRequest",
		"OverconstrainedZonalAllocationRequest", "ConstrainedAllocationRequest", "SkuNotAvailable",
		"NotAvailableForSubscription", "VMSizeNotSupported", "SubnetIsFull", "InvalidVMSize",
		"AvailabilityZoneNotSupported", "ZoneNotSupported", "SpotPriceGreaterThanProvidedMaxPrice",
		"AzureSpotIsNotSupportedForThisVMSize", codeNoZone, codeNoImage,
	},
	cloud.Quota: {
		"QuotaExceeded", "ResourceQuotaExceeded", "SpotQuotaExceeded", "LowPriorityQuotaExceeded", "CoreQuotaExceeded",
		"PublicIPCountLimitReached", "IPv4StandardSkuPublicIpCountLimitReached",
		"IPv4BasicSkuPublicIpCountLimitReached",
		"NetworkInterfaceCountLimitReached", "NetcfgSubscriptionMaxResourceCountReached", "ResourceCountExceedsLimit",
		"LocationNotAvailableForResourceType", "LocationNotAvailable", "NoRegisteredProviderFound",
		"RequestDisallowedByPolicy", "RequestDisallowedByAzure", "ScopeLocked",
		"AzureSpotFeatureNotEnabledForSubscription", codeNoRegion,
	},
	cloud.Auth: {
		"AuthorizationFailed", "LinkedAuthorizationFailed", "AuthenticationFailed", "InvalidAuthenticationToken",
		"InvalidAuthenticationTokenTenant", "InvalidAuthenticationTokenAudience", "ExpiredAuthenticationToken",
		"AuthenticationFailedMissingToken", "InvalidSubscriptionId", "SubscriptionNotFound",
		"SubscriptionNotRegistered",
		"MissingSubscriptionRegistration", "ReadOnlyDisabledSubscription", "SubscriptionDisabled", "DisallowedProvider",
		"ResourceGroupNotFound", "Forbidden", "Unauthorized", codeCredentials,
	},
	cloud.Throttled: {
		"TooManyRequests", "SubscriptionRequestsThrottled", "ResourceRequestsThrottled",
		"ResourceCollectionRequestsThrottled", "TenantRequestsThrottled", "HighCostGetRequestsThrottled",
	},
	cloud.Transient: {
		"InternalServerError", "InternalError", "InternalExecutionError", "InternalOperationError",
		"InternalDiskManagementError",
		"NetworkingInternalOperationError", "RetryableError", "RetryableErrorDueToAnotherOperation", "ServerTimeout",
		"GatewayTimeout", "ServiceUnavailable", "ServerBusy", "Conflict", "AnotherOperationInProgress",
		"OperationPreempted", "OperationPreemptedByAnotherOperation", "Canceled", "VMStartTimedOut",
		"OSProvisioningTimedOut",
		"OSProvisioningInternalError", "ReferencedResourceNotProvisioned", "NicReservedForAnotherVm", "NicInUse",
		"AttachDiskWhileBeingDetached", "InUseSubnetCannotBeDeleted", "PublicIPAddressCannotBeDeleted",
		// Made or removed a moment ago, and not yet known everywhere.
		"ResourceNotFound", "ParentResourceNotFound", "InvalidResourceReference", "NotFound", codeExists,
		"PreconditionFailed", codeSlow,
	},
	cloud.Invalid: {
		"InvalidParameter", "InvalidRequestContent", "InvalidRequestFormat", "BadRequest", "MissingApiVersionParameter",
		"PropertyChangeNotAllowed", "PlatformImageNotFound", "ImageNotFound", "GalleryImageNotFound", "InvalidImage",
		"MarketplacePurchaseEligibilityFailed", "ResourcePurchaseValidationFailed", "VMMarketplaceInvalidInput",
		"InvalidTagNameCharacters", "InvalidTagValueLength", "TagLimitExceeded", "InvalidResourceName",
		"MaxPriceValueInvalid", codeTerminated, codeBadSpec,
	},
}

// kindOfCode looks a code up in kinds.
func kindOfCode(code string) (cloud.Kind, bool) {
	for kind, codes := range kinds {
		for _, c := range codes {
			if strings.EqualFold(c, code) {
				return kind, true
			}
		}
	}
	return "", false
}

// refused has the codes with which Azure refuses a machine type, with status 400 and 409. Only the message shows that
// the type is the cause.
var refused = map[string]bool{"InvalidParameter": true, "BadRequest": true, "OperationNotAllowed": true}

// kindOf returns the kind of a code. If a code has several meanings, the message decides.
func kindOf(code, message string) (cloud.Kind, bool) {
	message = strings.ToLower(message)
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(message, w) {
				return true
			}
		}
		return false
	}
	switch {
	case code == "OperationNotAllowed" && has("too many requests"):
		return cloud.Throttled, true
	case has("max price", "maxprice") && (code == "OperationNotAllowed" || has("spot")):
		return cloud.Capacity, true // the price is above the bid, so there is no capacity for us
	case has("azure spot") && has("not enabled"):
		return cloud.Quota, true // the subscription may not buy spot machines
	case has("azure spot") && has("vm size"), refused[code] && has("vm size") && has("not available", "not supported",
		"not valid", "cannot boot", "only supports"), code == "InvalidParameter" && has("the vm size"):
		return cloud.Capacity, true // the type does not exist in this region or market, or does not fit the image
	case code == "OperationNotAllowed":
		return kindOfDenied(has), true
	case has("capacityreservationgroup", "capacity reservation"):
		return cloud.Capacity, true // the machine's reservation does not fit or is missing: not the task's fault
	}
	return kindOfCode(code)
}

// kindOfDenied returns the kind of OperationNotAllowed, which Azure uses for quotas and for conflicts.
func kindOfDenied(has func(words ...string) bool) cloud.Kind {
	switch {
	case has("quota", "limit", "not supported", "not available"):
		return cloud.Quota
	case has("being deleted", "in progress", "is attached"):
		return cloud.Transient
	}
	return cloud.Invalid
}

// throttledFor is the wait after a throttling error without a Retry-After: the API's buckets refill every minute
// ("Throttling limits for compute resources").
const throttledFor = 30 * time.Second

// maxMessage is the maximum length of the cloud's message in an error, in bytes.
const maxMessage = 1000

// detail is an error in Azure's format, with its causes.
type detail struct {
	Code    string   `json:"code"`
	Message string   `json:"message"`
	Details []detail `json:"details"`
}

// find returns the outermost error with a known code, or the outermost error if no code is known.
func (d detail) find() detail {
	if _, ok := kindOf(d.Code, d.Message); ok {
		return d
	}
	for _, inner := range d.Details {
		if found := inner.find(); found.Code != "" {
			if _, ok := kindOf(found.Code, found.Message); ok {
				return found
			}
		}
	}
	return d
}

// DecodeError reads a code and a message from the body of an error, or of a failed operation. It never fails: both
// are empty if it cannot read the body.
func DecodeError(body []byte) (code, message string) {
	var in struct {
		Error detail `json:"error"`
		detail
	}
	if json.Unmarshal(body, &in) != nil {
		return "", ""
	}
	d := in.Error
	if d.Code == "" && d.Message == "" {
		d = in.detail
	}
	d = d.find()
	return d.Code, d.Message
}

// Typed converts an error of the API to a *cloud.Error. The kind follows from the error's code or, if that is
// unknown, from its HTTP status. Otherwise the kind is Transient, because a service that did not answer may answer
// later. Typed returns nil for nil, and returns an error that already has a kind unchanged.
func Typed(err error) error {
	var typed *cloud.Error
	if err == nil || errors.As(err, &typed) {
		return err
	}
	e := &cloud.Error{Kind: cloud.Transient, Cloud: Name, Message: err.Error(), Err: err}
	var response *azcore.ResponseError
	var final interface{ NonRetriable() }
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
	case errors.As(err, &response):
		answered(e, response)
	case errors.As(err, &final): // the SDK has no token, and did not send the call
		e.Kind, e.Code = cloud.Auth, codeCredentials
	}
	if e.Kind == cloud.Throttled && e.RetryAfter <= 0 {
		e.RetryAfter = throttledFor
	}
	e.Message = strings.ToValidUTF8(e.Message[:min(len(e.Message), maxMessage)], "")
	return e
}

// answered fills in an error from the API's answer.
func answered(e *cloud.Error, response *azcore.ResponseError) {
	e.Code = response.ErrorCode
	if raw := response.RawResponse; raw != nil {
		e.RetryAfter = retryAfter(raw.Header)
		if body, err := runtime.Payload(raw); err == nil {
			if code, message := DecodeError(body); code != "" {
				e.Code, e.Message = code, message
			}
		}
	}
	if e.Message == "" {
		e.Message = http.StatusText(response.StatusCode)
	}
	known, ok := kindOf(e.Code, e.Message)
	switch status := response.StatusCode; {
	case status == http.StatusTooManyRequests: // regardless of the code
		e.Kind = cloud.Throttled
	case ok:
		e.Kind = known
	case strings.HasSuffix(e.Code, "Throttled"):
		e.Kind = cloud.Throttled
	case strings.HasSuffix(e.Code, "AllocationFailed"):
		e.Kind = cloud.Capacity
	case strings.HasSuffix(e.Code, "LimitReached"), strings.HasSuffix(e.Code, "QuotaExceeded"):
		e.Kind = cloud.Quota
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.Kind = cloud.Auth
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusPreconditionFailed:
		e.Kind = cloud.Transient
	case status >= 400 && status < 500 && e.Code != "":
		e.Kind = cloud.Invalid
	}
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

// unknown reports whether a failed call may have taken effect: there was no answer, or an unclear one.
func unknown(err error) bool {
	var response *azcore.ResponseError
	if !errors.As(err, &response) {
		return cloud.KindOf(Typed(err)) == cloud.Transient
	}
	return response.StatusCode >= 500
}

// isCode reports whether an error of the API has this code, or this HTTP status.
func isCode(err error, status int, code string) bool {
	var response *azcore.ResponseError
	return errors.As(err, &response) && (response.StatusCode == status || response.ErrorCode == code)
}

// gone reports whether the requested resource does not exist.
func gone(err error) bool {
	return isCode(err, http.StatusNotFound, "ResourceNotFound") && !missingGroup(err)
}

// missingGroup reports whether the whole resource group or subscription does not exist.
func missingGroup(err error) bool {
	var response *azcore.ResponseError
	return errors.As(err, &response) &&
		(response.ErrorCode == "ResourceGroupNotFound" || response.ErrorCode == "SubscriptionNotFound")
}

func fail(kind cloud.Kind, code, format string, args ...any) error {
	return cloud.Errorf(Name, kind, code, format, args...)
}

// asError returns err as a *cloud.Error; nil if err is nil.
func asError(err error) *cloud.Error {
	var e *cloud.Error
	if errors.As(Typed(err), &e) {
		return e
	}
	return nil
}

// ofQuota adds the name of the exhausted quota to an error. Azure names the quota in the message: "exceeding approved
// Total Regional Cores quota", "exceeding approved LowPriorityCores quota", "exceeding approved standardDSv3Family
// Cores quota", in older versions "exceeding quota limits of Core". Spot machines count against one quota only.
//
// Source: github.com/openshift/release pull request 33708, github.com/scylladb/scylla-cluster-tests issue 4994,
// github.com/hashicorp/terraform issue 10056.
func ofQuota(spec cloud.LaunchSpec, err error) error {
	e := asError(err)
	if e == nil || e.Kind != cloud.Quota || e.Class != "" || e.Scope != "" {
		return err
	}
	said := strings.ToLower(e.Message)
	again := *e
	again.Err = err
	switch {
	case strings.Contains(strings.ToLower(e.Code), "countlimit"), strings.HasPrefix(e.Code, "Netcfg"):
		again.Class = quotas.Region // of addresses or network interfaces
	case strings.HasPrefix(e.Code, "LocationNotAvailable"):
		again.Scope = cloud.ScopeRegion
	case !strings.Contains(said, "quota") && e.Code != "OperationNotAllowed":
		return err // a policy
	case spec.Offer.Spot:
		again.Class = quotas.AzureSpot
	case strings.Contains(said, "total regional"), strings.Contains(said, "approved "+quotas.AzureCores),
		strings.Contains(said, "limits of core"):
		again.Class = quotas.AzureCores
	default:
		again.Class = quotas.AzureFamily(spec.Offer.InstanceType)
	}
	return &again
}
