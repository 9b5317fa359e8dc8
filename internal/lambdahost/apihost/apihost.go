// Package apihost serves pkg/api as the Lambda function api.
package apihost

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	awsevents "github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/activity"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/data"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/gateway"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/keys"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/logs"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/objects"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/policy"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/api"
	"github.com/tradewind-broker/tradewind/pkg/broker"
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/identity"
	"github.com/tradewind-broker/tradewind/pkg/identity/awsid"
	"github.com/tradewind-broker/tradewind/pkg/identity/azureid"
	"github.com/tradewind-broker/tradewind/pkg/identity/googleid"
	"github.com/tradewind-broker/tradewind/pkg/tunnel/relay"
)

// Name of the function.
const Name = broker.FnAPI

// Serve runs the function. It does not return.
func Serve() {
	lambdahost.Run(Name, func(h *lambdahost.Host) (any, error) {
		g, err := New(h)
		if err != nil {
			return nil, err
		}
		return lambda.NewHandler(
			func(ctx context.Context,
				in awsevents.APIGatewayV2HTTPRequest) (awsevents.APIGatewayV2HTTPResponse, error) {
				defer h.Begin(ctx)()
				return g.Serve(ctx, in)
			}), nil
	}, policy.Part, keys.Part, keys.Secrets, objects.Packs, data.Part)
}

// New makes the gateway of a host that has its records and queues.
func New(h *lambdahost.Host) (*gateway.Gateway, error) {
	token, err := gateway.NewUserToken()
	if err != nil {
		return nil, err
	}
	endpoint, err := url.Parse(h.Env.API)
	if err != nil {
		return nil, err
	}
	proofs, err := verifiers(h.Env)
	if err != nil {
		return nil, err
	}
	ring := keys.Of(h)
	a, err := api.New(api.Config{
		Broker: api.PortsOf(h.Broker), Program: program(h), Mounter: mounter(h), Token: token,
		Verify: ring.Verify, Dead: h.Ports.Bus, Clouds: clouds(h),
		Hosts: []string{endpoint.Hostname()}, Packs: objects.NewDepot(h), Now: h.Ports.Now, Log: h.Log(),
		Unheld:   h.Env.AgentsCall,
		Visits:   &api.Visits{Relay: relay.New(h.Ports.Store, h.Ports.Now, lookEvery)},
		Identity: proofs,
		Machines: &api.MachineTokens{Mint: ring.MintPool, Verify: ring.VerifyPool},
		Logs:     &logs.Logs{Store: h.Ports.Store, Client: objects.NewClient(h), Bucket: h.Env.WorkBucket},
	})
	if err != nil {
		return nil, err
	}
	awake := &waking{next: pushes(h, a), wake: activity.NewAWS(h).On, log: h.Log().Warn}
	return &gateway.Gateway{Handler: awake, UserToken: token,
		Log: h.Log()}, nil
}

// lookEvery is how soon a call that is held for a visit looks for what another function has taken in; see relay.New. A
// look is a query of the table, an eighth of a millionth of a dollar.
const lookEvery = 50 * time.Millisecond

// verifiers check what machines of the deployment's clouds prove.
func verifiers(env lambdahost.Env) (identity.Verifiers, error) {
	ec2, err := awsid.New(env.Certificates)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", lambdahost.ErrEnv, lambdahost.EnvCertificates, err)
	}
	all := identity.Verifiers{awsid.Name: ec2}
	for _, name := range env.Clouds {
		switch name {
		case googleid.Name:
			all[name], err = googleid.New(googleid.Config{Audience: env.API, Keys: env.Proofs[name]})
		case azureid.Name:
			cfg := azureid.Config{}
			if pem := env.Proofs[name]; pem != "" {
				cfg.Roots = x509.NewCertPool()
				cfg.Roots.AppendCertsFromPEM([]byte(pem))
			}
			all[name], err = azureid.New(cfg)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// programFor is how long a machine has to begin to fetch its agent.
const programFor = 10 * time.Minute

// program signs for the agents' programs, which lie in the work bucket by their digest: they are larger than an answer
// of a function may be.
func program(h *lambdahost.Host) api.ProgramFunc {
	return func(ctx context.Context, sha256 string) (string, error) {
		uri, err := grant.Below("s3://"+h.Env.WorkBucket, "agent/"+sha256+"/tradewind-agent")
		if err != nil {
			return "", err
		}
		grants, err := h.Ports.Data.Sign(ctx, grant.Want{Op: grant.Get, URI: uri, For: programFor})
		if err != nil {
			return "", err
		}
		return grants[0].URL, nil
	}
}

// mounter signs for rclone, which lies where the agents' programs do, for machines that have none.
func mounter(h *lambdahost.Host) api.MounterFunc {
	return func(ctx context.Context, arch string) (*wire.Program, error) {
		for _, entry := range h.Env.RcloneKey {
			key, mine := strings.CutPrefix(entry, arch+"=")
			digest := path.Base(path.Dir(key))
			if !mine {
				continue
			}
			uri, err := grant.Below("s3://"+h.Env.WorkBucket, key)
			if err != nil {
				return nil, err
			}
			grants, err := h.Ports.Data.Sign(ctx, grant.Want{Op: grant.Get, URI: uri, For: programFor})
			if err != nil {
				return nil, err
			}
			return &wire.Program{URL: grants[0].URL, SHA256: digest}, nil
		}
		return nil, nil //nolint:nilnil // none is known
	}
}

// waking wakes the deployment after each request of a user that changed something: a job, or dead letters that were
// sent back.
type waking struct {
	next http.Handler
	wake func(context.Context) error
	log  func(string, ...any)
}

// ServeHTTP implements http.Handler. A request whose work nobody would look at fails, though it was taken in: repeated
// with the same key, it is the same job.
func (w *waking) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	if sleeps(r) {
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

// held keeps an answer back until it is known to be true.
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
	_, _ = h.ResponseWriter.Write(h.body) // too large an answer says so itself
}

func (h *held) fail() {
	h.Header().Set("Content-Type", "application/problem+json")
	h.Header().Set("Retry-After", "1")
	h.ResponseWriter.WriteHeader(http.StatusServiceUnavailable)
	body, _ := json.Marshal(map[string]any{ // of strings and a number
		"title": "Service Unavailable", "status": http.StatusServiceUnavailable,
		"detail": "it was stored, but the deployment could not be woken to work on it; send it again with the same " +
			"Idempotency-Key",
	})
	_, _ = h.ResponseWriter.Write(body)
}
