package loopback

import (
	"errors"
	"net/http"
	"path"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/signin"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// TESHandler forwards only the paths of TES, of GA4GH clients that send the token. As TES defines, the token is a
// bearer token or the password of basic authentication.
func TESHandler(to Broker, token string) http.Handler {
	known := signin.New(token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !known.Matches(bearer(r)):
			w.Header().Set("WWW-Authenticate", `Bearer realm="tradewind tes"`)
			Refuse(
				w,
				http.StatusUnauthorized,
				"the token is missing or wrong: use the one that `tradewind tes` printed",
			)
		case !isTESPath(r.URL.EscapedPath()):
			Refuse(w, http.StatusNotFound, "only paths below "+api.TESPath+" are forwarded")
		default:
			forward(to, w, r)
		}
	})
}

// bearer returns the token of a request, or "".
func bearer(r *http.Request) string {
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}

// isTESPath reports whether an escaped path belongs to TES. It rejects a path that changes when cleaned, and escaped
// dots and slashes.
func isTESPath(p string) bool {
	lower := strings.ToLower(p)
	return strings.HasPrefix(p, api.TESPath+"/") && path.Clean(p) == p &&
		!strings.Contains(lower, "%2e") && !strings.Contains(lower, "%2f") && !strings.Contains(lower, "%5c")
}

func forward(to Broker, w http.ResponseWriter, r *http.Request) {
	res, err := to.Pass(r.Context(), r)
	switch {
	case errors.Is(err, client.ErrTooLarge):
		Refuse(w, http.StatusRequestEntityTooLarge, err.Error())
		return
	case err != nil:
		Refuse(w, http.StatusBadGateway, err.Error())
		return
	}
	defer res.Body.Close() //nolint:errcheck // only read
	if v := res.Header.Get("Content-Type"); v != "" {
		w.Header().Set("Content-Type", v)
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(res.StatusCode)
	Copy(w, res.Body)
}
