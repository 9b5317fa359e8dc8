// Package gateway serves an http.Handler behind an API Gateway HTTP API, payload
// format 2.0 (API Gateway developer guide, "Working with AWS Lambda proxy
// integrations for HTTP APIs").
//
// A Lambda answer is whole or not at all, and waiting is paid for. So what the
// API streams to a host that stays, server-sent events and followed logs, ends
// here as soon as there is nothing more to tell: the reader opens it again, which is polling.
//
// Who a user is, IAM has checked before: a request that carries a caller's
// identity in its context is given the deployment's user token, any other one
// is not. The header that it brought, a signature, goes no further. Agents' paths
// have no IAM, and their token is the API's to judge.
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

// AgentPaths is where the paths begin that agents call with tokens of their own.
const AgentPaths = "/v1/agent/"

// PushPaths is where the paths begin that clouds push to, with tokens of theirs.
const PushPaths = "/v1/push/"

// Gateway turns Lambda requests into HTTP ones.
type Gateway struct {
	Handler http.Handler
	// UserToken is what the handler knows users by: see NewUserToken.
	UserToken string
	Log       *slog.Logger
	// Quiet is how long a stream may have nothing to tell before it ends; 150 ms when 0.
	Quiet time.Duration
}

// NewUserToken makes a token that nobody outside this sandbox ever learns: it is how Gateway tells the API that IAM has
// let a user in.
func NewUserToken() (string, error) {
	raw := make([]byte, 32)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("gateway: %w", err)
	}
	return hex.EncodeToString(raw), nil
}

// defaultQuiet is long enough for the next piece of a log to be read.
const defaultQuiet = 150 * time.Millisecond

// margin is what is left of the function's time for sending the answer.
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

// identify gives a request the authority that IAM has found it to have, and takes from it whatever looks like one.
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

// caller is the IAM identity that API Gateway has verified, "" when there was none to verify.
func caller(in awsevents.APIGatewayV2HTTPRequest) string {
	if a := in.RequestContext.Authorizer; a != nil && a.IAM != nil {
		return a.IAM.UserARN
	}
	return ""
}

// request makes the HTTP request that the event describes.
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
	for name, v := range in.Headers { // several values come as one, with commas, which is what they mean
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
