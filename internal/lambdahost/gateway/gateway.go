// Package gateway serves an http.Handler behind an API Gateway HTTP API, payload
// format 2.0 (API Gateway developer guide, "Working with AWS Lambda proxy
// integrations for HTTP APIs").
//
// A Lambda response is sent as a whole, and the account pays for waiting. So streams of the API (server-sent events and
// followed logs) end here as soon as there is no more data. The client reopens the stream, which is polling.
//
// IAM has already authenticated users: Gateway gives a request with an IAM
// identity in its context the deployment's user token, and others none. It drops
// the request's own Authorization header, a signature. Agents' paths are not
// behind IAM; the API checks their tokens.
package gateway

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	awsevents "github.com/aws/aws-lambda-go/events"
)

// AgentPaths is the prefix of the paths that agents call with their own tokens.
const AgentPaths = "/v1/agent/"

// PushPaths is the prefix of the paths to which clouds push, with their own tokens.
const PushPaths = "/v1/push/"

// Gateway converts Lambda requests to HTTP requests.
type Gateway struct {
	Handler http.Handler
	// UserToken is the handler's user token; see NewUserToken.
	UserToken string
	Log       *slog.Logger
	// Quiet is how long a stream may be silent before it ends; 150 ms when 0.
	Quiet time.Duration
}

// NewUserToken makes a token that is never known outside this sandbox. With it, Gateway shows the API that IAM has
// authenticated a user.
func NewUserToken() (string, error) {
	raw := make([]byte, 32)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("gateway: %w", err)
	}
	return hex.EncodeToString(raw), nil
}

// defaultQuiet is enough time to read the next piece of a log.
const defaultQuiet = 150 * time.Millisecond

// margin is how much of the function's time is reserved for sending the response.
const margin = time.Second

// Serve answers one request.
func (g *Gateway) Serve(ctx context.Context,
	in awsevents.APIGatewayV2HTTPRequest) (awsevents.APIGatewayV2HTTPResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if deadline, ok := ctx.Deadline(); ok {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, deadline.Add(-margin))
		defer stop()
	}
	req, err := request(ctx, in)
	if err != nil {
		return awsevents.APIGatewayV2HTTPResponse{
			StatusCode: http.StatusBadRequest, Headers: map[string]string{"Content-Type": "application/problem+json"},
			Body: `{"title":"Bad Request","status":400,"detail":"the request cannot be read"}`,
		}, nil
	}
	g.identify(ctx, req, in)
	quiet := g.Quiet
	if quiet <= 0 {
		quiet = defaultQuiet
	}
	w := newRecorder(cancel, quiet)
	defer w.close()
	w.zip = strings.Contains(req.Header.Get("Accept-Encoding"), "gzip")
	g.Handler.ServeHTTP(w, req)
	return w.answer(), nil
}

// identify sets the request's credentials to those that IAM has verified, and removes any others.
func (g *Gateway) identify(ctx context.Context, req *http.Request, in awsevents.APIGatewayV2HTTPRequest) {
	if strings.HasPrefix(req.URL.Path, AgentPaths) || strings.HasPrefix(req.URL.Path, PushPaths) {
		return
	}
	req.Header.Del("Authorization")
	req.Header.Del("Cookie")
	who := caller(in)
	if who == "" {
		return
	}
	req.Header.Set("Authorization", "Bearer "+g.UserToken)
	if g.Log != nil && req.Method != http.MethodGet && req.Method != http.MethodHead {
		g.Log.InfoContext(ctx, "caller", "user", who, "method", req.Method, "path", req.URL.Path)
	}
}

// caller returns the IAM identity that API Gateway has verified, or "".
func caller(in awsevents.APIGatewayV2HTTPRequest) string {
	if a := in.RequestContext.Authorizer; a != nil && a.IAM != nil {
		return a.IAM.UserARN
	}
	return ""
}

// request makes the HTTP request that a Lambda event describes.
func request(ctx context.Context, in awsevents.APIGatewayV2HTTPRequest) (*http.Request, error) {
	body := in.Body
	if in.IsBase64Encoded {
		raw, err := base64.StdEncoding.DecodeString(body)
		if err != nil {
			return nil, fmt.Errorf("gateway: body: %w", err)
		}
		body = string(raw)
	}
	path := in.RawPath
	if stage := in.RequestContext.Stage; stage != "" && stage != "$default" {
		path = strings.TrimPrefix(path, "/"+stage)
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	target, err := url.ParseRequestURI(path)
	if err != nil {
		return nil, fmt.Errorf("gateway: path: %w", err)
	}
	target.RawQuery = in.RawQueryString
	target.Host, target.Scheme = in.RequestContext.DomainName, "https"
	req, err := http.NewRequestWithContext(ctx, in.RequestContext.HTTP.Method, target.String(), strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	for name, v := range in.Headers { // several values are joined by commas, which is equivalent
		req.Header.Set(name, v)
	}
	req.Header.Set("TE", "trailers") // they become headers
	if len(in.Cookies) > 0 {
		req.Header.Set("Cookie", strings.Join(in.Cookies, "; "))
	}
	req.Host, req.RequestURI = in.RequestContext.DomainName, target.RequestURI()
	req.RemoteAddr = in.RequestContext.HTTP.SourceIP
	return req, nil
}
