// Package s3grant is the grant.Store of Amazon S3 and of compatible stores. It signs with Signature Version 4 in
// the query (Amazon S3 API reference, "Authenticating Requests: Using Query Parameters"), with the SDK's presigner.
//
// A grant binds the method, the object, the upload and number of a part, the range, the length and the checksum: they
// are in the signed query or the signed headers. It never outlives the credentials that signed it: S3 rejects a URL
// whose session token has expired, whatever the URL says. That is up to 12 hours for an assumed role, the remaining
// life (also hours) of a function's credentials in Lambda, and seven days with a long-lived key.
package s3grant

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

const scheme = "s3"

const longest = 7 * 24 * time.Hour // limit of Signature Version 4

// Store signs for the buckets of the client's region. Make one with New.
type Store struct {
	client *s3.Client
	signer *s3.PresignClient // shared, because creating one writes to options shared with the client
	now    func() time.Time
	loans  Loans
}

// Options of a Store.
type Options struct {
	Now   func() time.Time // nil means time.Now
	Loans Loans            // with the zero value, Lend fails
}

// New returns a store with the client's credentials, region and endpoint.
func New(client *s3.Client, opts Options) *Store {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Store{client: client, signer: s3.NewPresignClient(client), now: opts.Now, loans: opts.Loans}
}

// Sign implements grant.Signer.
func (s *Store) Sign(ctx context.Context, wants ...grant.Want) ([]grant.Grant, error) {
	if len(wants) == 0 {
		return nil, nil
	}
	creds, err := s.credentials(ctx)
	if err != nil {
		return nil, err
	}
	// Signature Version 4 uses whole seconds; rounding must not lengthen a grant.
	b := batch{signer: s.signer, creds: creds, now: s.now().Truncate(time.Second)}
	grants := make([]grant.Grant, 0, len(wants))
	for _, w := range wants {
		g, err := b.sign(ctx, w)
		if err != nil {
			return nil, err
		}
		grants = append(grants, g)
	}
	return grants, nil
}

// credentials fetches the credentials for a whole batch, so that they are not renewed in the middle.
func (s *Store) credentials(ctx context.Context) (aws.Credentials, error) {
	provider := s.client.Options().Credentials
	if provider == nil {
		return aws.Credentials{}, fmt.Errorf("s3grant: %w", grant.ErrCredentials)
	}
	creds, err := provider.Retrieve(ctx)
	if err != nil {
		return aws.Credentials{}, fmt.Errorf("s3grant: %w: %w", grant.ErrCredentials, grant.Redact(err))
	}
	if creds.CanExpire && creds.Expires.Sub(s.now()) < time.Second {
		return aws.Credentials{}, fmt.Errorf("s3grant: %w: they expired at %s", grant.ErrCredentials, creds.Expires)
	}
	return creds, nil
}

type batch struct {
	signer *s3.PresignClient
	creds  aws.Credentials
	now    time.Time
}

func (b batch) sign(ctx context.Context, w grant.Want) (grant.Grant, error) {
	o, err := w.CheckOf(scheme)
	if err != nil {
		return grant.Grant{}, err
	}
	lasts := min(w.For, longest)
	if b.creds.CanExpire {
		lasts = min(lasts, b.creds.Expires.Sub(b.now))
	}
	lasts = lasts.Truncate(time.Second)
	signed, err := b.presign(ctx, o, w, lasts)
	if err != nil {
		return grant.Grant{}, fmt.Errorf("s3grant: sign %s of %s: %w", w.Op, o, grant.Redact(err))
	}
	g := grant.Grant{Method: signed.Method, URL: signed.URL, Expires: b.now.Add(lasts)}
	for name := range signed.SignedHeader {
		if name = http.CanonicalHeaderKey(name); name == "Host" || name == "Content-Length" {
			continue // net/http sets them from the URL and the body
		}
		if g.Header == nil {
			g.Header = map[string]string{}
		}
		g.Header[name] = signed.SignedHeader.Get(name)
	}
	return g, nil
}

// presign lets the SDK build and sign the request.
func (b batch) presign(ctx context.Context, o grant.Object, w grant.Want, lasts time.Duration) (
	*v4.PresignedHTTPRequest, error,
) {
	as := func(p *s3.PresignOptions) {
		p.Expires = lasts
		p.Presigner = signer{now: b.now}
		p.ClientOptions = append(p.ClientOptions, func(c *s3.Options) {
			c.Credentials = credentials.StaticCredentialsProvider{Value: b.creds}
			c.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired // no body yet
			c.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		})
	}
	bucket, key := aws.String(o.Bucket), aws.String(o.Key)
	switch w.Op {
	case grant.Put:
		in := &s3.PutObjectInput{Bucket: bucket, Key: key, ContentLength: aws.Int64(w.Size)}
		if w.New { // a conditional write (Amazon S3 User Guide, "How to prevent object overwrites")
			in.ContentLength, in.IfNoneMatch = nil, aws.String("*")
			return b.signer.PresignPutObject(ctx, in, as)
		}
		value := aws.String(base64.StdEncoding.EncodeToString(w.Sum.Value))
		switch {
		case w.Sum.Kind == grant.MD5:
			in.ContentMD5 = value
		case w.Sum.Kind == grant.SHA256:
			in.ChecksumSHA256 = value
		case w.Sum.Kind == grant.CRC32C:
			in.ChecksumCRC32C = value
		case w.Size == 0:
			in.ContentMD5 = aws.String(emptyMD5)
		}
		return b.signer.PresignPutObject(ctx, in, as)
	case grant.Part:
		in := &s3.UploadPartInput{
			Bucket: bucket, Key: key, ContentLength: aws.Int64(w.Size), UploadId: aws.String(w.Upload),
			PartNumber: aws.Int32(int32(w.Number)), //nolint:gosec // Check bounds it
		}
		if w.Sum.Kind == grant.MD5 {
			in.ContentMD5 = aws.String(base64.StdEncoding.EncodeToString(w.Sum.Value))
		} else if w.Size == 0 {
			in.ContentMD5 = aws.String(emptyMD5)
		}
		return b.signer.PresignUploadPart(ctx, in, as)
	}
	in := &s3.GetObjectInput{Bucket: bucket, Key: key}
	if w.Range != nil {
		in.Range = aws.String(w.Range.Header())
	}
	return b.signer.PresignGetObject(ctx, in, as)
}

// emptyMD5 bounds an empty body: the signer omits a length of zero, because a request without a body has no length.
const emptyMD5 = "1B2M2Y8AsgTpgAmY7PhCfg=="

// signer is the SDK's signer, but uses the store's time.
type signer struct{ now time.Time }

func (s signer) PresignHTTP(ctx context.Context, creds aws.Credentials, r *http.Request,
	payload, service, region string, _ time.Time, opts ...func(*v4.SignerOptions),
) (string, http.Header, error) {
	return v4.NewSigner().PresignHTTP(ctx, creds, r, payload, service, region, s.now,
		append(opts, func(o *v4.SignerOptions) {
			o.DisableURIPathEscaping = true // only S3 escapes once
		})...)
}

// Begin implements grant.Store.
func (s *Store) Begin(ctx context.Context, uri string) (string, error) {
	o, err := grant.ParseOf(scheme, uri)
	if err != nil {
		return "", err
	}
	out, err := s.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
		Bucket: aws.String(o.Bucket), Key: aws.String(o.Key),
	}, noChecksum)
	if err != nil {
		return "", wrapError("begin", o, err)
	}
	return aws.ToString(out.UploadId), nil
}

// noChecksum prevents the SDK from promising S3 a checksum for every part, which a plain client does not send.
func noChecksum(o *s3.Options) {
	o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
}

// Complete implements grant.Store.
func (s *Store) Complete(ctx context.Context, uri, upload string, parts []grant.Uploaded) error {
	o, err := grant.ParseOf(scheme, uri)
	if err != nil {
		return err
	}
	if parts, err = grant.CheckParts(parts); err != nil {
		return err
	}
	list := make([]types.CompletedPart, 0, len(parts))
	for _, p := range parts {
		list = append(list, types.CompletedPart{
			PartNumber: aws.Int32(int32(p.Number)), ETag: aws.String(p.ETag), //nolint:gosec // CheckParts bounds it
		})
	}
	_, err = s.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: aws.String(o.Bucket), Key: aws.String(o.Key), UploadId: aws.String(upload),
		MultipartUpload: &types.CompletedMultipartUpload{Parts: list},
	}, noChecksum)
	return wrapError("complete", o, err)
}

// Abort implements grant.Store.
func (s *Store) Abort(ctx context.Context, uri, upload string) error {
	o, err := grant.ParseOf(scheme, uri)
	if err != nil {
		return err
	}
	_, err = s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
		Bucket: aws.String(o.Bucket), Key: aws.String(o.Key), UploadId: aws.String(upload),
	})
	if err = wrapError("abort", o, err); errors.Is(err, grant.ErrUpload) {
		return nil
	}
	return err
}

func wrapError(what string, o grant.Object, err error) error {
	if err == nil {
		return nil
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode() {
		case "NoSuchUpload", "InvalidPart", "InvalidPartOrder", "EntityTooSmall":
			return fmt.Errorf("s3grant: %s %s: %w: %s", what, o, grant.ErrUpload, api.ErrorCode())
		case "NoSuchBucket", "PermanentRedirect", "AccessDenied":
			return fmt.Errorf("s3grant: %s %s: %w: %s", what, o, grant.ErrNoBucket, api.ErrorCode())
		}
	}
	return fmt.Errorf("s3grant: %s %s: %w", what, o, grant.Redact(err))
}
