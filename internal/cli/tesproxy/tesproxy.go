// Package tesproxy is the command tes: clients of GA4GH TES on this computer use a broker whose API they cannot speak
// to themselves. A deployment on AWS has its API behind IAM, which wants each request signed, and no TES client signs.
//
// A proxy listens on loopback, knows its clients by a token of its own, and passes on the paths of TES alone, with the
// authority of whoever started it.
package tesproxy

import (
	"errors"
	"net/http"
	"path"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/signin"
	"github.com/tradewind-broker/tradewind/internal/cli/loopback"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// Handler passes on what clients that bear the token ask of TES. The token comes as TES has it: as a bearer, or as the
// password of basic authentication.
func Handler(to loopback.Asked, token string) http.Handler {
	known := signin.New(token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !known.Matches(bearer(r)):
			w.Header().Set("WWW-Authenticate", `Bearer realm="tradewind tes"`)
			loopback.Refuse(w, http.StatusUnauthorized, "the token is missing or wrong: `tradewind tes` has printed it")
		case !ours(r.URL.EscapedPath()):
			loopback.Refuse(w, http.StatusNotFound, "only what is below "+api.TESPath+" is passed on")
		default:
			pass(to, w, r)
		}
	})
}

// bearer is the token of a request, "" where it has none.
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

// ours says whether a path, escaped as it came, is one of TES. What means another path once it is cleaned is not:
// neither points nor slashes may be hidden.
func ours(p string) bool {
	lower := strings.ToLower(p)
	return strings.HasPrefix(p, api.TESPath+"/") && path.Clean(p) == p &&
		!strings.Contains(lower, "%2e") && !strings.Contains(lower, "%2f") && !strings.Contains(lower, "%5c")
}

func pass(to loopback.Asked, w http.ResponseWriter, r *http.Request) {
	res, err := to.Pass(r.Context(), r)
	switch {
	case errors.Is(err, client.ErrTooLarge):
		loopback.Refuse(w, http.StatusRequestEntityTooLarge, err.Error())
		return
	case err != nil:
		loopback.Refuse(w, http.StatusBadGateway, err.Error())
		return
	}
	defer res.Body.Close() //nolint:errcheck // only read from
	if v := res.Header.Get("Content-Type"); v != "" {
		w.Header().Set("Content-Type", v)
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(res.StatusCode)
	loopback.Copy(w, res.Body)
}
