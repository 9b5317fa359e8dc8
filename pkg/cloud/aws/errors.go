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

// Codes of this driver's own failures; all others are the API's.
const (
	codeTerminated  = driver.CodeTerminated
	codeLost        = driver.CodeLost
	codeNoVPC       = "NoVPC"
	codeNoSubnet    = "NoSubnetInZone"
	codeNoRegion    = "RegionNotEnabled"
	codeBadSpec     = driver.CodeBadSpec
	codeCredentials = "NoCredentials"
)

// kindOfCode types the codes of EC2, SSM, S3, Pricing and Service Quotas. A code is Capacity when another zone or
// machine type may do, Quota when another region or family may, Invalid when nothing but another request helps.
//
// Source: EC2 API reference, "Error codes"; "Common errors" of the query and JSON services.
func kindOfCode(code string) (cloud.Kind, bool) {
	switch code {
	case "InsufficientInstanceCapacity", "InsufficientCapacity", "InsufficientHostCapacity",
		"InsufficientCapacityOnHost",
		"InsufficientReservedInstanceCapacity", "InsufficientVolumeCapacity",
		"InsufficientFreeAddressesInSubnet", "InsufficientAddressCapacity",
		"SpotMaxPriceTooLow", // the price is above the bid: for us there is none
		"Unsupported",        // this type is not sold in this zone
		"InvalidInstanceType", "InstanceTypeNotSupported",
		"VolumeTypeNotAvailableInZone", "InvalidAvailabilityZone", "InvalidZone.NotFound",
		// A reservation that is gone is room that is gone: the task is not to blame.
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
		// Made or found a moment ago, and not known everywhere yet; or removed since it was cached.
		"InvalidInstanceID.NotFound", "InvalidGroup.NotFound", "InvalidGroupId.NotFound",
		"InvalidSecurityGroupID.NotFound", "InvalidSubnetID.NotFound", "InvalidVpcID.NotFound",
		"InvalidNetworkInterfaceID.NotFound", "InvalidGroup.Duplicate",
		// Room that is ours is taken by a machine that is just ending.
		"ReservationCapacityExceeded",
		// Asked before in other words, for example with yesterday's image: machines may exist.
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

// throttledFor is how long to wait when the API says only that it is asked too often: a bucket of RunInstances refills
// two requests a second (EC2 API reference, "Request throttling").
const throttledFor = 5 * time.Second

// Typed makes an *cloud.Error of an error of any AWS API: by its code, else by its HTTP status, else as Transient,
// because whoever did not answer may later. It returns nil for nil, and what is typed already as it is.
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
		return cloud.Auth // the SDK found no credentials; it has no type for that
	}
	return cloud.Transient
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

// unknown says that a call may have taken effect although it failed: nothing, or nothing definite, was answered.
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
