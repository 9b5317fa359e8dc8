package main

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"sync"

	awsevents "github.com/aws/aws-lambda-go/events"

	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/gateway"
)

// apiCounter is a deployment's API as seen from outside, and counts its traffic. On AWS each request is an API Gateway
// event that IAM has authorised, and each response passes through Lambda.
type apiCounter struct {
	api    http.Handler
	lambda bool

	mu sync.Mutex
	answers
}

// take returns the responses since its last call.
func (d *apiCounter) take() answers {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.answers
	d.answers = answers{}
	return out
}

// ServeHTTP implements http.Handler.
func (d *apiCounter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.count(func(a *answers) { a.calls++ })
	if d.lambda {
		d.serveLambda(w, r)
		return
	}
	d.api.ServeHTTP(&plain{ResponseWriter: w, door: d}, r)
}

func (d *apiCounter) count(note func(*answers)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	note(&d.answers)
}

func (d *apiCounter) serveLambda(w http.ResponseWriter, r *http.Request) {
	g := gateway.Gateway{UserToken: apitest.Token, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { d.api.ServeHTTP(&plain{ResponseWriter: w, door: d}, r) })}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	in := awsevents.APIGatewayV2HTTPRequest{
		RawPath: r.URL.EscapedPath(), RawQueryString: r.URL.RawQuery, Headers: map[string]string{}, Body: string(body),
	}
	in.RequestContext.HTTP.Method, in.RequestContext.DomainName = r.Method, "localhost"
	if !strings.HasPrefix(in.RawPath, gateway.AgentPaths) {
		in.RequestContext.Authorizer = &awsevents.APIGatewayV2HTTPRequestContextAuthorizerDescription{
			IAM: &awsevents.APIGatewayV2HTTPRequestContextAuthorizerIAMDescription{
				UserARN: "arn:aws:iam::123456789012:user/ada",
			},
		}
	}
	for name := range r.Header {
		in.Headers[strings.ToLower(name)] = r.Header.Get(name)
	}
	out, err := g.Serve(r.Context(), in)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	d.count(func(a *answers) { a.sent += len(out.Body) })
	for name, v := range out.Headers {
		w.Header().Set(name, v)
	}
	w.WriteHeader(out.StatusCode)
	var answer io.Reader = strings.NewReader(out.Body)
	if out.IsBase64Encoded {
		answer = base64.NewDecoder(base64.StdEncoding, answer)
	}
	_, _ = io.Copy(w, answer) // an error means that the client is gone
}

// plain counts the bytes of a response before a gateway compresses it, while they are written: a stream may never end.
type plain struct {
	http.ResponseWriter
	door  *apiCounter
	bytes int
}

// Write implements http.ResponseWriter. It counts bytes before the client receives them, and does not send a response
// that a gateway would refuse.
func (p *plain) Write(b []byte) (n int, err error) {
	if p.door.lambda {
		n, err = p.ResponseWriter.Write(b)
		p.wrote(n, 0)
		return n, err
	}
	p.wrote(len(b), len(b))
	return p.ResponseWriter.Write(b)
}

func (p *plain) wrote(n, sent int) {
	p.bytes += n
	p.door.count(func(a *answers) { a.plain, a.sent, a.widest = a.plain+n, a.sent+sent, max(a.widest, p.bytes) })
}

// Unwrap lets a ResponseController find the Flusher.
func (p *plain) Unwrap() http.ResponseWriter { return p.ResponseWriter }
