package apihost

import (
	"net/http"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/lambdahost/gateway"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// needsNoWakeUp reports whether a request needs no wake-up: it only reads, is an agent's, asks which pieces to upload,
// or belongs to a visit, which the machine's agent polls for.
func needsNoWakeUp(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead ||
		strings.HasPrefix(r.URL.Path, gateway.AgentPaths) ||
		strings.HasPrefix(r.URL.Path, gateway.PushPaths) || r.URL.Path == apitypes.MissingPath || visits(r.URL.Path)
}

// visits reports whether a path is /v1/jobs/JOB/tasks/TASK/visits or /v1/jobs/JOB/visits/ATTEMPT/VISIT/SIDE.
func visits(path string) bool {
	at := strings.Split(path, "/")
	return len(at) > 6 && at[2] == "jobs" &&
		(at[4] == "visits" || len(at) == 7 && at[4] == "tasks" && at[6] == "visits")
}
