package vault_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azsecrets"

	"github.com/tradewind-broker/tradewind/internal/emulator/vault"
)

type token string

func (t token) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: string(t)}, nil
}

// TestKeyVaultWithSDK: Azure's own client must be able to read the emulator's secrets. Its first request has no
// token.
func TestKeyVaultWithSDK(t *testing.T) {
	version := strings.Repeat("0a", 16)
	server := httptest.NewTLSServer(vault.NewAzure(vault.Secrets{
		"team/hf": {Value: "hunter2"}, "team/hf/" + version: {Value: "older"},
		"team/off": {Status: http.StatusForbidden, Message: "Operation get is not allowed on a disabled secret."},
	}, "mine"))
	t.Cleanup(server.Close)
	open := func(who token) *azsecrets.Client {
		c, err := azsecrets.NewClient(server.URL+"/team", who, &azsecrets.ClientOptions{
			ClientOptions:                        azcore.ClientOptions{Transport: server.Client()},
			DisableChallengeResourceVerification: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, c := range []struct{ who, name, version, want string }{
		{"mine", "hf", "", "hunter2"}, {"mine", "hf", version, "older"}, {"mine", "none", "", "404 was not found"},
		{"mine", "off", "", "403 disabled secret"}, {"other", "hf", "", "403 not authorized"},
	} {
		got, err := open(token(c.who)).GetSecret(t.Context(), c.name, c.version, nil)
		status, words, refused := strings.Cut(c.want, " ")
		var said *azcore.ResponseError
		switch {
		case !refused:
			if err != nil || got.Value == nil || *got.Value != c.want {
				t.Errorf("%v: %v %v", c, got.Value, err)
			}
		case !errors.As(err, &said) || !strings.Contains(err.Error(), status) || !strings.Contains(err.Error(), words):
			t.Errorf("%v: %v", c, err)
		}
	}
}
