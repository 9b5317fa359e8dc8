package aws

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/aws/smithy-go"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
)

// Name is the catalogue's name of this cloud.
const Name = "aws"

// Codes of this driver's own failures; all other codes come from the API.
const (
	codeTerminated  = driver.CodeTerminated
	codeLost        = driver.CodeLost
	codeNoVPC       = "NoVPC"
	codeNoSubnet    = "NoSubnetInZone"
	codeNoRegion    = "RegionNotEnabled"
	codeNoImage     = "NoImage"
	codeBadSpec     = driver.CodeBadSpec
	codeCredentials = "NoCredentials"
)

// kindOfCode returns the kind of an error code of EC2, SSM, S3, Pricing or Service Quotas. A code is Capacity if
// another zone or machine type may work, Quota if another region or family may work, and Invalid if only another
// request can work.
//
// Source: EC2 API reference, "Error codes"; "Common errors" of the query and JSON services.
func kindOfCode(code string) (cloud.Kind, bool) {
	switch code {
	case "InsufficientInstanceCapacity", "InsufficientCapacity", "InsufficientHostCapacity",
		"InsufficientCapacityOnHost",
		"InsufficientReservedInstanceCapacity", "InsufficientVolumeCapacity",
		"InsufficientFreeAddressesInSubnet", "InsufficientAddressCapacity",
		"SpotMaxPriceTooLow", // the price is above the bid, so there is no capacity for us
		"Unsupported",        // this type is not sold in this zone
		"InvalidInstanceType", "InstanceTypeNotSupported",
		"VolumeTypeNotAvailableInZone", "InvalidAvailabilityZone", "InvalidZone.NotFound",
		// A missing reservation is missing capacity: the task is not to blame.
		"InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationState":
		return cloud.Capacity, true
	case "MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "InstanceLimitExceeded",
		"MaxSpotFleetRequestCountExceeded",
		"VolumeLimitExceeded", "MaxIOPSLimitExceeded", "AddressLimitExceeded", "NetworkInterfaceLimitExceeded",
		"PrivateIpAddressLimitExceeded", "SecurityGroupLimitExceeded", "SecurityGroupsPerInstanceLimitExceeded",
		"ResourceLimitExceeded", "ServiceQuotaExceededException", "PendingVerification":
		return cloud.Quota, true
	case "UnauthorizedOperation", "AuthFailure", "ExpiredToken", "ExpiredTokenException", "RequestExpired",
		"InvalidClientTokenId", "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidSignatureException",
		"IncompleteSignature", "AccessDenied", "AccessDeniedException", "UnrecognizedClientException",
		"MissingAuthenticationToken", "MissingAuthenticationTokenException",
		"NotAuthorized", "Blocked", "AllAccessDisabled":
		return cloud.Auth, true
	case "RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled",
		"RequestThrottledException", "EC2ThrottledException", "TooManyRequestsException", "TooManyRequests", "SlowDown",
		"BandwidthLimitExceeded", "PriorRequestNotComplete", "LimitExceededException":
		return cloud.Throttled, true
	case "InternalError", "InternalFailure", "InternalServerError", "InternalErrorException", "ServerInternal",
		"Unavailable", "ServiceUnavailable", "ServiceUnavailableException", "RequestTimeout", "RequestTimeoutException",
		"TransactionInProgressException", "ConcurrentTagAccess", "IncorrectState", "IncorrectInstanceState",
		"IncorrectSpotRequestState", "DependencyViolation",
		// Made or found a moment ago and not yet known everywhere, or removed since it was cached.
		"InvalidInstanceID.NotFound", "InvalidGroup.NotFound", "InvalidGroupId.NotFound",
		"InvalidSecurityGroupID.NotFound", "InvalidSubnetID.NotFound", "InvalidVpcID.NotFound",
		"InvalidNetworkInterfaceID.NotFound", "InvalidGroup.Duplicate",
		// A machine that is just ending still uses the reservation.
		"ReservationCapacityExceeded",
		// Requested before with other parameters, for example with yesterday's image: machines may exist.
		"IdempotentParameterMismatch":
		return cloud.Transient, true
	case "InvalidParameter", "InvalidParameterValue", "InvalidParameterCombination", "MissingParameter",
		"UnknownParameter", "InvalidInput", "InvalidQueryParameter", "MalformedQueryString", "InvalidAction",
		"MissingAction", "ValidationError", "ValidationException", "InvalidAMIID.Malformed", "InvalidAMIID.NotFound",
		"InvalidAMIID.Unavailable", "InvalidAMIName.Malformed", "InvalidBlockDeviceMapping",
		"InvalidUserData.Malformed", "InvalidKeyPair.NotFound", "InvalidInstanceID.Malformed",
		"InvalidGroupId.Malformed", "InvalidSpotDatafeed.NotFound", "BadParameters", "ParameterNotFound",
		"ParameterVersionNotFound", "NoSuchEntity", "NoSuchBucket", "NoSuchKey", "OperationNotPermitted",
		"UnsupportedOperation", "UnsupportedProtocol",
		"UnsupportedHibernationConfiguration", "EncryptedVolumesNotSupported", "TagLimitExceeded", "TagPolicyViolation",
		"InvalidTagKey.Malformed", "OptInRequired", "IdempotentInstanceTerminated", "InvalidPermission.Malformed",
		codeTerminated, codeBadSpec:
		return cloud.Invalid, true
	}
	return "", false
}

// throttledFor is the wait after a throttling error without a Retry-After: a bucket of RunInstances refills two
// requests a second (EC2 API reference, "Request throttling").
const throttledFor = 5 * time.Second

// Typed converts an error of any AWS API to a *cloud.Error. The kind follows from its code, otherwise from its HTTP
// status; otherwise it is Transient, because a service that did not answer may answer later. Typed returns nil for
// nil, and returns an error that already has a kind unchanged.
func Typed(err error) error {
	var typed *cloud.Error
	if err == nil || errors.As(err, &typed) {
		return err
	}
	e := &cloud.Error{Kind: cloud.Transient, Cloud: Name, Message: err.Error(), Err: err}
	var api smithy.APIError
	if errors.As(err, &api) {
		e.Code, e.Message = api.ErrorCode(), api.ErrorMessage()
		if e.Message == "" {
			e.Message = err.Error()
		}
	}
	var response *smithyhttp.ResponseError
	status := 0
	if errors.As(err, &response) && response.Response != nil {
		status = response.HTTPStatusCode()
		e.RetryAfter = retryAfter(response.Response.Header)
	}
	e.Kind = kind(e.Code, status, err)
	if e.Kind == cloud.Auth && e.Code == "" {
		e.Code = codeCredentials
	}
	if e.Kind == cloud.Throttled && e.RetryAfter <= 0 {
		e.RetryAfter = throttledFor
	}
	return e
}

func kind(code string, status int, err error) cloud.Kind {
	code = strings.TrimPrefix(strings.TrimPrefix(code, "Client."), "Server.")
	if k, ok := kindOfCode(code); ok {
		return k
	}
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return cloud.Transient
	case strings.HasPrefix(code, "Throttl"), status == http.StatusTooManyRequests:
		return cloud.Throttled
	case strings.HasPrefix(code, "Insufficient"):
		return cloud.Capacity
	case strings.HasSuffix(code, "LimitExceeded"):
		return cloud.Quota
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return cloud.Auth
	case status >= 400 && status < 500 && code != "" && code != "UnknownError":
		return cloud.Invalid
	case status == 0 && code == "" && strings.Contains(err.Error(), "get identity"):
		return cloud.Auth // the SDK found no credentials; it has no error type for that
	}
	return cloud.Transient
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

// unknown reports whether a failed call may have taken effect: there was no answer, or no definite one.
func unknown(err error) bool {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return true
	}
	switch cloud.KindOf(Typed(err)) {
	case cloud.Transient:
		return true
	default:
		return false
	}
}

func fail(kind cloud.Kind, code, format string, args ...any) error {
	return cloud.Errorf(Name, kind, code, format, args...)
}
