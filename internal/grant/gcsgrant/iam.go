package gcsgrant

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const iam = "https://iamcredentials.googleapis.com"

// longestByIAM is the minimum lifetime of the key with which signBlob signs. A signed URL is refused after that time
// (Cloud Storage documentation, "Signed URLs", "Considerations"; `gcloud storage sign-url --duration`: 12 hours with
// an account's system-managed key).
const longestByIAM = 12 * time.Hour

// ByIAM signs through IAM for an account (IAM Service Account Credentials API, projects.serviceAccounts.signBlob).
// The client's identity must be allowed to do so. An empty endpoint means Google's own.
func ByIAM(client *http.Client, endpoint, email string) Signer {
	if endpoint == "" {
		endpoint = iam
	}
	target := endpoint + "/v1/projects/-/serviceAccounts/" + url.PathEscape(email) + ":signBlob"
	sign := func(ctx context.Context, payload []byte) ([]byte, error) {
		body, err := json.Marshal(map[string]string{"payload": base64.StdEncoding.EncodeToString(payload)})
		if err != nil {
			return nil, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close() //nolint:errcheck // read
		text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		if err != nil {
			return nil, err
		}
		var answer struct {
			SignedBlob []byte
			Error      struct{ Message string }
		}
		if err := json.Unmarshal(text, &answer); err != nil || resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("sign as %s: %s %s", email, resp.Status, answer.Error.Message)
		}
		return answer.SignedBlob, nil
	}
	return Signer{Func: sign, Longest: longestByIAM}
}
