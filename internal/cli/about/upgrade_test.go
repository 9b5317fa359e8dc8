package about

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const told = `[
	{"tag_name": "v0.2.0", "body": "- Two.\u001b[31m\n", "html_url": "https://example.org/2", "published_at": "2026-09-01T10:00:00Z"},
	{"tag_name": "v0.10.0", "body": "- Ten.", "html_url": "https://example.org/10", "published_at": "2026-10-01T10:00:00Z"},
	{"tag_name": "v0.11.0-rc.1", "body": "- Not yet."},
	{"tag_name": "v0.12.0", "draft": true}, {"tag_name": "v0.13.0", "prerelease": true}, {"tag_name": "nightly"}
]`

func TestUpgradeListsNewReleases(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/some":
			_, _ = w.Write([]byte(told))
		case "/none":
			_, _ = w.Write([]byte("[]"))
		case "/wrong":
			_, _ = w.Write([]byte("<html>"))
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer server.Close()
	for version, want := range map[string]string{
		"v0.1.0":  "this is v0.1.0; the newest release is v0.10.0||v0.10.0 (2026-10-01) https://example.org/10|  - Ten.||v0.2.0 (2026-09-01) https://example.org/2|  - Two.[31m",
		"0.2.0":   "this is 0.2.0; the newest release is v0.10.0||v0.10.0 (2026-10-01) https://example.org/10|  - Ten.",
		"v0.10.0": "this is v0.10.0, and nothing newer has been released",
		"v1.0.0":  "this is v1.0.0, and nothing newer has been released",
		"dev":     "this is dev; the newest release is v0.10.0||v0.10.0 (2026-10-01) https://example.org/10|  - Ten.",
	} {
		some, err := releases(t.Context(), server.URL+"/some")
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(upgrades(version, some).lines(), "|"); got != want {
			t.Errorf("%s: %q", version, got)
		}
	}
	none, err := releases(t.Context(), server.URL+"/none")
	if got := upgrades("v1.0.0", none).lines(); err != nil || len(got) != 1 || !strings.Contains(got[0], "no version has been released") {
		t.Errorf("%v %q", err, got)
	}
	for path, want := range map[string]string{"/wrong": "is not a list of releases", "/away": "403 Forbidden"} {
		if _, err := releases(t.Context(), server.URL+path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
