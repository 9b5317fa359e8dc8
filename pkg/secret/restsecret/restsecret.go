// Package restsecret fetches secrets from Google Secret Manager, from Azure Key Vault and from Kubernetes by their HTTP
// APIs. Each takes one request, for which the clouds' libraries would be a hundred times its size. Who asks is told by
// the http.Client that a source is given.
package restsecret

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/tradewind-broker/tradewind/pkg/secret"
)

// Client makes requests in the name of who may read secrets. It is asked for when something is first fetched.
type Client func(context.Context) (*http.Client, error)

// most is how much of an answer is read. Google keeps 64 KiB in a secret, Key Vault 25 KB, Kubernetes 1 MiB in all of
// one's keys; base64 takes a third more.
const most = 2 << 20

// get reads a JSON answer into out. What the server refuses for good is an ErrReference in its words.
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
	defer res.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(io.LimitReader(res.Body, most))
	if err != nil {
		return err
	}
	if res.StatusCode == http.StatusOK {
		if json.Unmarshal(body, out) != nil { // whose error would show some of it
			return fmt.Errorf("%s answered what is no JSON", req.URL.Host)
		}
		return nil
	}
	why := words(body)
	if why == "" {
		why = req.URL.Host + " answered " + res.Status
	}
	switch res.StatusCode {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound:
		return fmt.Errorf("%w: %s", secret.ErrReference, why)
	}
	return errors.New(why)
}

// words are what an answer says of a refusal: in its field error at Google and Azure, in its message at Kubernetes.
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

// malformed says what a reference should look like.
func malformed(want string) error {
	return fmt.Errorf("%w: it is to be written %s", secret.ErrReference, want)
}
