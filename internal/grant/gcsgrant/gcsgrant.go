// Package gcsgrant is the grant.Store of Google Cloud Storage. It signs V4 URLs with the published algorithm
// ("Signatures", "Canonical requests" in the documentation of Cloud Storage), which is a page of code and avoids the
// SDK. A Signer does the signing: RSA for a service account's key, or IAM's signBlob for an identity without a key.
// signBlob takes one call for each signature, made in parallel; programs that sign a thousand at once should have a
// key.
//
// A grant binds the method, the object, the upload and number of a part, the range and the checksum, all signed. It
// binds the length with x-goog-content-length-range, which is documented only for whole objects. A part's length is
// bounded by its MD5, which callers should give. A grant lasts at most seven days, the limit of V4, or twelve hours if
// IAM signs it.
//
// Multipart uploads are those of the XML API, not resumable uploads or composed objects. A resumable upload takes one
// part after the other, and its session URL is a right that lasts a week without its own expiry. Composing creates a
// temporary object for each part, which anyone with list permission can see, which retention and soft delete charge
// for, and of which at most 32 are joined at a time. Parts of the XML API are uploaded in parallel, are not objects,
// are dropped with one call, and a rule of the bucket (AbortIncompleteMultipartUpload) removes forgotten ones. The
// store makes these calls with URLs that it signs itself, so it needs no rights other than those it grants.
package gcsgrant

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/sync/errgroup"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

const (
	scheme     = "gs"
	longest    = 7 * 24 * time.Hour
	callFor    = 5 * time.Minute // lifetime of signatures for the store's own requests
	atOnce     = 16              // maximum number of concurrent signatures
	algorithm  = "GOOG4-RSA-SHA256"
	iso8601    = "20060102T150405Z"
	public     = "https://storage.googleapis.com"
	maxAnswer  = 1 << 20 // bytes
	xmlContent = "application/xml"
)

// Store signs for the buckets that one service account may access. Use New to create one.
type Store struct{ opts Options }

// Options of a Store. Account and Sign are required.
type Options struct {
	Account  string           // the service account's email address
	Sign     Signer           // signs for the account
	Endpoint string           // "" means https://storage.googleapis.com
	Client   *http.Client     // for the store's own requests; nil means http.DefaultClient
	Now      func() time.Time // nil means time.Now
	// Project is the project for new buckets; if empty, the store cannot create buckets.
	Project string
	// Locations has the locations of new buckets by bucket name; for others, Google chooses.
	Locations map[string]string
	// Token is the account's token, from which Lend derives limited ones; if nil, Lend fails.
	Token oauth2.TokenSource
}

// Signer signs for a service account.
type Signer struct {
	// Func returns the account's RSA signature (PKCS #1 v1.5) of the SHA-256 of payload, as IAM's signBlob does. It
	// must be safe for concurrent use.
	Func func(ctx context.Context, payload []byte) ([]byte, error)
	// Longest is the maximum lifetime of signatures; 0 means the limit of V4.
	Longest time.Duration
}

// RSA signs with a service account's private key.
func RSA(key *rsa.PrivateKey) Signer {
	return Signer{Func: func(_ context.Context, payload []byte) ([]byte, error) {
		sum := sha256.Sum256(payload)
		return rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
	}}
}

// PEM is RSA with a PEM-encoded key, as in a service account's key file.
func PEM(text []byte) (Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return Signer{}, errors.New("gcsgrant: not a PEM key")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return Signer{}, fmt.Errorf("gcsgrant: parse the key: %w", err)
	}
	private, ok := key.(*rsa.PrivateKey)
	if !ok {
		return Signer{}, errors.New("gcsgrant: not an RSA key")
	}
	return RSA(private), nil
}

// New returns a store.
func New(opts Options) (*Store, error) {
	if opts.Account == "" || opts.Sign.Func == nil {
		return nil, errors.New("gcsgrant: the account or its sign function is missing")
	}
	if opts.Endpoint == "" {
		opts.Endpoint = public
	}
	if u, err := url.Parse(opts.Endpoint); err != nil || u.Host == "" {
		return nil, errors.New("gcsgrant: the endpoint is not a URL")
	}
	opts.Endpoint = strings.TrimSuffix(opts.Endpoint, "/")
	if opts.Client == nil {
		opts.Client = http.DefaultClient
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Store{opts: opts}, nil
}

// request is a request to grant, before it is signed.
type request struct {
	method string
	query  map[string]string
	header map[string]string
}

// Sign implements grant.Signer. Supported checksums are MD5 and CRC32C.
func (s *Store) Sign(ctx context.Context, wants ...grant.Want) ([]grant.Grant, error) {
	grants := make([]grant.Grant, len(wants))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, w := range wants {
		o, err := w.CheckOf(scheme)
		if err != nil {
			return nil, errors.Join(err, group.Wait())
		}
		r, err := requestFor(w)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("gcsgrant: %s of %s: %w", w.Op, o, err), group.Wait())
		}
		group.Go(func() error {
			var err error
			grants[i], err = s.sign(ctx, o, r, w.For)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return grants, nil
}

// requestFor returns the request for a want (XML API: GET Object, PUT Object, Upload a part).
func requestFor(w grant.Want) (request, error) {
	r := request{method: http.MethodGet, header: map[string]string{}}
	if w.Range != nil {
		r.header["Range"] = w.Range.Header()
	}
	if w.Op == grant.Get {
		return r, nil
	}
	r.method = http.MethodPut
	r.header["X-Goog-Content-Length-Range"] = fmt.Sprintf("%d,%d", w.Size, w.Size)
	if w.New { // Cloud Storage, "Request preconditions": generation 0 means that there is no live object
		r.header["X-Goog-Content-Length-Range"] = fmt.Sprintf("1,%d", w.Size)
		r.header["X-Goog-If-Generation-Match"] = "0"
	}
	if w.Op == grant.Part {
		r.query = map[string]string{"partNumber": fmt.Sprint(w.Number), "uploadId": w.Upload}
	}
	value := base64.StdEncoding.EncodeToString(w.Sum.Value)
	switch w.Sum.Kind {
	case grant.MD5:
		r.header["Content-MD5"] = value
	case grant.CRC32C:
		r.header["X-Goog-Hash"] = "crc32c=" + value
	case grant.SHA256:
		return request{}, fmt.Errorf("checksum sha256: %w", errors.ErrUnsupported)
	}
	return r, nil
}

func (s *Store) sign(ctx context.Context, o grant.Object, r request, lasts time.Duration) (grant.Grant, error) {
	now := s.opts.Now().UTC().Truncate(time.Second)
	lasts = min(lasts, cmp.Or(s.opts.Sign.Longest, longest)).Truncate(time.Second)
	g := grant.Grant{Method: r.method, Header: r.header, Expires: now.Add(lasts)}
	u, err := url.Parse(s.opts.Endpoint)
	if err != nil {
		return grant.Grant{}, err
	}
	names, lines := canonicalHeaders(u.Host, r.header)
	scope := now.Format("20060102") + "/auto/storage/goog4_request"
	query := url.Values{
		"X-Goog-Algorithm":     {algorithm},
		"X-Goog-Credential":    {s.opts.Account + "/" + scope},
		"X-Goog-Date":          {now.Format(iso8601)},
		"X-Goog-Expires":       {fmt.Sprint(int64(lasts / time.Second))},
		"X-Goog-SignedHeaders": {names},
	}
	for k, v := range r.query {
		query.Set(k, v)
	}
	path := strings.TrimSuffix(u.Path+"/"+o.Bucket+"/"+o.EscapedKey(), "/")
	encoded := strings.ReplaceAll(query.Encode(), "+", "%20") // Encode writes a plus sign as %2B
	canonical := strings.Join([]string{r.method, path, encoded, lines, names, "UNSIGNED-PAYLOAD"}, "\n")
	sum := sha256.Sum256([]byte(canonical))
	payload := strings.Join([]string{algorithm, now.Format(iso8601), scope, hex.EncodeToString(sum[:])}, "\n")
	signature, err := s.opts.Sign.Func(ctx, []byte(payload))
	if err != nil {
		return grant.Grant{}, fmt.Errorf("gcsgrant: sign for %s: %w: %w", o, grant.ErrCredentials, grant.Redact(err))
	}
	g.URL = u.Scheme + "://" + u.Host + path + "?" + encoded + "&X-Goog-Signature=" + hex.EncodeToString(signature)
	return g, nil
}

// canonicalHeaders returns the signed headers' names, and the lines of names and values, with an empty last line.
func canonicalHeaders(host string, header map[string]string) (names, lines string) {
	lower := map[string]string{"host": host}
	for k, v := range header {
		lower[strings.ToLower(k)] = v
	}
	sorted := make([]string, 0, len(lower))
	for k := range lower {
		sorted = append(sorted, k)
	}
	slices.Sort(sorted)
	var b strings.Builder
	for _, k := range sorted {
		fmt.Fprintf(&b, "%s:%s\n", k, lower[k])
	}
	return strings.Join(sorted, ";"), b.String()
}

// Begin implements grant.Store.
func (s *Store) Begin(ctx context.Context, uri string) (string, error) {
	o, err := grant.ParseOf(scheme, uri)
	if err != nil {
		return "", err
	}
	var answer struct {
		Upload string `xml:"UploadId"`
	}
	if err := s.call(ctx, o, request{method: http.MethodPost, query: map[string]string{"uploads": ""}}, nil,
		&answer); err != nil {
		return "", fmt.Errorf("gcsgrant: begin %s: %w", o, err)
	}
	if answer.Upload == "" {
		return "", fmt.Errorf("gcsgrant: begin %s: the answer has no upload ID", o)
	}
	return answer.Upload, nil
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
	type part struct {
		PartNumber int
		ETag       string
	}
	list := struct {
		XMLName xml.Name `xml:"CompleteMultipartUpload"`
		Part    []part
	}{}
	for _, p := range parts {
		list.Part = append(list.Part, part{p.Number, p.ETag})
	}
	body, err := xml.Marshal(list)
	if err != nil {
		return err
	}
	r := request{method: http.MethodPost, query: map[string]string{"uploadId": upload}}
	if err := s.call(ctx, o, r, body, nil); err != nil {
		return fmt.Errorf("gcsgrant: complete %s: %w", o, err)
	}
	return nil
}

// Abort implements grant.Store.
func (s *Store) Abort(ctx context.Context, uri, upload string) error {
	o, err := grant.ParseOf(scheme, uri)
	if err != nil {
		return err
	}
	r := request{method: http.MethodDelete, query: map[string]string{"uploadId": upload}}
	if err := s.call(ctx, o, r, nil, nil); err != nil && !errors.Is(err, grant.ErrUpload) {
		return fmt.Errorf("gcsgrant: abort %s: %w", o, err)
	}
	return nil
}

// call signs a request, sends it and decodes the XML answer into answer, if that is not nil.
func (s *Store) call(ctx context.Context, o grant.Object, r request, body []byte, answer any) error {
	g, err := s.sign(ctx, o, r, callFor)
	if err != nil {
		return err
	}
	req, err := g.Request(ctx, bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", xmlContent)
	}
	resp, err := s.opts.Client.Do(req)
	if err != nil {
		return grant.Redact(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return grant.Redact(err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return errorOf(resp.Status, text)
	}
	if answer == nil {
		return nil
	}
	return xml.Unmarshal(text, answer)
}

// errorOf returns an error with the answer's code. It omits the details, which repeat the signed text.
func errorOf(status string, text []byte) error {
	var answer struct{ Code string }
	_ = xml.Unmarshal(text, &answer) // a proxy's answer is not XML; then use only the status
	switch answer.Code {
	case "NoSuchUpload", "InvalidPart", "InvalidPartOrder", "EntityTooSmall":
		return fmt.Errorf("%w: %s", grant.ErrUpload, answer.Code)
	case "NoSuchBucket", "AccessDenied", "BucketAlreadyExists", "BucketNameUnavailable", "InvalidBucketName":
		return fmt.Errorf("%w: %s", grant.ErrNoBucket, answer.Code)
	case "NoSuchKey":
		return fmt.Errorf("%w: %s", errNoObject, answer.Code)
	}
	return fmt.Errorf("%s %s", status, answer.Code)
}
