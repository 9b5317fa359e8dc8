package aws_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// codes lists all codes that the driver maps, by kind. They are the codes of the EC2 API reference that a launch, a
// list or a termination can return, and those of the driver's calls to other services.
const codes = `
capacity InsufficientInstanceCapacity InsufficientCapacity InsufficientHostCapacity InsufficientCapacityOnHost
capacity InsufficientReservedInstanceCapacity InsufficientVolumeCapacity InsufficientFreeAddressesInSubnet
capacity InsufficientAddressCapacity SpotMaxPriceTooLow Unsupported InvalidInstanceType InstanceTypeNotSupported VolumeTypeNotAvailableInZone
capacity InvalidAvailabilityZone InvalidZone.NotFound Server.InsufficientInstanceCapacity
quota MaxSpotInstanceCountExceeded VcpuLimitExceeded InstanceLimitExceeded MaxSpotFleetRequestCountExceeded VolumeLimitExceeded
quota Client.VolumeLimitExceeded MaxIOPSLimitExceeded AddressLimitExceeded NetworkInterfaceLimitExceeded PrivateIpAddressLimitExceeded
quota SecurityGroupLimitExceeded SecurityGroupsPerInstanceLimitExceeded ResourceLimitExceeded ServiceQuotaExceededException PendingVerification
quota AnyNewLimitExceeded
auth UnauthorizedOperation AuthFailure ExpiredToken ExpiredTokenException RequestExpired InvalidClientTokenId InvalidAccessKeyId
auth SignatureDoesNotMatch InvalidSignatureException IncompleteSignature AccessDenied AccessDeniedException UnrecognizedClientException
auth OptInRequired MissingAuthenticationToken MissingAuthenticationTokenException NotAuthorized Blocked AllAccessDisabled
throttled RequestLimitExceeded Throttling ThrottlingException ThrottledException RequestThrottled RequestThrottledException
throttled EC2ThrottledException TooManyRequestsException TooManyRequests SlowDown BandwidthLimitExceeded PriorRequestNotComplete
throttled LimitExceededException Throttling.User
transient InternalError InternalFailure InternalServerError InternalErrorException ServerInternal Unavailable ServiceUnavailable
transient ServiceUnavailableException RequestTimeout RequestTimeoutException TransactionInProgressException ConcurrentTagAccess
transient IncorrectState IncorrectInstanceState IncorrectSpotRequestState DependencyViolation InvalidInstanceID.NotFound InvalidGroup.NotFound
transient InvalidGroupId.NotFound InvalidSecurityGroupID.NotFound InvalidSubnetID.NotFound InvalidVpcID.NotFound
transient InvalidNetworkInterfaceID.NotFound InvalidGroup.Duplicate IdempotentParameterMismatch Server.InternalError
invalid InvalidParameter InvalidParameterValue InvalidParameterCombination MissingParameter UnknownParameter InvalidInput
invalid InvalidQueryParameter MalformedQueryString InvalidAction MissingAction ValidationError ValidationException InvalidAMIID.Malformed
invalid InvalidAMIID.NotFound InvalidAMIID.Unavailable InvalidAMIName.Malformed InvalidBlockDeviceMapping InvalidUserData.Malformed
invalid InvalidKeyPair.NotFound InvalidInstanceID.Malformed InvalidGroupId.Malformed InvalidSpotDatafeed.NotFound BadParameters
invalid ParameterNotFound ParameterVersionNotFound NoSuchEntity NoSuchBucket NoSuchKey OperationNotPermitted UnsupportedOperation
invalid UnsupportedProtocol UnsupportedHibernationConfiguration EncryptedVolumesNotSupported TagLimitExceeded TagPolicyViolation
invalid InvalidTagKey.Malformed IdempotentInstanceTerminated InvalidPermission.Malformed ClusterTerminated InvalidLaunch
invalid SomethingNobodyKnows
`

func TestEveryCodeHasAKind(t *testing.T) {
	n := 0
	for line := range strings.Lines(codes) {
		words := strings.Fields(line)
		for i, code := range words {
			if i == 0 {
				continue
			}
			n++
			err := fmt.Errorf("operation error EC2: RunInstances: %w", answer(http.StatusBadRequest, "", &smithy.GenericAPIError{Code: code, Message: "in its own words"}))
			var typed *cloud.Error
			if !errors.As(aws.Typed(err), &typed) || string(typed.Kind) != words[0] || typed.Code != code || !strings.HasPrefix(typed.Message, "in its own words") || typed.Cloud != "aws" {
				t.Errorf("%s: %+v, want %s", code, typed, words[0])
			}
			if typed.Kind == cloud.Throttled && typed.RetryAfter <= 0 {
				t.Errorf("%s: no RetryAfter", code)
			}
			if !errors.Is(typed, err) {
				t.Errorf("%s: the cause is lost", code)
			}
		}
	}
	if n < 120 {
		t.Errorf("only %d codes", n)
	}
}

// answer returns an error as the SDK wraps it.
func answer(status int, retryAfter string, err error) error {
	h := http.Header{}
	if retryAfter != "" {
		h.Set("Retry-After", retryAfter)
	}
	return &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status, Header: h}}, Err: err}
}

func TestUnknownCodeFallsBackToStatus(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		kind cloud.Kind
		wait time.Duration
	}{
		"server":   {answer(503, "7", &smithy.GenericAPIError{Code: "Odd"}), cloud.Transient, 7 * time.Second},
		"too many": {answer(429, "9", &smithy.GenericAPIError{Code: "Odd"}), cloud.Throttled, 9 * time.Second},
		"denied":   {answer(403, "", &smithy.GenericAPIError{Code: "Odd"}), cloud.Auth, 0},
		"page":     {answer(404, "", &smithy.GenericAPIError{Code: "UnknownError"}), cloud.Transient, 0},
		"network":  {errors.New("dial tcp: connection refused"), cloud.Transient, 0},
		"deadline": {fmt.Errorf("x: %w", context.DeadlineExceeded), cloud.Transient, 0},
		"silly":    {answer(429, "-5", errors.New("x")), cloud.Throttled, 5 * time.Second},
		"typed":    {fmt.Errorf("x: %w", cloud.Errorf("aws", cloud.Quota, "NoVPC", "none")), cloud.Quota, 0},
	} {
		var typed *cloud.Error
		if !errors.As(aws.Typed(c.err), &typed) || typed.Kind != c.kind || typed.RetryAfter != c.wait || typed.Message == "" {
			t.Errorf("%s: %+v", name, typed)
		}
	}
	if aws.Typed(nil) != nil {
		t.Error("nil becomes an error")
	}
}
