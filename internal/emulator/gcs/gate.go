// Package gcs is a proxy in front of fake-gcs-server that adds missing features. It checks signatures as documented
// for Cloud Storage ("V4 signing process"), the checksums and the length range. It implements the multipart uploads
// of the XML API, and stores their objects in the server when they are complete. IAM's signBlob is at the same
// address. The checks are written independently of the client, and use the request as received.
package gcs

import (
	"bytes"
	"context"
	"crypto"
	"crypto/md5" //nolint:gosec // the API uses MD5
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Gate is the HTTP server in front of fake-gcs-server. Make one with New.
type Gate struct {
	account string
	key     *rsa.PrivateKey
	server  *httputil.ReverseProxy
	target  *url.URL

	mu      sync.Mutex
	uniform map[string]bool // buckets with uniform access
	uploads map[string]*upload
	begun   int
}

// New returns the gate of a fake-gcs-server. It accepts requests that the service account has signed with the key, and
// its signBlob signs with that key for every caller.
func New(target, account string, key *rsa.PrivateKey) (*Gate, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	return &Gate{
		account: account, key: key, target: u, server: httputil.NewSingleHostReverseProxy(u),
		uploads: map[string]*upload{}, uniform: map[string]bool{},
	}, nil
}

// MakeBucket creates a bucket in the server.
func (g *Gate) MakeBucket(ctx context.Context, name string) error {
	body, err := json.Marshal(map[string]string{"name": name})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.target.String()+"/storage/v1/b",
		bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req) //nolint:gosec // to the server behind the gate
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("gcs: bucket %s: %s", name, resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

// note records whether a bucket that the JSON API creates has uniform access. The XML API has no such setting.
func (g *Gate) note(r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/storage/v1/b" {
		return
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var in struct {
		Name             string
		IamConfiguration struct{ UniformBucketLevelAccess struct{ Enabled bool } }
	}
	if err != nil || json.Unmarshal(body, &in) != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.uniform[in.Name] = in.IamConfiguration.UniformBucketLevelAccess.Enabled
}

// Uniform reports whether a bucket was created with uniform bucket-level access. Without it, Google refuses tokens that
// are limited by a credential access boundary.
func (g *Gate) Uniform(bucket string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.uniform[bucket]
}

// signBlob signs like IAM (IAM Service Account Credentials API, projects.serviceAccounts.signBlob).
func (g *Gate) signBlob(w http.ResponseWriter, r *http.Request) {
	var asked struct{ Payload []byte }
	err := json.NewDecoder(r.Body).Decode(&asked)
	if err != nil || r.URL.Path != iamPath+g.account+iamVerb {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"error":{"message":"Permission 'iam.serviceAccounts.signBlob' denied"}}`)
		return
	}
	sum := sha256.Sum256(asked.Payload)
	signature, err := rsa.SignPKCS1v15(nil, g.key, crypto.SHA256, sum[:])
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"keyId": "1", "signedBlob": signature})
}

const iamPath, iamVerb = "/v1/projects/-/serviceAccounts/", ":signBlob"

type upload struct {
	path  string
	parts map[int][]byte
}

// ServeHTTP implements http.Handler.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, iamPath) {
		g.signBlob(w, r)
		return
	}
	if strings.HasPrefix(strings.TrimPrefix(r.URL.Path, "/upload"), "/storage/v1/") && r.URL.RawQuery != "" &&
		// a request of the JSON API, whose tokens are not checked here
		!strings.Contains(r.URL.RawQuery, "X-Goog-Signature") {
		g.note(r)
		g.server.ServeHTTP(w, r)
		return
	}
	if why := g.verify(r); why != "" {
		writeError(w, http.StatusForbidden, "SignatureDoesNotMatch", why)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		writeError(w, http.StatusBadRequest, "IncompleteBody", "")
		return
	}
	if why := bodyMismatch(r.Header, body); why != "" {
		writeError(w, http.StatusBadRequest, "BadDigest", why)
		return
	}
	q := r.URL.Query()
	if q.Has("uploads") || q.Has("uploadId") {
		g.multipart(w, r, q, body)
		return
	}
	if bucket := strings.Trim(r.URL.Path, "/"); !strings.Contains(bucket, "/") && r.Method != http.MethodGet {
		g.bucket(w, r, bucket)
		return
	}
	if q.Has("list-type") {
		g.list(w, r, q)
		return
	}
	g.forward(w, r, body)
}

// bucket creates or removes a bucket, like the XML API.
func (g *Gate) bucket(w http.ResponseWriter, r *http.Request, name string) {
	switch r.Method {
	case http.MethodPut:
		if r.Header.Get("X-Goog-Project-Id") == "" {
			writeError(w, http.StatusBadRequest, "ProjectIdMissing", "")
			return
		}
		if err := g.MakeBucket(r.Context(), name); err != nil {
			writeError(w, http.StatusConflict, "BucketAlreadyOwnedByYou", "")
		}
	case http.MethodDelete:
		clean := r.Clone(r.Context())
		clean.URL.Path, clean.URL.RawPath, clean.URL.RawQuery = "/storage/v1/b/"+name, "", ""
		g.server.ServeHTTP(w, clean)
	}
}

// list answers like the XML API. It uses the list of the server's JSON API, whose offset is inclusive.
func (g *Gate) list(w http.ResponseWriter, r *http.Request, q url.Values) {
	bucket := strings.TrimPrefix(r.URL.Path, "/")
	query := url.Values{"prefix": {q.Get("prefix")}, "maxResults": {"100000"}}.Encode()
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, //nolint:gosec // as below
		g.target.String()+"/storage/v1/b/"+bucket+"/o?"+query, nil)
	if err != nil {
		writeError(w, http.StatusBadRequest, "", err.Error())
		return
	}
	resp, err := http.DefaultClient.Do(req) //nolint:gosec // to the server behind the gate
	if err != nil {
		writeError(w, http.StatusBadGateway, "", err.Error())
		return
	}
	defer resp.Body.Close() //nolint:errcheck // read
	if resp.StatusCode != http.StatusOK {
		writeError(w, http.StatusNotFound, "NoSuchBucket", "")
		return
	}
	type content struct {
		Key  string `json:"name"`
		Size int64  `json:"size,string"`
	}
	var all struct{ Items []content }
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		writeError(w, http.StatusBadGateway, "", err.Error())
		return
	}
	most, _ := strconv.Atoi(q.Get("max-keys"))
	answer := struct {
		XMLName     xml.Name `xml:"ListBucketResult"`
		IsTruncated bool
		Contents    []content
	}{}
	for _, c := range all.Items {
		if c.Key <= q.Get("start-after") {
			continue
		}
		if answer.IsTruncated = len(answer.Contents) == most; answer.IsTruncated {
			break
		}
		answer.Contents = append(answer.Contents, c)
	}
	_ = xml.NewEncoder(w).Encode(answer)
}

// missing converts a 404 to the XML API's error for a missing object.
type missing struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (m *missing) WriteHeader(status int) {
	if status == http.StatusNotFound {
		m.Header().Del("Content-Length")
		writeError(m.ResponseWriter, status, "NoSuchKey", "")
		return
	}
	m.ResponseWriter.WriteHeader(status)
}

func writeError(w http.ResponseWriter, status int, code, why string) {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Details>%s</Details></Error>", code, why) //nolint:gosec // not for browsers
}

// forward sends the request to the server without the signature, which the server would mistake for an upload type.
func (g *Gate) forward(w http.ResponseWriter, r *http.Request, body []byte) {
	clean := r.Clone(r.Context())
	clean.URL.RawQuery = ""
	if r.Method == http.MethodPut {
		clean.Method = http.MethodPost
		bucket, object, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		clean.URL.Path, clean.URL.RawPath = "/upload/storage/v1/b/"+bucket+"/o", ""
		query := url.Values{"uploadType": {"media"}, "name": {object}}
		if match := r.Header.Get("X-Goog-If-Generation-Match"); match != "" {
			query.Set("ifGenerationMatch", match)
		}
		clean.URL.RawQuery = query.Encode()
	}
	if r.Method == http.MethodDelete {
		bucket, object, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		clean.URL.Path = "/storage/v1/b/" + bucket + "/o/" + object
		clean.URL.RawPath = "/storage/v1/b/" + bucket + "/o/" + url.PathEscape(object)
		g.server.ServeHTTP(&missing{ResponseWriter: w}, clean)
		return
	}
	clean.Body, clean.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	clean.Host = g.target.Host
	g.server.ServeHTTP(w, clean)
}

// verify returns the fault of the signature, or "".
func (g *Gate) verify(r *http.Request) string {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "query"
	}
	signature, err := hex.DecodeString(q.Get("X-Goog-Signature"))
	if err != nil || q.Get("X-Goog-Algorithm") != "GOOG4-RSA-SHA256" {
		return "algorithm"
	}
	account, scope, _ := strings.Cut(q.Get("X-Goog-Credential"), "/")
	date, err := time.Parse("20060102T150405Z", q.Get("X-Goog-Date"))
	if err != nil || account != g.account || scope != date.Format("20060102")+"/auto/storage/goog4_request" {
		return "credential"
	}
	seconds, err := strconv.Atoi(q.Get("X-Goog-Expires"))
	if err != nil || seconds > 604800 || time.Now().After(date.Add(time.Duration(seconds)*time.Second)) {
		return "expired"
	}
	q.Del("X-Goog-Signature")
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n%s\n", r.Method, r.URL.EscapedPath(), strings.ReplaceAll(q.Encode(), "+", "%20"))
	signed := strings.Split(q.Get("X-Goog-SignedHeaders"), ";")
	for _, name := range signed {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		fmt.Fprintf(&b, "%s:%s\n", name, value)
	}
	for name := range r.Header { // all x-goog headers must be signed
		if strings.HasPrefix(name, "X-Goog-") && !slices.Contains(signed, strings.ToLower(name)) {
			return name
		}
	}
	fmt.Fprintf(&b, "\n%s\nUNSIGNED-PAYLOAD", q.Get("X-Goog-SignedHeaders"))
	canonical := sha256.Sum256([]byte(b.String()))
	text := fmt.Sprintf("GOOG4-RSA-SHA256\n%s\n%s\n%x", q.Get("X-Goog-Date"), scope, canonical)
	sum := sha256.Sum256([]byte(text))
	if rsa.VerifyPKCS1v15(&g.key.PublicKey, crypto.SHA256, sum[:], signature) != nil {
		return "signature"
	}
	return ""
}

// bodyMismatch returns the first header that does not match the body, or "".
func bodyMismatch(h http.Header, body []byte) string {
	sum := md5.Sum(body) //nolint:gosec // Content-MD5 is an MD5
	if want := h.Get("Content-MD5"); want != "" && want != base64.StdEncoding.EncodeToString(sum[:]) {
		return "Content-MD5"
	}
	crc := binary.BigEndian.AppendUint32(nil, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	if want := h.Get("X-Goog-Hash"); want != "" && want != "crc32c="+base64.StdEncoding.EncodeToString(crc) {
		return "x-goog-hash"
	}
	if bounds := h.Get("X-Goog-Content-Length-Range"); bounds != "" {
		var least, most int
		if n, _ := fmt.Sscanf(bounds, "%d,%d", &least, &most); n != 2 || len(body) < least || len(body) > most {
			return "x-goog-content-length-range"
		}
	}
	return ""
}

func (g *Gate) multipart(w http.ResponseWriter, r *http.Request, q url.Values, body []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if q.Has("uploads") && r.Method == http.MethodPost {
		id := fmt.Sprintf("upload/%d+=", g.begun) // Google's IDs have characters that a query must escape
		g.begun++
		g.uploads[id] = &upload{path: r.URL.Path, parts: map[int][]byte{}}
		_, _ = fmt.Fprintf(w,
			"<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>", id)
		return
	}
	u := g.uploads[q.Get("uploadId")]
	if u == nil || u.path != r.URL.Path {
		writeError(w, http.StatusNotFound, "NoSuchUpload", "")
		return
	}
	switch r.Method {
	case http.MethodPut:
		number, _ := strconv.Atoi(q.Get("partNumber"))
		u.parts[number] = body
		w.Header().Set("ETag", etag(body))
	case http.MethodDelete:
		delete(g.uploads, q.Get("uploadId"))
		w.WriteHeader(http.StatusNoContent)
	case http.MethodPost:
		whole, code := u.join(body)
		if code != "" {
			writeError(w, http.StatusBadRequest, code, "")
			return
		}
		delete(g.uploads, q.Get("uploadId"))
		put := r.Clone(r.Context())
		put.Method = http.MethodPut
		g.forward(w, put, whole)
	}
}

func etag(body []byte) string { return fmt.Sprintf(`"%x"`, md5.Sum(body)) } //nolint:gosec // an ETag is an MD5

func (u *upload) join(list []byte) (whole []byte, code string) {
	var parts struct {
		Part []struct {
			PartNumber int
			ETag       string
		}
	}
	if xml.Unmarshal(list, &parts) != nil || len(parts.Part) == 0 {
		return nil, "MalformedXML"
	}
	for i, p := range parts.Part {
		body, ok := u.parts[p.PartNumber]
		if !ok || p.ETag != etag(body) {
			return nil, "InvalidPart"
		}
		if i < len(parts.Part)-1 && len(body) < 5<<20 {
			return nil, "EntityTooSmall"
		}
		whole = append(whole, body...)
	}
	return whole, ""
}
