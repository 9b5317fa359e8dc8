package awskit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/awskit"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// account starts the emulated AWS behind a proxy, which answers some actions with an error. "*" means all actions.
func account(t *testing.T, refuse map[string]string) {
	t.Helper()
	endpoint, err := url.Parse(emulator.Moto(t))
	if err != nil {
		t.Fatal(err)
	}
	behind := httputil.NewSingleHostReverseProxy(endpoint)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		for action, answer := range refuse {
			if action == "*" || strings.Contains(string(body), "Action="+action) {
				code, message, _ := strings.Cut(answer, ": ")
				w.Header().Set("Content-Type", "text/xml")
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, "<ErrorResponse><Error><Code>"+code+"</Code><Message>"+message+"</Message></Error>"+
					"<Errors><Error><Code>"+code+"</Code><Message>"+message+"</Message></Error></Errors></ErrorResponse>")
				return
			}
		}
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	for _, kv := range emulator.Env(server.URL) {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	t.Setenv("AWS_PROFILE", "")
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
}

func check(t *testing.T, s cloudkit.Settings) driver.Report {
	t.Helper()
	o, err := awskit.Kit().Open(t.Context(), cloudkit.Request{Settings: s, Deployment: "test", Lookup: os.Getenv})
	if err != nil {
		t.Fatal(err)
	}
	r, err := o.Checker.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCheckReportsAccountAndRegions(t *testing.T) {
	account(t, nil)
	r := check(t, cloudkit.Settings{Regions: []string{"us-east-1", "eu-west-1"}})
	if r.Account != "123456789012" || !strings.HasPrefix(r.Identity, "arn:aws:") || len(r.Regions) != 2 {
		t.Errorf("%+v", r)
	}
	for _, l := range r.Missing {
		if l.Fatal {
			t.Errorf("%+v", l)
		}
	}
}

func TestCheckReportsCloudErrorAndFix(t *testing.T) {
	for name, c := range map[string]struct {
		refuse     map[string]string
		settings   cloudkit.Settings
		fatal      bool
		what, mend string
	}{
		"no such key": {map[string]string{"*": "InvalidClientTokenId: The security token included in the request is invalid."},
			cloudkit.Settings{}, true, "The security token included", "cloud add aws --profile"},
		"a wrong clock": {map[string]string{"*": "SignatureDoesNotMatch: Signature expired: 20261122T080000Z is now earlier than 20261122T081000Z"},
			cloudkit.Settings{}, true, "is now earlier than", "timedatectl"},
		"an expired session": {map[string]string{"*": "ExpiredToken: The security token included in the request is expired"},
			cloudkit.Settings{}, true, "is expired", "aws sso login, or aws configure"},
		"an expired session of STS": {map[string]string{"*": "ExpiredTokenException: The security token included in the request is expired"},
			cloudkit.Settings{}, true, "is expired", "aws sso login, or aws configure"},
		"no rights": {map[string]string{"DescribeVpcs": "UnauthorizedOperation: You are not authorized to perform this operation."},
			cloudkit.Settings{Regions: []string{"us-east-1", "eu-west-1"}}, true, "You are not authorized",
			"aws iam put-user-policy --user-name moto --policy-name tradewind --policy-document"},
		"a region that is not enabled": {nil, cloudkit.Settings{Regions: []string{"us-east-1", "mars-north-1"}}, false, "mars-north-1 is not enabled",
			"aws account enable-region --region-name mars-north-1"},
	} {
		t.Run(name, func(t *testing.T) {
			account(t, c.refuse)
			r := check(t, c.settings)
			for _, l := range r.Missing {
				if strings.Contains(l.What, c.what) && strings.Contains(l.Mend, c.mend) && l.Fatal == c.fatal {
					return
				}
			}
			t.Errorf("%+v", r.Missing)
		})
	}
}

func TestReadyRejectsUnreadableCertificates(t *testing.T) {
	file := filepath.Join(t.TempDir(), "certificates.pem")
	if err := awskit.Kit().Ready(cloudkit.Settings{Certificates: file}, os.Getenv); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(file, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := awskit.Kit().Ready(cloudkit.Settings{Certificates: file}, os.Getenv); err == nil {
		t.Error("a file without certificates is accepted")
	}
}
