package loopback

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// Broker forwards requests to a broker; see client.Client.Pass.
type Broker interface {
	Pass(ctx context.Context, r *http.Request) (*http.Response, error)
}

// CheckAccess requests a path to check that the broker at where accepts our credentials, before the command reports
// success. otherwise is the hint for any other response.
func CheckAccess(ctx context.Context, a *command.App, b Broker, where, path, otherwise string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
	if err != nil {
		return err
	}
	res, err := b.Pass(ctx, r)
	if err != nil {
		return command.Because(err, command.ExitFailed, "", "%v", err)
	}
	defer res.Body.Close() //nolint:errcheck // only the status matters
	switch res.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized, http.StatusForbidden:
		hint := "$" + client.EnvToken + " must contain its token; for an AWS API with a custom domain, set $" +
			client.EnvSign + " to the region"
		if _, region, err := client.ReadEndpoint(where, a.Lookup(client.EnvSign)); err == nil && region != "" {
			hint = "`aws sts get-caller-identity` shows your identity; it needs execute-api:Invoke"
		}
		return command.Failed(hint, "%s refuses these credentials: %s", where, res.Status)
	default:
		return command.Failed(otherwise, "%s responded %s", where, res.Status)
	}
}

// Copy forwards a response that has begun. If it breaks off, Copy cuts the connection, so that it does not look
// complete.
func Copy(w io.Writer, answer io.Reader) {
	if _, err := io.Copy(w, answer); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// Refuse responds with a problem document, as the API does.
func Refuse(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{ // the client may have gone
		"title": http.StatusText(status), "status": status, "detail": detail,
	})
}
