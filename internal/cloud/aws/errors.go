package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/aws/smithy-go"

	"github.com/tradewind-broker/tradewind/internal/catalog/ec2types"
	"github.com/tradewind-broker/tradewind/internal/catalog/quotas"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
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
		"InsufficientFreeAddressesInSubnet", "InsufficientAddressCapacity", "UnfulfillableCapacity",
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
		"NotAuthorized", "Blocked", "AllAccessDisabled",
		"OptInRequired": // the account is not subscribed to EC2 yet
		return cloud.Auth, true
	case "RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled",
		"RequestThrottledException", "EC2ThrottledException", "TooManyRequestsException", "TooManyRequests", "SlowDown",
		"BandwidthLimitExceeded", "PriorRequestNotComplete", "LimitExceededException":
		return cloud.Throttled, true
	case "InternalError", "InternalFailure", "InternalServerError", "InternalErrorException", "ServerInternal",
		"Unavailable", "ServiceUnavailable", "ServiceUnavailableException", "RequestTimeout", "RequestTimeoutException",
		"TransactionInProgressException", "ConcurrentTagAccess", "IncorrectState", "IncorrectInstanceState",
		"IncorrectSpotRequestState", "DependencyViolation",
		// Created or found a moment ago and not yet known everywhere, or removed since it was cached.
		"InvalidInstanceID.NotFound", "InvalidGroup.NotFound", "InvalidGroupId.NotFound",
		"InvalidSecurityGroupID.NotFound", "InvalidSubnetID.NotFound", "InvalidVpcID.NotFound",
		"InvalidNetworkInterfaceID.NotFound", "InvalidGroup.Duplicate",
		// A machine that is just ending still uses the reservation.
		"ReservationCapacityExceeded",
		// The cluster was requested before with other parameters, for example with yesterday's image. Machines may
		// exist.
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
		"InvalidTagKey.Malformed", "IdempotentInstanceTerminated", "InvalidPermission.Malformed",
		codeTerminated, codeBadSpec:
		return cloud.Invalid, true
	}
	return "", false
}

// throttledFor is the wait after a throttling error without a Retry-After: a bucket of RunInstances refills two
// requests a second (EC2 API reference, "Request throttling").
const throttledFor = 5 * time.Second

// Typed converts an error of any AWS API to a *cloud.Error. The kind follows from the error's code or, if that is
// unknown, from its HTTP status. Otherwise the kind is Transient, because a service that did not answer may answer
// later. Typed returns nil for nil, and returns an error that already has a kind unchanged.
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
	ofAccount(e)
	if e.Kind == cloud.Auth && e.Code == "" {
		e.Code = codeCredentials
	}
	if e.Kind == cloud.Throttled && e.RetryAfter <= 0 {
		e.RetryAfter = throttledFor
	}
	return e
}

// ofAccount sets the kind, the scope and the next step of refusals that concern the account.
//
// Sources: EC2 API reference, "Error codes": OptInRequired, PendingVerification. The refusal of an account on the free
// plan: github.com/aws/karpenter-provider-aws pull request 9004, github.com/splunk/attack_range issue 1302.
func ofAccount(e *cloud.Error) {
	switch {
	case e.Code == "InvalidParameterCombination" && strings.Contains(e.Message, "Free Tier"):
		e.Kind, e.Scope = cloud.Capacity, cloud.ScopeType
		e.Message += " The account is on the free plan. Upgrade it: " +
			"aws freetier upgrade-account-plan --account-plan-type PAID"
	case e.Code == "OptInRequired":
		e.Message += " Finish the account's sign-up: add a payment method at " +
			"https://console.aws.amazon.com/billing, then run `tradewind cloud check aws`"
	case e.Code == "PendingVerification":
		e.Scope = cloud.ScopeRegion
		e.Message += " AWS verifies the account for this region, within four hours at most. Buy in other regions " +
			"meanwhile with --regions, or ask: https://console.aws.amazon.com/support"
	}
}

// ofLaunch returns the error of a refused launch. If EC2 finds the request invalid, another machine type may still
// work; and a policy of the account is not the task's fault. So the error is final only in two cases: the task named
// the image, or the cause is in this cluster itself (its user data or its token).
func ofLaunch(spec cloud.LaunchSpec, err error) error {
	var e *cloud.Error
	err = Typed(ofImage(spec, err))
	if !errors.As(err, &e) || e.Kind != cloud.Invalid {
		return quotaOf(spec, err)
	}
	switch {
	case noProfile(e): // every launch of the account would be refused
		again := *e
		again.Kind, again.Err = cloud.Auth, err
		again.Message += " Correct --instance-profile, or create it: " +
			"aws iam create-instance-profile --instance-profile-name NAME"
		return &again
	case e.Code == "InvalidUserData.Malformed", e.Code == "IdempotentInstanceTerminated", e.Code == codeTerminated:
		return err
	case spec.Image != "" && (strings.HasPrefix(e.Code, "InvalidAMI") || e.Code == "InvalidImage"):
		return err
	}
	again := *e
	again.Kind, again.Err = cloud.Capacity, err
	return &again
}

// noProfile reports whether a launch was refused because the account does not have the instance profile, or EC2 does
// not know it yet: "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name".
//
// Source: github.com/skyplane-project/skyplane, which repeats the call then.
func noProfile(e *cloud.Error) bool {
	return e.Code == "InvalidParameterValue" && strings.Contains(e.Message, "Invalid IAM Instance Profile")
}

// NoProfile reports whether EC2 refused a launch because the account does not have the instance profile.
func NoProfile(err error) bool {
	var e *cloud.Error
	return errors.As(Typed(err), &e) && noProfile(e)
}

// quotaOf adds the next step to the error for an exhausted vCPU quota, and the class of types that share the quota.
func quotaOf(spec cloud.LaunchSpec, err error) error {
	var e *cloud.Error
	if !errors.As(err, &e) {
		return err
	}
	again := *e
	switch e.Code {
	case "AddressLimitExceeded", "NetworkInterfaceLimitExceeded", "VolumeLimitExceeded", "MaxIOPSLimitExceeded",
		"SecurityGroupLimitExceeded": // all machines of the region need these
		again.Class, again.Err = quotas.Region, err
		return &again
	case "VcpuLimitExceeded", "MaxSpotInstanceCountExceeded":
	default:
		return err
	}
	again.Class, again.Err = ec2types.QuotaClass(spec.Offer.InstanceType, spec.Offer.Spot), err
	again.Message += fmt.Sprintf(" Ask for more: aws service-quotas list-service-quotas --service-code ec2 --region %s",
		spec.Offer.Region)
	return &again
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

// unknown reports whether a failed call may have taken effect: there was no answer, or an unclear one.
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

// failRegion is fail for a failure that concerns everything in the region.
func failRegion(kind cloud.Kind, code, format string, args ...any) error {
	e := cloud.Errorf(Name, kind, code, format, args...)
	e.Scope = cloud.ScopeRegion
	return e
}

// failType is fail for a failure that concerns the machine type everywhere.
func failType(kind cloud.Kind, code, format string, args ...any) error {
	e := cloud.Errorf(Name, kind, code, format, args...)
	e.Scope = cloud.ScopeType
	return e
}

func fail(kind cloud.Kind, code, format string, args ...any) error {
	return cloud.Errorf(Name, kind, code, format, args...)
}
