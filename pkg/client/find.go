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

	"github.com/tradewind-broker/tradewind/internal/host/running"
)

// Environment that says which broker is meant, for the command line too.
const (
	EnvEndpoint = "TRADEWIND_ENDPOINT"    // URL of a broker elsewhere
	EnvToken    = "TRADEWIND_TOKEN"       //nolint:gosec // of a broker that is not behind IAM
	EnvSign     = "TRADEWIND_SIGN_REGION" // for an API of AWS behind a name of one's own
)

var (
	// ErrNoBroker says that no endpoint is named and that no broker works on the state folder.
	ErrNoBroker = errors.New("no broker runs here: start one with `tradewind up`, or name one in $" + EnvEndpoint)
	// ErrNoCredentials says that there is nothing to sign requests to AWS with. It wraps the cause.
	ErrNoCredentials = errors.New("no AWS credentials to sign requests with")
)

// EndpointError is about what is no URL of a broker.
type EndpointError struct {
	Reason string // quotes the URL, without a password
	Hint   string // what to write instead
}

// Error implements error.
func (e *EndpointError) Error() string { return e.Reason + " (" + e.Hint + ")" }

// Find makes a client of the broker that the command line would use: that of $TRADEWIND_ENDPOINT (see At), else the one
// that works on $TRADEWIND_STATE or the default state folder. Where there is neither, the error is ErrNoBroker.
func Find(ctx context.Context) (*Client, error) {
	if endpoint := os.Getenv(EnvEndpoint); endpoint != "" {
		return At(ctx, endpoint)
	}
	return In("")
}

// In makes a client of the broker that works on a state folder of this computer; "" is the default one. Where none
// does, the error is ErrNoBroker.
func In(state string) (*Client, error) {
	b, found, err := running.Find(state)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, ErrNoBroker
	}
	return New(b.URL, b.Token), nil
}

// At makes a client of a broker elsewhere. Requests to an API on AWS are signed with the credentials that AWS' tools
// find, $TRADEWIND_SIGN_REGION saying the region of one behind a name of one's own; to others they bear
// $TRADEWIND_TOKEN. The error is an *EndpointError or wraps ErrNoCredentials.
func At(ctx context.Context, endpoint string) (*Client, error) {
	base, region, err := ReadEndpoint(endpoint, os.Getenv(EnvSign))
	if err != nil {
		return nil, err
	}
	return Open(ctx, base, region, os.Getenv(EnvToken))
}

// Open makes a client of a broker whose URL ReadEndpoint has read: signed for a region of AWS, or with a token where
// there is none.
func Open(ctx context.Context, base, region, token string) (*Client, error) {
	if region == "" {
		return New(base, token), nil
	}
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(region), config.WithLogger(logging.Nop{}))
	if err != nil {
		return nil, fmt.Errorf("the configuration of AWS cannot be read: %w", err)
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCredentials, err)
	}
	return NewSigned(base, region, cfg.Credentials), nil
}

// gatewayHost is API Gateway's own name for an API.
var gatewayHost = regexp.MustCompile(`^[a-z0-9]+\.execute-api\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?$`)

// ReadEndpoint checks a broker's URL, and says for which region of AWS requests to it are signed, "" for none; sign is
// the region that the user has named. The error is an *EndpointError.
func ReadEndpoint(raw, sign string) (base, region string, err error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		shown := raw
		if u != nil {
			shown = u.Redacted()
		}
		return "", "", &EndpointError{
			Reason: fmt.Sprintf("%q is no URL of a broker", shown),
			Hint:   "as in http://127.0.0.1:8080 or https://abc123.execute-api.us-east-1.amazonaws.com",
		}
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return "", "", &EndpointError{
			Reason: fmt.Sprintf("%q is no URL of a broker", u.Redacted()),
			Hint:   "the URL ends before ? and #, and has no user; a token is given in $" + EnvToken,
		}
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", "", &EndpointError{
			Reason: fmt.Sprintf("%q would send tokens and jobs in the clear", raw),
			Hint:   "https:// keeps what is sent to oneself",
		}
	}
	if m := gatewayHost.FindStringSubmatch(strings.ToLower(u.Hostname())); m != nil && sign == "" {
		sign = m[1]
	}
	return strings.TrimSuffix(u.String(), "/"), sign, nil
}
