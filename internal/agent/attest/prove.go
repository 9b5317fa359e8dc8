// Package attest gets a proof of the machine's identity, signed by its cloud, from the machine's metadata service. The
// agent sends it to the broker with its first call. The package does not check the proof: the broker does.
package attest

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

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
)

// EnvCloud selects the cloud whose metadata service provides the proof: aws, gcp, azure, or kubernetes, which reads
// EnvFile; none if empty. The environment of package notices contains the address of the service.
const (
	EnvCloud = "TRADEWIND_PROOF"
	EnvFile  = "TRADEWIND_PROOF_FILE" // file of the token that the kubelet issues for the broker's address
)

// ErrUnknown means that the cloud provides no proofs.
var ErrUnknown = errors.New("prove: unknown cloud")

// Func returns a proof of a machine's identity for an agent with the given nonce.
type Func func(ctx context.Context, nonce string) (*wire.Proof, error)

// Config configures the source and the audience of proofs.
type Config struct {
	Cloud    string
	URL      string // of the metadata service; if empty, the cloud's default
	File     string // of a pod's token
	Audience string // the broker's address
	// Pause is the pause after the first try; it doubles after each further try. 0 means a second.
	Pause time.Duration
}

// Tries and timeout of a call to the machine's own metadata service. A service that is being updated may refuse calls
// for 70 seconds.
const (
	tries      = 3
	triesBusy  = 9
	answerTime = 5 * time.Second
)

// errBusy means that the service answers, but not yet with a proof.
var errBusy = errors.New("the metadata service is busy")

// pauseAfter returns the pause after the failed try n, from 0. It doubles up to 16 times the first.
func pauseAfter(first time.Duration, n int) time.Duration { return first << min(n, 4) }

// New returns a Func that gets proofs. The error is ErrUnknown.
func New(c Config) (Func, error) {
	s := &service{base: strings.TrimSuffix(c.URL, "/"), audience: c.Audience, client: &http.Client{
		// Never use a proxy or follow a redirect: only this machine can reach its metadata service.
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
		return nil, fmt.Errorf("%w: %q is not one of aws, gcp, azure, kubernetes", ErrUnknown, c.Cloud)
	}
	if s.base == "" {
		s.base = own
	}
	if c.Pause <= 0 {
		c.Pause = time.Second
	}
	return func(ctx context.Context, nonce string) (*wire.Proof, error) {
		for n := 1; ; n++ {
			text, err := ask(ctx, nonce)
			if err == nil {
				return &wire.Proof{Cloud: c.Cloud, Document: text}, nil
			}
			most := tries
			if errors.Is(err, errBusy) {
				most = triesBusy
			}
			if n >= most || clock.Pause(ctx, pauseAfter(c.Pause, n-1)) != nil {
				return nil, err
			}
		}
	}, nil
}

// service is a metadata service.
type service struct {
	base, audience string
	client         *http.Client
}

// aws returns the instance identity document, signed with RSA-2048 (IMDSv2).
func (s *service) aws(ctx context.Context, _ string) (string, error) {
	session, err := s.call(ctx, http.MethodPut, "/latest/api/token", "X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60")
	if err != nil {
		return "", err
	}
	return s.call(ctx, http.MethodGet, "/latest/dynamic/instance-identity/rsa2048", "X-Aws-Ec2-Metadata-Token", session)
}

// google returns an identity token for the broker's address that also describes the machine.
func (s *service) google(ctx context.Context, _ string) (string, error) {
	query := url.Values{"audience": {s.audience}, "format": {"full"}}
	return s.call(ctx, http.MethodGet,
		"/computeMetadata/v1/instance/service-accounts/default/identity?"+query.Encode(), "Metadata-Flavor", "Google")
}

// azure returns the attested document for the agent's nonce.
func (s *service) azure(ctx context.Context, nonce string) (string, error) {
	query := url.Values{"api-version": {"2021-02-01"}, "nonce": {wire.AzureNonce(nonce)}}
	return s.call(ctx, http.MethodGet, "/metadata/attested/document?"+query.Encode(), "Metadata", "true")
}

// token reads a pod's token, which the kubelet renews.
func token(file string) (string, error) {
	f, err := os.Open(file) //nolint:gosec // the file of the pod's token
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
	switch busy := res.StatusCode; {
	case busy == http.StatusGone, busy == http.StatusTooManyRequests, busy >= http.StatusInternalServerError:
		return "", fmt.Errorf("prove: %s: %s: %w", strings.SplitN(path, "?", 2)[0], res.Status, errBusy)
	}
	if res.StatusCode != http.StatusOK || len(body) > wire.MaxProof {
		return "", fmt.Errorf("prove: %s: %s, %d bytes", strings.SplitN(path, "?", 2)[0], res.Status, len(body))
	}
	return strings.TrimSpace(string(body)), nil
}
