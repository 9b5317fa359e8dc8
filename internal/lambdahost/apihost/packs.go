package apihost

import (
	"net/http"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/lambdahost/gateway"
	"github.com/tradewind-broker/tradewind/pkg/api"
)

// sleeps says that a request changes nothing that anybody would have to wake up for: it reads, it is an agent's, or it
// asks what to upload.
func sleeps(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead ||
		strings.HasPrefix(r.URL.Path, gateway.AgentPaths) || r.URL.Path == api.MissingPath
}
