package vault

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azsecrets"
	keyvault "github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azsecrets/fake"
)

// versions are the API versions with the same description of Get Secret.
var versions = []string{"7.3", "7.4", "7.5", "7.6"}

// oneSecret matches the path of Get Secret; here, its first part is the vault's name, not its address.
var oneSecret = regexp.MustCompile(`^/([A-Za-z0-9-]+)(/secrets/[A-Za-z0-9-]+(?:/[A-Za-z0-9]*)?)$`)

// Azure is Key Vault. Each vault is the first part of a path. Like the real service, it rejects requests without a
// token, and the response contains the address at which the caller can get one.
type Azure struct {
	kept Secrets
	// token is the required token; "" accepts any.
	token string
}

// NewAzure returns a Key Vault with secrets that requires a token.
func NewAzure(kept Secrets, token string) *Azure { return &Azure{kept: kept, token: token} }

// ServeHTTP implements http.Handler.
func (a *Azure) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	path := oneSecret.FindStringSubmatch(r.URL.Path)
	switch {
	case !bearer:
		w.Header().Set("WWW-Authenticate", `Bearer authorization="https://login.microsoftonline.com/tid", `+
			`resource="https://vault.azure.net"`)
		writeError(w, http.StatusUnauthorized, "AKV10000: Request is missing a Bearer or PoP token.")
	case a.token != "" && token != a.token:
		writeError(w, http.StatusForbidden, "Caller is not authorized to perform action on resource.")
	case r.Method != http.MethodGet || path == nil:
		writeError(w, http.StatusNotImplemented, "not described: "+r.Method+" "+r.URL.Path)
	case !slices.Contains(versions, r.URL.Query().Get("api-version")):
		writeError(w, http.StatusBadRequest, "The specified version is not recognized.")
	default:
		a.get(w, r, path[1], path[2])
	}
}

// get lets the SDK's fake server read the request and write the answer.
func (a *Azure) get(w http.ResponseWriter, r *http.Request, vault, path string) {
	var refusal Secret
	server := keyvault.NewServerTransport(&keyvault.Server{
		GetSecret: func(_ context.Context, name, version string, _ *azsecrets.GetSecretOptions) (
			resp fake.Responder[azsecrets.GetSecretResponse], errResp fake.ErrorResponder) {
			id := vault + "/" + name
			if version != "" {
				id += "/" + version
			}
			s, ok := a.kept[id]
			switch {
			case !ok:
				refusal = Secret{Status: http.StatusNotFound,
					Message: "A secret with (name/id) " + id + " was not found in this key vault."}
			case s.Status != 0:
				refusal = s
			}
			full := azsecrets.ID("https://" + vault + ".vault.azure.net/secrets/" + name + "/" + version)
			resp.SetResponse(http.StatusOK,
				azsecrets.GetSecretResponse{Secret: azsecrets.Secret{ID: &full, Value: &s.Value}}, nil)
			return resp, errResp
		},
	})
	r = r.Clone(context.WithValue(r.Context(), runtime.CtxAPINameKey{}, "Client.GetSecret"))
	r.URL.Path, r.URL.RawPath = strings.TrimSuffix(path, "/"), ""
	res, err := server.Do(r)
	switch {
	case err != nil:
		writeError(w, http.StatusNotImplemented, "not described: "+err.Error())
		return
	case refusal.Status != 0:
		writeError(w, refusal.Status, refusal.Message)
		return
	}
	defer res.Body.Close() //nolint:errcheck // in memory
	w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
	w.WriteHeader(res.StatusCode)
	_, _ = io.Copy(w, res.Body)
}
