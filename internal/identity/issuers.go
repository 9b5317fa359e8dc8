package identity

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// hosts are the hosts that serve the certificates of the issuers of Azure's certificates ("Troubleshoot IMDS
// certificate chain issues on Linux VMs", "Firewall considerations"; "Azure Certificate Authority details").
var hosts = []string{"www.microsoft.com", "caissuers.microsoft.com", "cacerts.digicert.com"}

// Limits of fetching issuers. Between Azure's certificate and a root are two others today; each takes two steps.
const (
	maxSteps       = 8
	fetchWithin    = 5 * time.Second
	maxCertificate = 16 << 10
	maxKnown       = 64
	// retryAfter is the time after a failed fetch in which it is not repeated, so that bad proofs cause few requests.
	retryAfter = 30 * time.Second
)

// issuers fetches the certificates of issuers from the addresses in the certificates that they have issued (RFC 5280,
// section 4.2.2.1, "Authority Information Access"), and caches them. Fetched certificates are not trusted: they only
// link a certificate to a root. It is safe for concurrent use.
type issuers struct {
	client *http.Client
	hosts  []string

	mu    sync.Mutex
	known map[string]fetched // by URL
}

// fetched is the result of a fetch: a certificate, or when it failed.
type fetched struct {
	cert   *x509.Certificate
	err    error
	failed time.Time
}

// link checks that a certificate comes from one of the roots. It fetches issuers that neither extra nor the cache has.
// It fails with identity.ErrUnavailable if an issuer could not be fetched, and with errUntrusted otherwise.
func (s *issuers) link(ctx context.Context, leaf *x509.Certificate, extra []*x509.Certificate, roots *x509.CertPool,
	now time.Time) error {
	all := append(s.cached(now), extra...)
	for cert, steps := leaf, 0; steps < maxSteps; steps++ {
		between := x509.NewCertPool()
		for _, one := range all {
			between.AddCert(one)
		}
		_, err := leaf.Verify(x509.VerifyOptions{
			Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
		})
		if err == nil {
			return nil
		}
		at := slices.IndexFunc(all, func(one *x509.Certificate) bool { return issued(one, cert) && valid(one, now) })
		if at >= 0 {
			if next := all[at]; cert.CheckSignatureFrom(next) == nil && !next.Equal(cert) {
				cert = next
				continue
			}
			return errUntrusted // it names an issuer that has not signed it, or a root that is not trusted
		}
		next, err := s.fetch(ctx, cert, now)
		if err != nil {
			return err
		}
		all = append(all, next)
	}
	return errUntrusted
}

var errUntrusted = errors.New("no trusted authority has issued it")

// issued reports whether a certificate names another one as its issuer.
func issued(issuer, cert *x509.Certificate) bool {
	return issuer.IsCA && bytes.Equal(issuer.RawSubject, cert.RawIssuer) &&
		(len(cert.AuthorityKeyId) == 0 || bytes.Equal(issuer.SubjectKeyId, cert.AuthorityKeyId))
}

func valid(cert *x509.Certificate, now time.Time) bool {
	return !now.Before(cert.NotBefore) && !now.After(cert.NotAfter)
}

// cached returns the certificates that were fetched before and are valid.
func (s *issuers) cached(now time.Time) (all []*x509.Certificate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.known {
		if f.cert != nil && valid(f.cert, now) {
			all = append(all, f.cert)
		}
	}
	return all
}

// fetch returns the issuer of a certificate.
func (s *issuers) fetch(ctx context.Context, cert *x509.Certificate, now time.Time) (*x509.Certificate, error) {
	var failed error
	for _, at := range cert.IssuingCertificateURL {
		if !s.allowed(at) {
			continue
		}
		f := s.get(ctx, at, now)
		switch {
		case f.err != nil:
			failed = f.err
		case issued(f.cert, cert) && cert.CheckSignatureFrom(f.cert) == nil:
			return f.cert, nil
		}
	}
	if failed != nil {
		return nil, fmt.Errorf("%w: the certificate of its issuer cannot be fetched; the broker must reach %s: %w",
			ErrUnavailable, strings.Join(s.hosts, ", "), failed)
	}
	return nil, errUntrusted
}

// allowed reports whether an address may be fetched. Anyone can write one into a certificate.
func (s *issuers) allowed(at string) bool {
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return false
	}
	if ip := net.ParseIP(u.Hostname()); u.Port() != "" && (ip == nil || !ip.IsLoopback()) {
		return false
	}
	return slices.Contains(s.hosts, u.Hostname())
}

// get returns the response of an allowed address, from the cache if possible.
func (s *issuers) get(ctx context.Context, at string, now time.Time) fetched {
	s.mu.Lock()
	f, ok := s.known[at]
	s.mu.Unlock()
	if ok && (f.cert != nil && valid(f.cert, now) || f.cert == nil && now.Sub(f.failed) < retryAfter) {
		return f
	}
	f = fetched{failed: now}
	if f.cert, f.err = s.download(ctx, at); ctx.Err() != nil {
		return f // the caller has left: the failure says nothing about the address
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[at] = f
	return f
}

// download reads a certificate in DER or PEM.
func (s *issuers) download(ctx context.Context, at string) (*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(res.Body, maxCertificate+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", at, err)
	case res.StatusCode != http.StatusOK || len(body) > maxCertificate:
		return nil, fmt.Errorf("%s: %s, %d bytes", at, res.Status, len(body))
	}
	if block, _ := pem.Decode(body); block != nil {
		body = block.Bytes
	}
	cert, err := x509.ParseCertificate(body)
	if err != nil {
		return nil, fmt.Errorf("%s: not a certificate", at) // without the answer, which the caller may read
	}
	return cert, nil
}
