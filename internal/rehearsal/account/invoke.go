package account

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/rehearsal/sandbox"
)

// invokePath is the prefix of the path of an invocation, which ends in /invocations (Lambda API, "Invoke").
const invokePath = "/2015-03-31/functions/"

// invoked returns the function that a request invokes, or an empty string.
func invoked(r *http.Request) string {
	name, ok := strings.CutPrefix(r.URL.Path, invokePath)
	if !ok || r.Method != http.MethodPost {
		return ""
	}
	name, _ = strings.CutSuffix(name, "/invocations")
	return name
}

// invoke runs a function synchronously for another one, as Lambda does: a failure of the invoked function is an answer
// with a header, and the payload has the reason.
func (p *Proxy) invoke(w http.ResponseWriter, r *http.Request, name string, body []byte) {
	f := p.functions[name]
	if f == nil {
		w.Header().Set("X-Amzn-Errortype", "ResourceNotFoundException")
		w.WriteHeader(http.StatusNotFound)
		return
	}
	cause := r.Header.Get(traceHeader)
	if f.Recursive(cause) {
		fail(w, "lambda", http.StatusBadRequest, "RecursiveInvocationException", sandbox.ErrRecursive.Error())
		return
	}
	answer, err := f.Invoke(r.Context(), body, cause)
	if errors.Is(err, sandbox.ErrThrottled) {
		fail(w, "lambda", http.StatusTooManyRequests, "TooManyRequestsException", "Rate Exceeded.")
		return
	}
	if err != nil {
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
		answer, _ = json.Marshal(map[string]string{"errorMessage": err.Error()}) // a string
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) //nolint:gosec // not a page
}
