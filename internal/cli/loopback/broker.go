package loopback

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// Asked passes requests on to a broker; see client.Client.Pass.
type Asked interface {
	Pass(ctx context.Context, r *http.Request) (*http.Response, error)
}

// LetIn sees by asking for a path whether the broker that is somewhere lets us in, before anybody is told that it does.
// otherwise is what to do where it answers in another way.
func LetIn(ctx context.Context, a *command.App, b Asked, where, path, otherwise string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
	if err != nil {
		return err
	}
	res, err := b.Pass(ctx, r)
	if err != nil {
		return command.Because(err, command.ExitFailed, "", "%v", err)
	}
	defer res.Body.Close() //nolint:errcheck // only its status matters
	switch res.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized, http.StatusForbidden:
		hint := "$" + client.EnvToken + " has to have its token; to an API on AWS behind a name of its own, $" +
			client.EnvSign + " says the region"
		if _, region, err := client.ReadEndpoint(where, a.Lookup(client.EnvSign)); err == nil && region != "" {
			hint = "`aws sts get-caller-identity` says whom it takes you for; it needs execute-api:Invoke"
		}
		return command.Failed(hint, "%s refuses these credentials: %s", where, res.Status)
	default:
		return command.Failed(otherwise, "%s answers %s", where, res.Status)
	}
}

// Copy passes on an answer that has begun. Of one that breaks off the connection is cut: it would look whole.
func Copy(w io.Writer, answer io.Reader) {
	if _, err := io.Copy(w, answer); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// Refuse answers as the API does where it refuses.
func Refuse(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{ // to whoever still listens
		"title": http.StatusText(status), "status": status, "detail": detail,
	})
}
