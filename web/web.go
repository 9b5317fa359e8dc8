// Package web is the dashboard: a page in the binary that shows jobs, draws their DAGs and attempts as they run, shows
// what they cost, and explains why they run where they do. It also plans a job before it is submitted, and shows
// queues, spot markets and clouds.
//
// It consists of plain ES modules and style sheets in static/: there is no build step, nothing is loaded from other
// sites, and its content security policy allows nothing else to run. Third-party code is in static/vendor, with its
// licence.
//
// The page calls the API (internal/api) with the session that it gets at sign-in (internal/api/signin).
package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed static
var static embed.FS

// policy allows the page to run its own scripts and styles and to call its own host, and nothing else. Requiring
// trusted types without defining any policy ensures that text from a job is never interpreted as HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types " +
	"'none'"

// asset is one file with its headers.
type asset struct {
	body        []byte
	contentType string
	etag        string
}

// Handler serves the dashboard at / and its files below /assets/.
func Handler() (http.Handler, error) {
	assets, err := load()
	if err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/assets/")
		if r.URL.Path == "/" {
			name = "index.html"
		}
		a, ok := assets[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
		h.Set("Cache-Control", "no-cache") // cached, but revalidated: a new binary serves a new page
		h.Set("Content-Type", a.contentType)
		h.Set("ETag", a.etag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.body))
	}), nil
}

// load reads all embedded files.
func load() (map[string]asset, error) {
	assets := map[string]asset{}
	err := fs.WalkDir(static, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := static.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(body)
		assets[strings.TrimPrefix(name, "static/")] = asset{
			body: body, contentType: contentType(name), etag: `"` + hex.EncodeToString(sum[:12]) + `"`,
		}
		return nil
	})
	return assets, err
}

// contentType depends only on the file extension, not on the machine's MIME configuration.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".txt":
		return "text/plain; charset=utf-8"
	}
	return mime.TypeByExtension(path.Ext(name))
}
