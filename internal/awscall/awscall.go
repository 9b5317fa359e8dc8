// Package awscall makes single calls of AWS services that are signed by the SDK. The SDK's clients of some services are
// megabytes of code for operations that the program never calls: those that need one or two calls use this package.
package awscall

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// ErrCredentials means that there are no credentials to sign a call with.
var ErrCredentials = errors.New("no AWS credentials")

// maxResponse is the maximum number of bytes of a response.
const maxResponse = 16 << 20

// Call is one request.
type Call struct {
	Method, Path string
	// Service is the name with which the request is signed. Host is the first part of the endpoint's name; empty is
	// Service.
	Service, Host string
	Header        http.Header
	Body          []byte
}

// Do makes a call in a region and returns the body and the status of the response. The context bounds it.
func Do(ctx context.Context, cfg aws.Config, region string, c Call) (body []byte, status int, err error) {
	base := "https://" + cmp.Or(c.Host, c.Service) + "." + region + ".amazonaws.com"
	if cfg.BaseEndpoint != nil {
		base = strings.TrimSuffix(*cfg.BaseEndpoint, "/")
	}
	req, err := http.NewRequestWithContext(ctx, c.Method, base+c.Path, bytes.NewReader(c.Body))
	if err != nil {
		return nil, 0, err
	}
	req.Header = c.Header
	keys, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	sum := sha256.Sum256(c.Body)
	if err := v4.NewSigner().SignHTTP(ctx, keys, req, hex.EncodeToString(sum[:]), c.Service, region,
		time.Now()); err != nil {
		return nil, 0, err
	}
	var client aws.HTTPClient = http.DefaultClient
	if cfg.HTTPClient != nil {
		client = cfg.HTTPClient
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer res.Body.Close() //nolint:errcheck // read only
	body, err = io.ReadAll(io.LimitReader(res.Body, maxResponse))
	return body, res.StatusCode, err
}
