// Package prove asks a machine's metadata service for what its cloud has signed of it, which goes to the broker with
// the agent's first call. What it gets it does not look at: the broker checks it.
package prove

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/clock"
)

// EnvCloud names the cloud whose metadata service is asked: aws, gcp, azure, and kubernetes, where EnvFile is read;
// none when empty. Where the service is, the environment of package notices says.
const (
	EnvCloud = "TRADEWIND_PROOF"
	EnvFile  = "TRADEWIND_PROOF_FILE" // the token that the kubelet has made for the broker's address
)

// ErrUnknown says that the cloud is none that proves.
var ErrUnknown = errors.New("prove: unknown cloud")

// Func returns a proof for an agent that has made up nonce.
type Func func(ctx context.Context, nonce string) (*wire.Proof, error)

// Config is where a proof comes from, and for whom.
type Config struct {
	Cloud    string
	URL      string // of the metadata service; the cloud's own when empty
	File     string // of a pod's token
	Audience string // the broker's address
	// Pause is between the first two of three tries, and twice that between the others; a second when 0.
	Pause time.Duration
}

// Tries and times of a call to a service that is on the machine itself.
const (
	tries      = 3
	answerTime = 5 * time.Second
)

// New makes what asks for proofs. It fails with ErrUnknown.
func New(c Config) (Func, error) {
	s := &service{base: strings.TrimSuffix(c.URL, "/"), audience: c.Audience, client: &http.Client{
		// Never by way of a proxy, nor elsewhere: what is asked for is this machine's own.
		Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       answerTime,
	}}
	own, ask := "http://169.254.169.254", s.aws
	switch c.Cloud {
	case "aws":
	case "gcp":
		own, ask = "http://metadata.google.internal", s.google
	case "azure":
		ask = s.azure
	case "kubernetes":
		ask = func(context.Context, string) (string, error) { return token(c.File) }
	default:
		return nil, fmt.Errorf("%w: %q is none of aws, gcp, azure, kubernetes", ErrUnknown, c.Cloud)
	}
	if s.base == "" {
		s.base = own
	}
	if c.Pause <= 0 {
		c.Pause = time.Second
	}
	return func(ctx context.Context, nonce string) (*wire.Proof, error) {
		var err error
		for n := range tries {
			var text string
			if text, err = ask(ctx, nonce); err == nil {
				return &wire.Proof{Cloud: c.Cloud, Document: text}, nil
			}
			if n+1 < tries && clock.Pause(ctx, c.Pause<<n) != nil {
				break
			}
		}
		return nil, err
	}, nil
}

// service is a metadata service.
type service struct {
	base, audience string
	client         *http.Client
}

// aws asks for the instance identity document, signed with RSA-2048 (IMDSv2).
func (s *service) aws(ctx context.Context, _ string) (string, error) {
	session, err := s.call(ctx, http.MethodPut, "/latest/api/token", "X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60")
	if err != nil {
		return "", err
	}
	return s.call(ctx, http.MethodGet, "/latest/dynamic/instance-identity/rsa2048", "X-Aws-Ec2-Metadata-Token", session)
}

// google asks for an identity token for the broker's address, with what is known of the machine in it.
func (s *service) google(ctx context.Context, _ string) (string, error) {
	query := url.Values{"audience": {s.audience}, "format": {"full"}}
	return s.call(ctx, http.MethodGet,
		"/computeMetadata/v1/instance/service-accounts/default/identity?"+query.Encode(), "Metadata-Flavor", "Google")
}

// azure asks for the attested document of the agent's nonce.
func (s *service) azure(ctx context.Context, nonce string) (string, error) {
	query := url.Values{"api-version": {"2021-02-01"}, "nonce": {nonce}}
	return s.call(ctx, http.MethodGet, "/metadata/attested/document?"+query.Encode(), "Metadata", "true")
}

// token reads a pod's, which the kubelet renews.
func token(file string) (string, error) {
	f, err := os.Open(file) //nolint:gosec // where the pod has its token
	if err != nil {
		return "", fmt.Errorf("prove: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(f, wire.MaxProof+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("prove: %w", err)
	case len(text) == 0 || len(text) > wire.MaxProof:
		return "", fmt.Errorf("prove: %s: %d bytes", file, len(text))
	}
	return strings.TrimSpace(string(text)), nil
}

func (s *service) call(ctx context.Context, method, path, header, value string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, http.NoBody)
	if err != nil {
		return "", err
	}
	req.Header.Set(header, value)
	res, err := s.client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(res.Body, wire.MaxProof+1))
	if err != nil {
		return "", err
	}
	if res.StatusCode != http.StatusOK || len(body) > wire.MaxProof {
		return "", fmt.Errorf("prove: %s: %s, %d bytes", strings.SplitN(path, "?", 2)[0], res.Status, len(body))
	}
	return strings.TrimSpace(string(body)), nil
}
