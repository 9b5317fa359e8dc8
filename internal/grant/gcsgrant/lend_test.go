package gcsgrant_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/tradewind-broker/tradewind/internal/grant/gcsgrant"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// exchange simulates Google's token service, which no emulator has. It records the request.
type exchange struct{ asked http.Request }

func (e *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	e.asked = *r
	body, err := io.ReadAll(r.Body)
	e.asked.Body = io.NopCloser(strings.NewReader(string(body)))
	if err == nil {
		err = e.asked.ParseForm()
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"access_token":"lent","token_type":"Bearer","expires_in":1800}`)),
	}, err
}

// The requested token must be limited to the bucket, with a condition on the prefix for objects and lists in Google's
// syntax. The suite for lenders cannot run, because no emulator checks such tokens.
func TestLendLimitsTokenToPrefix(t *testing.T) {
	var e exchange
	store, err := gcsgrant.New(gcsgrant.Options{
		Account: "a@p", Sign: gcsgrant.RSA(nil), Client: &http.Client{Transport: &e},
		Token: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "own", Expiry: time.Now().Add(time.Hour)}),
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := store.Lend(t.Context(), grant.Loan{Prefix: "gs://bucket/it's/", Write: true, For: time.Hour})
	if err != nil || c.Token != "lent" || time.Until(c.Expires) > time.Hour {
		t.Fatalf("%v %+v", err, c)
	}
	var got struct {
		AccessBoundary struct {
			AccessBoundaryRules []struct {
				AvailableResource     string
				AvailablePermissions  []string
				AvailabilityCondition struct{ Expression string }
			}
		}
	}
	if err := json.Unmarshal([]byte(e.asked.PostForm.Get("options")), &got); err != nil {
		t.Fatal(err, e.asked.PostForm)
	}
	rule := got.AccessBoundary.AccessBoundaryRules[0]
	want := `resource.name.startsWith("projects/_/buckets/bucket/objects/it's/") || ` +
		`api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith("it's/")`
	if rule.AvailableResource != "//storage.googleapis.com/projects/_/buckets/bucket" ||
		rule.AvailablePermissions[0] != "inRole:roles/storage.objectAdmin" || rule.AvailabilityCondition.Expression != want {
		t.Errorf("asked for %+v", rule)
	}
	if _, err := store.Lend(t.Context(), grant.Loan{Prefix: "gs://bucket/object", For: time.Hour}); !errors.Is(err, grant.ErrURI) {
		t.Errorf("%v", err)
	}
}
