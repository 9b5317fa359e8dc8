package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"

	"github.com/tradewind-broker/tradewind/internal/localfiles"
)

// Environment variables that select the broker, also for the command line.
const (
	EnvEndpoint = "TRADEWIND_ENDPOINT"    // URL of a remote broker
	EnvToken    = "TRADEWIND_TOKEN"       //nolint:gosec // for a broker that does not use IAM
	EnvSign     = "TRADEWIND_SIGN_REGION" // region for signing if an AWS API has a custom domain
)

var (
	// ErrNoBroker means that no endpoint is set and no broker is running for the state folder.
	ErrNoBroker = errors.New("no broker is running here: start one with `tradewind up`, or set $" + EnvEndpoint)
	// ErrNoCredentials means that there are no credentials to sign requests to AWS with. It wraps the cause.
	ErrNoCredentials = errors.New("no AWS credentials to sign requests with")
)

// EndpointError has the reason why a string is not a valid broker URL.
type EndpointError struct {
	Reason string // quotes the URL, without a password
	Hint   string // what to write instead
}

// Error implements error.
func (e *EndpointError) Error() string { return e.Reason + " (" + e.Hint + ")" }

// Find makes a client of the broker that the command line would use: the one at $TRADEWIND_ENDPOINT (see At), else the
// one running for $TRADEWIND_STATE or the default state folder. If there is neither, it returns ErrNoBroker.
func Find(ctx context.Context) (*Client, error) {
	if endpoint := os.Getenv(EnvEndpoint); endpoint != "" {
		return At(ctx, endpoint)
	}
	return In("")
}

// In makes a client of the broker running for a state folder on this computer; "" is the default folder. If none is
// running, it returns ErrNoBroker.
func In(state string) (*Client, error) {
	b, found, err := localfiles.FindRunning(state)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, ErrNoBroker
	}
	return New(b.URL, b.Token), nil
}

// At makes a client of a remote broker. Requests to an API on AWS are signed with the default AWS credentials; for a
// custom domain, $TRADEWIND_SIGN_REGION names the region. Requests to other brokers carry $TRADEWIND_TOKEN. The error
// is an *EndpointError or wraps ErrNoCredentials.
func At(ctx context.Context, endpoint string) (*Client, error) {
	base, region, err := ReadEndpoint(endpoint, os.Getenv(EnvSign))
	if err != nil {
		return nil, err
	}
	return Open(ctx, base, region, os.Getenv(EnvToken))
}

// Open makes a client for a URL that ReadEndpoint returned. It signs requests for the given AWS region, or sends the
// token if region is "".
func Open(ctx context.Context, base, region, token string) (*Client, error) {
	if region == "" {
		return New(base, token), nil
	}
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(region), config.WithLogger(logging.Nop{}))
	if err != nil {
		return nil, fmt.Errorf("reading the AWS configuration: %w", err)
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCredentials, err)
	}
	return NewSigned(base, region, cfg.Credentials), nil
}

// gatewayHost matches the default domain of an API in API Gateway.
var gatewayHost = regexp.MustCompile(`^[a-z0-9]+\.execute-api\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?$`)

// ReadEndpoint checks a broker's URL. It returns the URL without a trailing slash, and the AWS region for which
// requests are signed ("" for none); sign is the region that the user set. The error is an *EndpointError.
func ReadEndpoint(raw, sign string) (base, region string, err error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		shown := raw
		if u != nil {
			shown = u.Redacted()
		}
		return "", "", &EndpointError{
			Reason: fmt.Sprintf("%q is not a broker URL", shown),
			Hint:   "for example http://127.0.0.1:8080 or https://abc123.execute-api.us-east-1.amazonaws.com",
		}
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return "", "", &EndpointError{
			Reason: fmt.Sprintf("%q is not a broker URL", u.Redacted()),
			Hint:   "remove the user and everything from ? or #; set a token in $" + EnvToken,
		}
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", "", &EndpointError{
			Reason: fmt.Sprintf("%q would send tokens and jobs unencrypted", raw),
			Hint:   "use https://",
		}
	}
	if m := gatewayHost.FindStringSubmatch(strings.ToLower(u.Hostname())); m != nil && sign == "" {
		sign = m[1]
	}
	return strings.TrimSuffix(u.String(), "/"), sign, nil
}
