// Package azgrant is the grant.Store of Azure Blob Storage. It creates shared access signatures for one blob, either
// with a user delegation key (Delegation), which Azure gives to an identity for up to seven days, or with an
// account's key (SharedKey), for accounts without identities.
//
// Both bind the blob, reading or writing, the expiry and, except for a loopback address, HTTPS. A signature does not
// bind the writing method, headers or the query, so the holder of a grant to write a blob can write it in
// other ways: whole, in blocks, or longer than declared. The harm is limited to that blob. With a user delegation
// key, headers and query parameters can be required (fields srh and srq, since version 2026-04-06 of the service),
// and are: the upload and number of a part, the range, the checksum. The length is not, because the documentation does
// not say that this header can be required; callers should give the MD5, which bounds the length.
//
// A multipart upload consists of blocks, whose identifiers begin with the upload's name. Azure keeps the blocks of all
// uploads of a blob together until a list of them is committed, which drops the others. So if an object has two
// uploads, the first to complete wins and the other fails with ErrUpload. Azure cannot abort an upload: uncommitted
// blocks are invisible, and Azure drops them after a week.
package azgrant

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

const (
	scheme  = "azblob"
	longest = 7 * 24 * time.Hour // lifetime of a user delegation key; also used for an account's key
	callFor = 5 * time.Minute    // lifetime of signatures for the store's own requests

	maxAnswer = 16 << 20 // bytes
)

// Store signs for the containers of one account. Make one with New.
type Store struct {
	endpoint string
	protocol sas.Protocol
	keys     Credential
	opts     Options
}

// Options of a Store.
type Options struct {
	Client *http.Client     // for the store's own requests; nil means http.DefaultClient
	Now    func() time.Time // nil means time.Now
}

// New returns a store for the account at endpoint: https://ACCOUNT.blob.core.windows.net.
func New(endpoint string, keys Credential, opts Options) (*Store, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return nil, errors.New("azgrant: the endpoint is not a URL")
	}
	if opts.Client == nil {
		opts.Client = http.DefaultClient
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	s := &Store{endpoint: strings.TrimSuffix(endpoint, "/"), protocol: sas.ProtocolHTTPS, keys: keys, opts: opts}
	if u.Scheme == "http" { // an emulator
		s.protocol = sas.ProtocolHTTPSandHTTP
	}
	return s, nil
}

// request is a request to grant, before it is signed.
type request struct {
	method string
	query  map[string]string
	header map[string]string
	rights string // in the format of sas.BlobPermissions or, for a container, sas.ContainerPermissions
}

// Sign implements grant.Signer. The only supported checksum is MD5.
func (s *Store) Sign(ctx context.Context, wants ...grant.Want) ([]grant.Grant, error) {
	grants := make([]grant.Grant, 0, len(wants))
	for _, w := range wants {
		o, err := w.CheckOf(scheme)
		if err != nil {
			return nil, err
		}
		r, err := requestFor(w)
		if err != nil {
			return nil, fmt.Errorf("azgrant: %s of %s: %w", w.Op, o, err)
		}
		g, err := s.sign(ctx, o, r, w.For)
		if err != nil {
			return nil, err
		}
		grants = append(grants, g)
	}
	return grants, nil
}

// requestFor returns the request for a want (Blob service REST API: Get Blob, Put Blob, Put Block).
func requestFor(w grant.Want) (request, error) {
	if w.Op == grant.Get {
		r := request{method: http.MethodGet, rights: reading.String()}
		if w.Range != nil {
			r.header = map[string]string{"x-ms-range": w.Range.Header()} // takes precedence over Range
		}
		return r, nil
	}
	r := request{method: http.MethodPut, header: map[string]string{}, rights: writing.String()}
	switch {
	case w.Sum.Kind == grant.MD5:
		r.header["Content-MD5"] = base64.StdEncoding.EncodeToString(w.Sum.Value)
	case w.Sum.Kind != "":
		return request{}, fmt.Errorf("checksum %s: %w", w.Sum.Kind, errors.ErrUnsupported)
	case w.Size == 0:
		r.header["Content-MD5"] = emptyMD5
	}
	if w.New { // the right to create a blob does not allow to overwrite one (Azure Storage, "Create a service SAS")
		r.header["If-None-Match"] = "*"
		r.rights = creating.String()
	}
	if w.Op == grant.Part {
		r.query = map[string]string{"comp": "block", "blockid": block(w.Upload, w.Number)}
	} else {
		r.header["x-ms-blob-type"] = "BlockBlob"
	}
	return r, nil
}

var (
	reading  = sas.BlobPermissions{Read: true}
	writing  = sas.BlobPermissions{Write: true}
	creating = sas.BlobPermissions{Create: true}
	removing = sas.BlobPermissions{Delete: true}
	listing  = sas.ContainerPermissions{List: true}
)

const emptyMD5 = "1B2M2Y8AsgTpgAmY7PhCfg=="

// block returns the block identifier of a part; all identifiers of a blob must have the same length.
func block(upload string, number int) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s-%05d", upload, number))
}

func (s *Store) sign(ctx context.Context, o grant.Object, r request, lasts time.Duration) (grant.Grant, error) {
	now := s.opts.Now()
	expires := now.Add(min(lasts, longest)).Truncate(time.Second)
	params, expires, err := s.keys.sign(ctx, now, sas.BlobSignatureValues{
		Protocol: s.protocol, ExpiryTime: expires.UTC(), Permissions: r.rights,
		ContainerName: o.Bucket, BlobName: o.Key,
	}, r)
	if err != nil {
		return grant.Grant{}, fmt.Errorf("azgrant: sign for %s: %w", o, grant.Redact(err))
	}
	query := params.Encode()
	if len(r.query) > 0 {
		extra := url.Values{}
		for k, v := range r.query {
			extra.Set(k, v)
		}
		query = extra.Encode() + "&" + query
	}
	return grant.Grant{
		Method: r.method, URL: strings.TrimSuffix(s.endpoint+"/"+o.Bucket+"/"+o.EscapedKey(), "/") + "?" + query,
		Header: r.header, Expires: expires,
	}, nil
}

// uploadName is the length of every upload's name, because block identifiers must have equal lengths.
var uploadName = len(rand.Text())

// Begin implements grant.Store. It makes no request to Azure.
func (s *Store) Begin(_ context.Context, uri string) (string, error) {
	if _, err := grant.ParseOf(scheme, uri); err != nil {
		return "", err
	}
	return rand.Text(), nil
}

// Complete implements grant.Store with a block list (Put Block List), which it signs and sends.
func (s *Store) Complete(ctx context.Context, uri, upload string, parts []grant.Uploaded) error {
	o, err := grant.ParseOf(scheme, uri)
	if err != nil {
		return err
	}
	if len(upload) != uploadName {
		return fmt.Errorf("azgrant: %w: bad upload name", grant.ErrUpload)
	}
	if parts, err = grant.CheckParts(parts); err != nil {
		return err
	}
	list := struct {
		XMLName     xml.Name `xml:"BlockList"`
		Uncommitted []string
	}{}
	for _, p := range parts {
		list.Uncommitted = append(list.Uncommitted, block(upload, p.Number))
	}
	body, err := xml.Marshal(list)
	if err != nil {
		return err
	}
	r := request{method: http.MethodPut, query: map[string]string{"comp": "blocklist"}, rights: writing.String()}
	if _, err := s.call(ctx, o, r, body); err != nil {
		return fmt.Errorf("azgrant: complete %s: %w", o, err)
	}
	return nil
}

// call signs a request and sends it.
func (s *Store) call(ctx context.Context, o grant.Object, r request, body []byte) (answer []byte, err error) {
	g, err := s.sign(ctx, o, r, callFor)
	if err != nil {
		return nil, err
	}
	req, err := g.Request(ctx, bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return nil, err
	}
	resp, err := s.opts.Client.Do(req)
	if err != nil {
		return nil, grant.Redact(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read
	if answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err != nil {
		return nil, grant.Redact(err)
	}
	switch code := resp.Header.Get("x-ms-error-code"); {
	case resp.StatusCode < http.StatusMultipleChoices:
		return answer, nil
	case code == "InvalidBlockList" || code == "InvalidBlockId" || code == "InvalidBlobOrBlock":
		return nil, fmt.Errorf("%w: %s", grant.ErrUpload, code)
	case code == "ContainerNotFound" || resp.StatusCode == http.StatusForbidden:
		return nil, fmt.Errorf("%w: %s", grant.ErrNoBucket, code)
	case resp.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%w: %s", errNoBlob, code)
	default:
		return nil, fmt.Errorf("%s %s", resp.Status, code)
	}
}

// Abort implements grant.Store. It has nothing to do: see the package comment.
func (s *Store) Abort(_ context.Context, uri, _ string) error {
	_, err := grant.ParseOf(scheme, uri)
	return err
}
