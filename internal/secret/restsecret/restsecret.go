// Package restsecret fetches secrets from Google Secret Manager, Azure Key Vault and Kubernetes through their HTTP
// APIs. Each needs only one request; the clouds' libraries would be a hundred times the size of this package. The
// http.Client of a source is authenticated.
package restsecret

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/tradewind-broker/tradewind/internal/secret"
)

// Client returns a client that is authenticated as an account that may read secrets. It is called at the first fetch.
type Client func(context.Context) (*http.Client, error)

// maxAnswer is the maximum number of bytes that are read of a response. A secret has at most 64 KiB at Google and 25 KB
// in Key Vault, and all keys of a Kubernetes Secret have at most 1 MiB together; base64 adds a third.
const maxAnswer = 2 << 20

// get decodes a JSON response into out. If a retry cannot help, it returns a secret.ErrUnavailable with the server's
// message.
func get(ctx context.Context, client Client, url string, out any) error {
	c, err := client(ctx)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return err
	}
	if res.StatusCode == http.StatusOK {
		if json.Unmarshal(body, out) != nil { // without its error, which would show a part of the secret
			return fmt.Errorf("the answer of %s is not valid JSON", req.URL.Host)
		}
		return nil
	}
	why := words(body)
	if why == "" {
		why = req.URL.Host + " answered " + res.Status
	}
	switch res.StatusCode {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound:
		return fmt.Errorf("%w: %s", secret.ErrUnavailable, why)
	}
	return errors.New(why)
}

// words returns the message of an error response. Google and Azure send it as error.message, Kubernetes as message.
func words(body []byte) string {
	var refusal struct {
		Message string `json:"message"`
		Error   struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &refusal) != nil {
		return ""
	}
	if refusal.Error.Message != "" {
		return refusal.Error.Message
	}
	return refusal.Message
}

// malformed returns the error for a reference with the wrong format.
func malformed(want string) error {
	return fmt.Errorf("%w: the format is %s", secret.ErrUnavailable, want)
}
