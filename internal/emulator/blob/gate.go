// Package blob is a gate in front of Azurite, which accepts user delegation keys only from Entra and does not support
// the fields srh and srq. The gate gives a delegation key to every caller with a token, checks signatures made with
// it as documented in "Create a user delegation SAS" of the Blob service, from the request as received, and replaces
// them by a service SAS with the same permissions.
package blob

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
)

// Gate is the HTTP server in front of Azurite. Make one with New.
type Gate struct {
	key        *service.SharedKeyCredential
	delegation string // the delegation key, in base64
	server     *httputil.ReverseProxy
}

// New returns the gate of an Azurite, given its account's key.
func New(target string, key *service.SharedKeyCredential, delegation string) (*Gate, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	return &Gate{key: key, delegation: delegation, server: httputil.NewSingleHostReverseProxy(u)}, nil
}

// Delegate returns the answer to Get User Delegation Key.
func Delegate(body io.Reader, key string) (string, error) {
	asked, err := io.ReadAll(io.LimitReader(body, 64<<10))
	if err != nil {
		return "", err
	}
	_, start, _ := strings.Cut(string(asked), "<Start>")
	start, _, _ = strings.Cut(start, "<")
	_, expiry, _ := strings.Cut(string(asked), "<Expiry>")
	expiry, _, _ = strings.Cut(expiry, "<")
	return fmt.Sprintf(`<UserDelegationKey><SignedOid>oid</SignedOid><SignedTid>tid</SignedTid>`+
		`<SignedStart>%s</SignedStart><SignedExpiry>%s</SignedExpiry><SignedService>b</SignedService>`+
		`<SignedVersion>2026-06-06</SignedVersion>`+
		`<Value>%s</Value></UserDelegationKey>`, start, expiry, key), nil
}

func (g *Gate) delegate(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") == "" {
		w.Header().Set("WWW-Authenticate", "Bearer "+
			"authorization_uri=https://login.microsoftonline.com/tid/oauth2/authorize "+
			"resource_id=https://storage.azure.com")
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	answer, err := Delegate(r.Body, g.delegation)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/xml")
	_, _ = io.WriteString(w, answer)
}

// ServeHTTP implements http.Handler.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("comp") == "userdelegationkey" {
		g.delegate(w, r)
		return
	}
	if !q.Has("sig") && strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		g.asOwner(w, r, q)
		return
	}
	_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	container, blob, _ := strings.Cut(path, "/")
	if !g.signed(r, q, path) {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	expires, err := time.Parse(sas.TimeFormat, q.Get("se"))
	if err != nil {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	params, err := sas.BlobSignatureValues{
		Protocol: sas.Protocol(q.Get("spr")), ExpiryTime: expires, Permissions: q.Get("sp"), ContainerName: container,
		BlobName: blob,
	}.SignWithSharedKey(g.key)
	if err != nil {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	rest := url.Values{}
	for _, name := range []string{"comp", "blockid", "restype", "prefix", "marker", "maxresults"} {
		if q.Has(name) {
			rest.Set(name, q.Get(name))
		}
	}
	clean := r.Clone(r.Context())
	clean.URL.RawQuery = strings.TrimPrefix(rest.Encode()+"&"+params.Encode(), "&")
	g.server.ServeHTTP(w, clean)
}

// asOwner forwards the request of an identity with a token. Such an identity may do anything: the gate replaces the
// token by a signature of the account.
func (g *Gate) asOwner(w http.ResponseWriter, r *http.Request, q url.Values) {
	params, err := sas.AccountSignatureValues{
		Protocol: sas.ProtocolHTTPSandHTTP, ExpiryTime: time.Now().Add(time.Hour).UTC(),
		Permissions: (&sas.AccountPermissions{
			Read: true, Write: true, Delete: true, List: true, Create: true,
		}).String(),
		ResourceTypes: (&sas.AccountResourceTypes{Service: true, Container: true, Object: true}).String(),
	}.SignWithSharedKey(g.key)
	if err != nil {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	clean := r.Clone(r.Context())
	clean.Header.Del("Authorization")
	clean.URL.RawQuery = strings.TrimPrefix(q.Encode()+"&"+params.Encode(), "&")
	g.server.ServeHTTP(w, clean)
}

// signed checks the signature for the account's name, and for the name that Azure's SDK derives if the account is at an
// address instead of a separate host: the part before the first dot.
func (g *Gate) signed(r *http.Request, q url.Values, path string) bool {
	first, _, _ := strings.Cut(r.Host, ".")
	for _, account := range []string{g.key.AccountName(), first} {
		if hmac.Equal([]byte(g.signature(r, q, account+"/"+path)), []byte(q.Get("sig"))) {
			return true
		}
	}
	return false
}

func (g *Gate) signature(r *http.Request, q url.Values, path string) string {
	var headers, queries strings.Builder
	for name := range strings.SplitSeq(q.Get("srh"), ",") {
		if name != "" {
			headers.WriteString(name + ":" + r.Header.Get(name) + "\n")
		}
	}
	for name := range strings.SplitSeq(q.Get("srq"), ",") {
		if name != "" {
			queries.WriteString("\n" + name + ":" + q.Get(name))
		}
	}
	text := strings.Join([]string{
		q.Get("sp"), q.Get("st"), q.Get("se"), "/blob/" + path,
		q.Get("skoid"), q.Get("sktid"), q.Get("skt"), q.Get("ske"), q.Get("sks"), q.Get("skv"),
		q.Get("saoid"), q.Get("suoid"), q.Get("scid"), q.Get("skdutid"), q.Get("sduoid"),
		q.Get("sip"), q.Get("spr"), q.Get("sv"), q.Get("sr"), "", q.Get("ses"), headers.String(), queries.String(),
		q.Get("rscc"), q.Get("rscd"), q.Get("rsce"), q.Get("rscl"), q.Get("rsct"),
	}, "\n")
	key, _ := base64.StdEncoding.DecodeString(g.delegation)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
