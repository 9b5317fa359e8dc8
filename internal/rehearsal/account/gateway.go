package account

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	awsevents "github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/tradewind-broker/tradewind/internal/rehearsal/sandbox"
)

// gateway serves the deployed routes of the HTTP API: it checks the authorisation of each route and invokes the
// function with payload format 2.0 (API Gateway developer guide, "Working with AWS Lambda proxy integrations for HTTP
// APIs").
type gateway struct {
	routes   []route
	function *sandbox.Function
	// authorizer checks the tokens of agents; admitted are its answers, which API Gateway remembers.
	authorizer *sandbox.Function
	admitted   sync.Map
	keys       aws.Credentials // of the only user
	count      *Counter
	moves      *Moves
	log        *slog.Logger
}

type route struct {
	method, prefix string // empty for $default
	key            string
	iam, custom    bool
}

// routes returns the routes of the template.
func (t *Template) routes() ([]route, error) {
	var out []route
	for id, r := range t.Of("AWS::ApiGatewayV2::Route") {
		key, auth := r.Text("RouteKey"), r.Text("AuthorizationType")
		one := route{key: key, iam: auth == "AWS_IAM", custom: auth == "CUSTOM"}
		if auth != "AWS_IAM" && auth != "CUSTOM" && auth != "NONE" {
			return nil, fmt.Errorf("rehearsal: route %s has the unknown authorization %q", id, auth)
		}
		if key != "$default" {
			method, path, _ := strings.Cut(key, " ")
			prefix, ok := strings.CutSuffix(path, "{proxy+}")
			if !ok {
				return nil, fmt.Errorf("rehearsal: route %q has no proxy path", key)
			}
			one.method, one.prefix = method, prefix
		}
		out = append(out, one)
	}
	return out, nil
}

// match returns the most specific route.
func (g *gateway) match(r *http.Request) *route {
	var found *route
	for i := range g.routes {
		x := &g.routes[i]
		fits := x.key == "$default" || strings.HasPrefix(r.URL.Path, x.prefix) && len(r.URL.Path) > len(x.prefix) &&
			(x.method == "ANY" || x.method == r.Method)
		if fits && (found == nil || len(x.prefix) > len(found.prefix)) {
			found = x
		}
	}
	return found
}

// gatewayWithin is the maximum time for which API Gateway waits for a function.
const gatewayWithin = 30 * time.Second

// ServeHTTP implements http.Handler.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 10<<20))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	at := g.match(r)
	if at == nil {
		refuse(w, http.StatusNotFound, "Not Found")
		return
	}
	g.count.add("apigateway", at.key, "")
	in := request(r, body, at.key)
	if at.custom && !g.admits(w, r, in) {
		return
	}
	if at.iam {
		if err := g.authorise(r, body); err != nil {
			g.log.Debug("refused", "path", r.URL.Path, "err", err)
			refuse(w, http.StatusForbidden, "Forbidden")
			return
		}
		in.RequestContext.Authorizer = &awsevents.APIGatewayV2HTTPRequestContextAuthorizerDescription{
			IAM: &awsevents.APIGatewayV2HTTPRequestContextAuthorizerIAMDescription{
				AccessKey: g.keys.AccessKeyID, AccountID: account, CallerID: "AIDAUSER",
				UserARN: "arn:aws:iam::" + account + ":user/rehearsal", UserID: "AIDAUSER",
			},
		}
	}
	payload, err := json.Marshal(in)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "Internal Server Error")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), gatewayWithin)
	defer cancel()
	answer, err := g.function.Invoke(context.WithoutCancel(ctx), payload)
	if errors.Is(err, sandbox.ErrThrottled) {
		refuse(w, http.StatusServiceUnavailable, "Service Unavailable")
		return
	}
	if err != nil {
		g.log.Info("invocation failed", "function", g.function.Name, "path", r.URL.Path, "err", err)
		refuse(w, http.StatusInternalServerError, "Internal Server Error")
		return
	}
	var out awsevents.APIGatewayV2HTTPResponse
	if err := json.Unmarshal(answer, &out); err != nil || out.StatusCode == 0 {
		refuse(w, http.StatusInternalServerError, "Internal Server Error")
		return
	}
	body = bodyOf(out)
	g.moves.granted(r, out.Headers, body)
	write(w, out, body)
}

// admits calls the function that authorizes a route, with the request's token (API Gateway developer guide, "Control
// access to HTTP APIs with AWS Lambda authorizers"), and answers the request if it is refused.
func (g *gateway) admits(w http.ResponseWriter, r *http.Request, in awsevents.APIGatewayV2HTTPRequest) bool {
	source := r.Header.Get("Authorization")
	if source == "" {
		refuse(w, http.StatusUnauthorized, "Unauthorized")
		return false
	}
	known, ok := g.admitted.Load(source)
	if !ok {
		var out awsevents.APIGatewayV2CustomAuthorizerSimpleResponse
		payload, err := json.Marshal(awsevents.APIGatewayV2CustomAuthorizerV2Request{
			Version: "2.0", Type: "REQUEST", IdentitySource: []string{source}, RouteKey: in.RouteKey,
			RawPath: in.RawPath, RawQueryString: in.RawQueryString, Headers: in.Headers,
		})
		if err == nil {
			payload, err = g.authorizer.Invoke(context.WithoutCancel(r.Context()), payload)
		}
		if err == nil {
			err = json.Unmarshal(payload, &out)
		}
		if err != nil {
			g.log.Info("the authorizer failed", "err", err)
			refuse(w, http.StatusInternalServerError, "Internal Server Error")
			return false
		}
		known = out.IsAuthorized
		g.admitted.Store(source, known)
	}
	if known != true {
		refuse(w, http.StatusForbidden, "Forbidden")
	}
	return known == true
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"message":%q}`, message) // the client may have gone
}

// request returns the event for the function.
func request(r *http.Request, body []byte, key string) awsevents.APIGatewayV2HTTPRequest {
	in := awsevents.APIGatewayV2HTTPRequest{
		Version: "2.0", RouteKey: key, RawPath: r.URL.EscapedPath(), RawQueryString: r.URL.RawQuery,
		Headers: map[string]string{"host": r.Host}, QueryStringParameters: map[string]string{},
	}
	for k, v := range r.Header {
		in.Headers[strings.ToLower(k)] = strings.Join(v, ",")
	}
	for k, v := range r.URL.Query() {
		in.QueryStringParameters[k] = strings.Join(v, ",")
	}
	if utf8.Valid(body) {
		in.Body = string(body)
	} else {
		in.Body, in.IsBase64Encoded = base64.StdEncoding.EncodeToString(body), true
	}
	ip, _, _ := net.SplitHostPort(r.RemoteAddr)
	now := time.Now()
	in.RequestContext = awsevents.APIGatewayV2HTTPRequestContext{
		RouteKey: key, AccountID: account, Stage: "$default", RequestID: fmt.Sprint(now.UnixNano()), APIID: "rehearsal",
		DomainName: r.Host, Time: now.UTC().Format("02/Jan/2006:15:04:05 +0000"), TimeEpoch: now.UnixMilli(),
		HTTP: awsevents.APIGatewayV2HTTPRequestContextHTTPDescription{
			Method: r.Method, Path: r.URL.Path, Protocol: r.Proto, SourceIP: ip, UserAgent: r.UserAgent(),
		},
	}
	return in
}

// write sends the function's answer to the client.
func write(w http.ResponseWriter, out awsevents.APIGatewayV2HTTPResponse, body []byte) {
	for k, v := range out.Headers {
		w.Header().Set(k, v)
	}
	w.WriteHeader(out.StatusCode)
	_, _ = w.Write(body)
}

func bodyOf(out awsevents.APIGatewayV2HTTPResponse) []byte {
	if !out.IsBase64Encoded {
		return []byte(out.Body)
	}
	body, _ := base64.StdEncoding.DecodeString(out.Body) // empty if the function has not encoded it
	return body
}

// errForbidden means that a signature is missing or wrong.
var errForbidden = errors.New("rehearsal: forbidden")

var authorization = regexp.MustCompile(
	`^AWS4-HMAC-SHA256 Credential=([^/]+)/(\d+)/([^/]+)/([^/]+)/aws4_request, ?` +
		`SignedHeaders=([^,]+), ?Signature=([0-9a-f]+)$`)

// authorise checks the signature of a request (AWS Signature Version 4) by signing it again with the user's key.
func (g *gateway) authorise(r *http.Request, body []byte) error {
	m := authorization.FindStringSubmatch(r.Header.Get("Authorization"))
	if m == nil {
		return fmt.Errorf("%w: no signature", errForbidden)
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil || time.Since(at).Abs() > 5*time.Minute {
		return fmt.Errorf("%w: at %q", errForbidden, r.Header.Get("X-Amz-Date"))
	}
	if m[1] != g.keys.AccessKeyID || m[3] != Region || m[4] != "execute-api" {
		return fmt.Errorf("%w: key %s, scope %s/%s", errForbidden, m[1], m[3], m[4])
	}
	again, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+r.Host+r.URL.RequestURI(), bytes.NewReader(nil)) //nolint:gosec // it is signed, not sent
	if err != nil {
		return err
	}
	again.ContentLength = 0
	for h := range strings.SplitSeq(m[5], ";") {
		switch h {
		case "host":
		case "content-length":
			again.ContentLength = r.ContentLength
		default:
			again.Header[http.CanonicalHeaderKey(h)] = r.Header.Values(h)
		}
	}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(r.Context(), g.keys, again, hex.EncodeToString(sum[:]), "execute-api", Region,
		at); err != nil {
		return err
	}
	want := authorization.FindStringSubmatch(again.Header.Get("Authorization"))
	if want == nil || subtle.ConstantTimeCompare([]byte(want[6]), []byte(m[6])) != 1 {
		return fmt.Errorf("%w: the signature is wrong", errForbidden)
	}
	return nil
}
