package azurekit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/tradewind-broker/tradewind/internal/cloud/azure"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// discovery simulates Azure's login endpoint, which names the token endpoint.
type discovery struct{}

func (discovery) Do(r *http.Request) (*http.Response, error) {
	const at = "https://login.microsoftonline.com/t"
	body := fmt.Sprintf(`{"token_endpoint":"%s/token","issuer":"%s/v2.0","authorization_endpoint":"%s/authorize"}`, at, at, at)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Request: r, Header: http.Header{}}, nil
}

// If the signer of assertions does not answer, the error must be Transient, so that the call is soon repeated. If the
// signer refuses, the error must be Auth.
func TestKindOfAssertionErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want cloud.Kind
	}{{fmt.Errorf("%w: 503", ErrSignerUnavailable), cloud.Transient}, {errors.New("not authorised to sign"), cloud.Auth}} {
		o := &azidentity.ClientAssertionCredentialOptions{DisableInstanceDiscovery: true}
		o.Transport = discovery{}
		s, err := newSigned("t", "c", func(context.Context) (string, error) { return "", c.err }, o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.GetToken(t.Context(), policy.TokenRequestOptions{Scopes: []string{"https://management.azure.com/.default"}})
		if got := cloud.KindOf(azure.Typed(err)); err == nil || got != c.want {
			t.Errorf("%v is %s, want %s", err, got, c.want)
		}
	}
}
