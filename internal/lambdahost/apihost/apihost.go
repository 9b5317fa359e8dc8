// Package apihost serves internal/api as the Lambda function api.
package apihost

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	awsevents "github.com/aws/aws-lambda-go/events"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/identity"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/far"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/gateway"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/keys"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/logs"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/logs/logbucket"
	"github.com/tradewind-broker/tradewind/internal/pack/depot"
	"github.com/tradewind-broker/tradewind/internal/tunnel/relay"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Name of the function.
const Name = broker.FnAPI

// Adapters are the adapters that the API needs in addition to a broker.
type Adapters struct {
	Ring   *keys.Ring
	Data   grant.Store // signs the agents' programs
	Packs  *depot.Depot
	Others far.Functions
	// Wake switches the deployment on.
	Wake func(context.Context) error
}

// New makes the function's gateway.
func New(s *lambdahost.Sandbox, b *broker.Broker, with Adapters) (*gateway.Gateway, error) {
	token, err := gateway.NewUserToken()
	if err != nil {
		return nil, err
	}
	endpoint, err := url.Parse(s.Env.API)
	if err != nil {
		return nil, err
	}
	proofs, err := verifiers(s.Env)
	if err != nil {
		return nil, err
	}
	signer := programs{env: s.Env, data: with.Data}
	a, err := api.New(api.Config{
		Broker: api.PortsOf(b), Program: signer.program, Mounter: signer.mounter, Token: token,
		Verify: with.Ring.Verify, Dead: s.Bus, Clouds: api.Unblocking(clouds(with.Others), b.Users.Unblock),
		Hosts: []string{endpoint.Hostname()}, Packs: with.Packs, Now: s.Now, Log: s.Log,
		Unheld:   s.Env.AgentsCall,
		Visits:   &api.Visits{Relay: relay.New(s.Store, s.Now, lookEvery)},
		Identity: proofs,
		Machines: &api.MachineTokens{Mint: with.Ring.MintPool, Verify: with.Ring.VerifyPool},
		Logs:     &logs.Logs{Store: s.Store, Objects: logbucket.Bucket{Client: s.S3(), Name: s.Env.WorkBucket}},
	})
	if err != nil {
		return nil, err
	}
	awake := &waking{next: pushes(s, b.Functions, with.Others, a), wake: with.Wake, log: s.Log.Warn}
	return &gateway.Gateway{Handler: awake, UserToken: token, Log: s.Log}, nil
}

// Serve returns the handler of the function.
func Serve(s *lambdahost.Sandbox, g *gateway.Gateway) func(context.Context,
	awsevents.APIGatewayV2HTTPRequest) (awsevents.APIGatewayV2HTTPResponse, error) {
	return func(ctx context.Context,
		in awsevents.APIGatewayV2HTTPRequest) (awsevents.APIGatewayV2HTTPResponse, error) {
		defer s.Begin(ctx)()
		return g.Serve(ctx, in)
	}
}

// lookEvery is how often a long poll of a visit checks for data that another function has stored; see relay.New. Each
// check is a query of the table, an eighth of a millionth of a dollar.
const lookEvery = 50 * time.Millisecond

// verifiers check the proofs of identity of machines of the deployment's clouds.
func verifiers(env lambdahost.Env) (identity.Verifiers, error) {
	ec2, err := identity.NewAWS(env.Certificates)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", lambdahost.ErrEnv, lambdahost.EnvCertificates, err)
	}
	all := identity.Verifiers{identity.AWSName: ec2}
	for _, name := range env.Clouds {
		switch name {
		case identity.GoogleName:
			all[name], err = identity.NewGoogle(identity.GoogleConfig{Audience: env.API, Keys: env.Proofs[name]})
		case identity.AzureName:
			cfg := identity.AzureConfig{}
			if pem := env.Proofs[name]; pem != "" {
				if cfg, err = identity.LocalAzure([]byte(pem)); err != nil {
					return nil, fmt.Errorf("%w: %s: %s: %w", lambdahost.ErrEnv, lambdahost.EnvProofs, name, err)
				}
			}
			all[name], err = identity.NewAzure(cfg)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// programFor is how long a machine has to start downloading its agent.
const programFor = 10 * time.Minute

// programs signs URLs of programs that machines download. The programs are in the work bucket, because they are larger
// than a function's response may be.
type programs struct {
	env  lambdahost.Env
	data grant.Store
}

// program signs a URL of the agent with the given digest.
func (p programs) program(ctx context.Context, sha256 string) (string, error) {
	return p.sign(ctx, "agent/"+sha256+"/tradewind-agent")
}

// mounter signs a URL of rclone, for machines that lack it.
func (p programs) mounter(ctx context.Context, arch string) (*wire.Program, error) {
	for _, entry := range p.env.RcloneKey {
		key, mine := strings.CutPrefix(entry, arch+"=")
		if !mine {
			continue
		}
		url, err := p.sign(ctx, key)
		if err != nil {
			return nil, err
		}
		return &wire.Program{URL: url, SHA256: path.Base(path.Dir(key))}, nil
	}
	return nil, nil //nolint:nilnil // none is known
}

func (p programs) sign(ctx context.Context, key string) (string, error) {
	uri, err := grant.Below("s3://"+p.env.WorkBucket, key)
	if err != nil {
		return "", err
	}
	grants, err := p.data.Sign(ctx, grant.Want{Op: grant.Get, URI: uri, For: programFor})
	if err != nil {
		return "", err
	}
	return grants[0].URL, nil
}

// waking wakes the deployment after each request of a user that changed something, such as a job, or redrove dead
// letters.
type waking struct {
	next http.Handler
	wake func(context.Context) error
	log  func(string, ...any)
}

// ServeHTTP implements http.Handler. If the deployment cannot be woken, the request fails although it was stored: when
// it is repeated with the same key, it is the same job.
func (w *waking) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	if needsNoWakeUp(r) {
		w.next.ServeHTTP(out, r)
		return
	}
	rec := &held{ResponseWriter: out}
	w.next.ServeHTTP(rec, r)
	if rec.status < http.StatusMultipleChoices {
		if err := w.wake(r.Context()); err != nil {
			w.log("the deployment could not be woken", "err", err)
			for name := range out.Header() {
				out.Header().Del(name)
			}
			rec.fail()
			return
		}
	}
	rec.release()
}

// held holds a response back until the deployment has been woken.
type held struct {
	http.ResponseWriter
	status int
	body   []byte
}

// WriteHeader implements http.ResponseWriter.
func (h *held) WriteHeader(status int) {
	if h.status == 0 {
		h.status = status
	}
}

// Write implements http.ResponseWriter.
func (h *held) Write(b []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	h.body = append(h.body, b...)
	return len(b), nil
}

func (h *held) release() {
	h.WriteHeader(http.StatusOK)
	h.ResponseWriter.WriteHeader(h.status)
	_, _ = h.ResponseWriter.Write(h.body) // a response that is too large is reported elsewhere
}

func (h *held) fail() {
	h.Header().Set("Content-Type", "application/problem+json")
	h.Header().Set("Retry-After", "1")
	h.ResponseWriter.WriteHeader(http.StatusServiceUnavailable)
	body, _ := json.Marshal(map[string]any{ // cannot fail for strings and a number
		"title": "Service Unavailable", "status": http.StatusServiceUnavailable,
		"detail": "it was stored, but the deployment could not be woken to process it; send it again with the same " +
			"Idempotency-Key",
	})
	_, _ = h.ResponseWriter.Write(body)
}
