package apihost

import (
	"net/http"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/lambdahost/gateway"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// sleeps says that a request changes nothing that anybody would have to wake up for: it reads, it is an agent's, it
// asks what to upload, or it is of a visit, which the machine's agent hears of by itself.
func sleeps(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead ||
		strings.HasPrefix(r.URL.Path, gateway.AgentPaths) ||
		strings.HasPrefix(r.URL.Path, gateway.PushPaths) || r.URL.Path == apitypes.MissingPath || visits(r.URL.Path)
}

// visits says that a path is of /v1/jobs/JOB/tasks/TASK/visits, or of /v1/jobs/JOB/visits/ATTEMPT/VISIT/SIDE.
func visits(path string) bool {
	at := strings.Split(path, "/")
	return len(at) > 6 && at[2] == "jobs" &&
		(at[4] == "visits" || len(at) == 7 && at[4] == "tasks" && at[6] == "visits")
}
