package vault

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	_ "embed"
)

// description is an excerpt of the discovery document of Secret Manager in google-api-python-client.
//
//go:embed secretmanager.v1.json
var description []byte

// Google is Secret Manager. It rejects requests that are not described. Make one with NewGoogle.
type Google struct {
	kept   Secrets
	method string
	prefix string // of a path, before the secret's name
	suffix string
	name   *regexp.Regexp
	// Sum computes the checksum of a value: CRC32C, unless a test replaces it.
	Sum func([]byte) uint32
}

// NewGoogle returns a Secret Manager with secrets.
func NewGoogle(kept Secrets) (*Google, error) {
	var d struct {
		Access  struct{ HTTPMethod, Path, Name string }
		Schemas map[string]map[string]struct {
			Format string
			Ref    string `json:"$ref"`
		}
	}
	if err := json.Unmarshal(description, &d); err != nil {
		return nil, err
	}
	payload := d.Schemas[d.Schemas["AccessSecretVersionResponse"]["payload"].Ref]
	if payload["data"].Format != "byte" || payload["dataCrc32c"].Format != "int64" {
		return nil, fmt.Errorf("vault: unexpected description of a payload: %v", payload)
	}
	prefix, suffix, _ := strings.Cut(d.Access.Path, "{+name}")
	name, err := regexp.Compile(d.Access.Name)
	return &Google{
		kept: kept, method: d.Access.HTTPMethod, prefix: "/" + prefix, suffix: suffix, name: name, Sum: castagnoli,
	}, err
}

func castagnoli(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// ServeHTTP implements http.Handler.
func (g *Google) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, g.prefix), g.suffix)
	s, ok := g.kept[asked]
	switch {
	case r.Method != g.method || r.URL.Path != g.prefix+asked+g.suffix || !g.name.MatchString(asked):
		writeError(w, http.StatusNotImplemented, "not described: "+r.URL.Path)
	case !ok:
		writeError(w, http.StatusNotFound, "Secret ["+asked+"] not found or has no versions.")
	case s.Status != 0:
		writeError(w, s.Status, s.Message)
	default:
		answer(w, map[string]any{"name": asked, "payload": map[string]string{
			"data":       base64.StdEncoding.EncodeToString([]byte(s.Value)),
			"dataCrc32c": strconv.FormatUint(uint64(g.Sum([]byte(s.Value))), 10),
		}})
	}
}

func writeError(w http.ResponseWriter, status int, words string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": status, "message": words}})
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}
