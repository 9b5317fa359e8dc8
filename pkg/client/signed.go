package client

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// NewSigned makes a client of a broker behind an API Gateway that authorises by IAM: each request is signed (AWS
// Signature Version 4) with keys, for the API's region.
func NewSigned(base, region string, keys aws.CredentialsProvider) *Client {
	c := New(base, "")
	c.http.Transport = &signing{next: http.DefaultTransport, region: region, keys: keys, signer: v4.NewSigner()}
	return c
}

// signing is a transport that signs requests.
type signing struct {
	next   http.RoundTripper
	region string
	keys   aws.CredentialsProvider
	signer *v4.Signer
}

// RoundTrip implements http.RoundTripper.
func (s *signing) RoundTrip(r *http.Request) (*http.Response, error) {
	keys, err := s.keys.Retrieve(r.Context())
	if err != nil {
		return nil, fmt.Errorf("retrieving AWS credentials: %w", err)
	}
	sum := sha256.New()
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		_, err = io.Copy(sum, body)
		_ = body.Close() // it is in memory
		if err != nil {
			return nil, err
		}
	}
	signed := r.Clone(r.Context())
	signed.Header.Del("Authorization")
	if err := s.signer.SignHTTP(r.Context(), keys, signed, hex.EncodeToString(sum.Sum(nil)), "execute-api", s.region,
		time.Now()); err != nil {
		return nil, err
	}
	return s.next.RoundTrip(signed)
}
